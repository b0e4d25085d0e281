from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

from shiftcal.calibrators import CALIBRATORS
from shiftcal.core.errors import InvalidInputError, UnknownNameError
from shiftcal.core.options import as_dict, build, describe, option, option_names
from shiftcal.methods import METHODS
from shiftcal.target.density_ratios import DENSITY_RATIOS
from shiftcal.target.estimators import ESTIMATORS
from shiftcal.training.options import TrainingOptions


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Options of every type that is supported."""

    rate: float = option(0.1, "step size", above=0, below=1)
    share: float = option(0.5, "a share", at_least=0, at_most=1)
    count: int = option(3, "how many", at_least=1)
    clip: float | None = option(None, "largest norm", above=0)
    kind: Literal["adamw", "sgd"] = option("adamw", "which optimiser")
    name: str = option("auto", "a name")
    flip: bool = option(True, "mirror images")
    derived: int = field(default=7, init=False)


@dataclass(frozen=True, kw_only=True)
class WithPresets(Settings):
    """The same with options that go together."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {"rate": 0.01, "kind": "sgd"}}


def test_a_preset_stands_for_options_and_those_beside_it_count_more() -> None:
    assert build(WithPresets, {"preset": "paper"}, owner="tests") == WithPresets(rate=0.01, kind="sgd")
    assert build(WithPresets, {"rate": 0.2, "preset": "paper"}, owner="tests") == WithPresets(rate=0.2, kind="sgd")
    assert "preset" in option_names(WithPresets)
    words = "options that go together. paper: rate=0.01, kind=sgd"
    assert describe(WithPresets)[-1] == ("preset", "paper", "None", words)
    with pytest.raises(UnknownNameError, match=r"unknown preset of tests 'papper'. Did you mean 'paper'\?"):
        build(WithPresets, {"preset": "papper"}, owner="tests")
    with pytest.raises(UnknownNameError, match="unknown option of tests 'preset'"):
        build(Settings, {"preset": "paper"}, owner="tests")


@pytest.mark.parametrize(("name", "cls"), METHODS.items())
def test_presets_are_of_options_that_there_are(name: str, cls: type) -> None:
    for preset in getattr(cls, "presets", {}):
        assert build(cls, {"preset": preset}, owner=name) != build(cls, {}, owner=name)


def built(**options: Any) -> Settings:
    return build(Settings, options, owner="tests")


def test_without_options_the_defaults_hold() -> None:
    assert build(Settings, None, owner="tests") == build(Settings, {}, owner="tests") == Settings()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"rate": "1e-3"}, 1e-3),
        ({"rate": np.float32(0.5)}, 0.5),
        ({"share": 1}, 1.0),
        ({"share": 0}, 0.0),
        ({"count": 4.0}, 4),
        ({"count": "1e2"}, 100),
        ({"count": np.int64(5)}, 5),
        ({"count": 2**63 + 1}, 2**63 + 1),
        ({"clip": None}, None),
        ({"clip": 2}, 2.0),
        ({"kind": "sgd"}, "sgd"),
        ({"name": "1e-3"}, "1e-3"),
        ({"flip": False}, False),
    ],
)
def test_values_become_the_declared_type(options: dict[str, Any], expected: object) -> None:
    (name,) = options
    value = getattr(built(**options), name)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0}, "option 'rate' of tests must be a number of more than 0 and less than 1. Got 0 instead."),
        ({"rate": 1.0}, "option 'rate' of tests must be a number of more than 0 and less than 1. Got 1.0 instead."),
        ({"share": 1.01}, "option 'share' of tests must be a number of at least 0 and at most 1. Got 1.01 instead."),
        (
            {"share": -0.01},
            "option 'share' of tests must be a number of at least 0 and at most 1. Got -0.01 instead.",
        ),
        ({"count": 0}, "option 'count' of tests must be a whole number of at least 1. Got 0 instead."),
        ({"count": 1.5}, "option 'count' of tests must be a whole number of at least 1. Got 1.5 instead."),
        ({"clip": 0}, "option 'clip' of tests must be a number of more than 0 or None. Got 0 instead."),
        ({"kind": "adam"}, "option 'kind' of tests must be 'adamw' or 'sgd'. Got 'adam' instead."),
        ({"name": 3}, "option 'name' of tests must be text. Got 3 instead."),
        ({"flip": 1}, "option 'flip' of tests must be true or false. Got 1 instead."),
    ],
)
def test_messages_say_what_was_expected_and_what_came(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        built(**options)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    "value", [True, np.True_, "fast", "nan", float("inf"), pytest.param(10**400, id="huge"), [1], {}]
)
def test_what_is_no_finite_number_is_refused(value: object) -> None:
    for name in ("rate", "count", "clip"):
        with pytest.raises(InvalidInputError, match=f"option '{name}' of tests must be a"):
            built(**{name: value})


def test_none_is_refused_where_it_is_not_declared() -> None:
    with pytest.raises(InvalidInputError, match=r"a number of more than 0 and less than 1\. Got None instead"):
        built(rate=None)


def test_unknown_names_suggest_the_closest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown option of tests 'rte'\. Did you mean 'rate'\?"):
        built(rte=0.5)


def test_what_the_constructor_does_not_take_is_no_option() -> None:
    assert option_names(Settings) == ("rate", "share", "count", "clip", "kind", "name", "flip")
    with pytest.raises(UnknownNameError, match="unknown option of tests 'derived'"):
        built(derived=1)


def test_as_dict_rebuilds_the_instance() -> None:
    settings = built(count=9, clip=0.5)
    values = as_dict(settings)
    assert tuple(values) == option_names(Settings)
    assert build(Settings, values, owner="tests") == settings


def test_describe_gives_type_default_and_documentation() -> None:
    rows = {name: rest for name, *rest in describe(Settings)}
    assert tuple(rows) == option_names(Settings)
    assert rows["rate"] == ["a number", "0.1", "step size"]
    assert rows["clip"] == ["a number or None", "None", "largest norm"]
    assert rows["kind"] == ["'adamw' or 'sgd'", "'adamw'", "which optimiser"]
    assert rows["flip"] == ["true or false", "True", "mirror images"]


def test_options_of_other_types_are_a_mistake_of_the_programmer() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Odd:
        sizes: list = option(None, "sizes")  # type: ignore[type-arg]

    Odd.__annotations__["sizes"] = list
    with pytest.raises(TypeError, match="options of type <class 'list'> are not supported"):
        build(Odd, {"sizes": [1]}, owner="tests")


OPTION_CLASSES: dict[str, type] = {**METHODS, **CALIBRATORS, "training": TrainingOptions}


def test_every_registered_default_passes_its_own_check() -> None:
    for cls in OPTION_CLASSES.values():
        assert as_dict(build(cls, as_dict(cls()), owner="tests")) == as_dict(cls())
        assert all(doc for *_, doc in describe(cls))


RATIOS = {**DENSITY_RATIOS, **ESTIMATORS}


def test_no_whole_number_is_without_a_limit() -> None:
    """Memory and time that an option asks for are bounded before anything is done."""
    for cls in (OPTION_CLASSES | RATIOS).values():
        for name, kind, *_ in describe(cls):
            if "whole number" in kind:
                with pytest.raises(
                    InvalidInputError, match=f"'{name}' of tests must be .* at most [0-9,]+.* Got '?1e\\+?30"
                ):
                    build(cls, {name: 1e30}, owner="tests")


def test_whole_numbers_given_as_text_are_exact() -> None:
    assert built(count=str(2**63 + 1)).count == 2**63 + 1


def test_text_is_plain_text() -> None:
    class Kind(StrEnum):
        SGD = "sgd"

    settings = built(kind=Kind.SGD, name=np.str_("auto"))
    assert (type(settings.kind), type(settings.name)) == (str, str)
    assert settings.kind == "sgd"


@pytest.mark.parametrize("value", [np.zeros(2), "x" * 100_000, [10**5000], {"a": object()}, b"auto"])
def test_messages_stay_short_whatever_came(value: object) -> None:
    for name in ("rate", "kind", "flip"):
        with pytest.raises(InvalidInputError) as raised:
            built(**{name: value})
        assert len(str(raised.value)) < 500


def test_no_method_shares_an_option_name_with_training() -> None:
    for name in METHODS:
        # `--set key=value` finds the owner of an option by its name alone.
        assert not set(option_names(METHODS[name])) & set(option_names(TrainingOptions))
