from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from shiftcal.calibrators import CALIBRATORS
from shiftcal.calibrators.cpcs import Cpcs
from shiftcal.calibrators.temperature import Temperature
from shiftcal.core.errors import DataUnavailableError, InvalidInputError, UnknownNameError
from shiftcal.core.options import option
from shiftcal.methods import METHODS
from shiftcal.runs.config import RunConfig, config_from, read_config
from shiftcal.runs.folder import RunFolder


def read(tmp_path: Path, text: str) -> RunConfig:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return read_config(path)


@pytest.mark.parametrize(
    ("method", "calibrator"), [*((name, None) for name in METHODS), *(("source-only", name) for name in CALIBRATORS)]
)
def test_what_a_run_writes_can_be_run_again(tmp_path: Path, method: str, calibrator: str | None) -> None:
    config = RunConfig(
        source="digits/mnist",
        target="my data/größe",
        method=method,
        calibrator=calibrator,
        image_size=28,
        label="größe",
        ignore=["a", "b, c"],
        method_options={"learning_rate": "1e-5"},
        calibrator_options={"num_bins": 7} if calibrator == "histogram" else {},
        training={"epochs": 2, "gradient_clip": None},
    )
    folder = RunFolder(tmp_path)
    folder.write_config({**config.data(), **config.recipe().as_plain()})
    again = read_config(folder.config)
    assert again.data() == config.data()
    assert again.recipe() == config.recipe()
    assert again.recipe().method.learning_rate == 1e-5


def test_the_source_alone_is_enough(tmp_path: Path) -> None:
    assert read(tmp_path, "source: digits/mnist") == RunConfig(source="digits/mnist")


def test_settings_go_to_whoever_has_the_option() -> None:
    config = RunConfig(source="s", method_options={"weight_decay": 0.1}, training={"epochs": 1})
    changed = config.with_settings(
        ["learning_rate=1e-2", "weight_decay=0", "batch_size=8", "horizontal_flip=false", "device=cuda:1", "epochs="]
    )
    recipe = changed.recipe()
    assert (recipe.method.learning_rate, recipe.method.weight_decay) == (0.01, 0.0)
    assert (recipe.training.batch_size, recipe.training.horizontal_flip) == (8, False)
    assert (recipe.training.device, recipe.training.epochs) == ("cuda:1", None)
    assert config == RunConfig(source="s", method_options={"weight_decay": 0.1}, training={"epochs": 1})


def test_settings_reach_the_calibrator() -> None:
    config = RunConfig(source="s", calibrator="cpcs", calibrator_options={"ratio": "model", "ratio_penalty": 3.0})
    changed = config.with_settings(["ratio=gaussian", "calibrator.largest_weight=", "training.epochs=2"])
    assert changed.recipe().calibrator == Cpcs(ratio="gaussian", ratio_penalty=3.0, largest_weight=None)
    assert changed.training == {"epochs": 2}


def test_a_name_that_several_have_needs_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Slow(Temperature):
        learning_rate: float = option(0.1, "as methods have it", above=0)

    monkeypatch.setitem(CALIBRATORS, "slow", Slow)
    config = RunConfig(source="s", method="source-only", calibrator="slow")
    with pytest.raises(
        InvalidInputError,
        match=r"method 'source-only' and calibrator 'slow' each have an option 'learning_rate'; "
        r"write method\.learning_rate=\.\.\. or calibrator\.learning_rate=\.\.\.",
    ):
        config.with_settings(["learning_rate=0.5"])
    recipe = config.with_settings(["calibrator.learning_rate=0.5", "method.learning_rate=0.25"]).recipe()
    assert (recipe.method.learning_rate, recipe.calibrator) == (0.25, Slow(learning_rate=0.5))


def test_an_owner_must_have_the_option() -> None:
    config = RunConfig(source="s", method="source-only", calibrator="histogram")
    with pytest.raises(UnknownNameError, match=r"of calibrator 'histogram' 'num_bin'\. Did you mean 'num_bins'"):
        config.with_settings(["calibrator.num_bin=3"])
    with pytest.raises(InvalidInputError, match=r"method or calibrator or training before \.epochs; got 'x'"):
        config.with_settings(["x.epochs=3"])
    with pytest.raises(InvalidInputError, match=r"training before \.num_bins, and choose a calibrator first"):
        RunConfig(source="s", method="drl").with_settings(["calibrator.num_bins=3"])


def test_the_last_of_equal_settings_holds() -> None:
    assert RunConfig(source="s").with_settings(["epochs=1", "epochs=2"]).training == {"epochs": 2}


@pytest.mark.parametrize("text", ["[", "2024-13-45", "a: b: c", "\x00"])
def test_settings_that_are_no_yaml_are_text_and_then_checked(text: str) -> None:
    with pytest.raises(
        InvalidInputError,
        match="option 'epochs' of training must be a whole number of at least 1 and at most 1,000,000 or None",
    ):
        RunConfig(source="s").with_settings([f"epochs={text}"]).recipe()


def test_unknown_settings_suggest_options_of_both() -> None:
    config = RunConfig(source="s", method="source-only")
    with pytest.raises(UnknownNameError, match=r"'source-only' or of training 'learning_rat'.*mean 'learning_rate'"):
        config.with_settings(["learning_rat=1"])
    with pytest.raises(UnknownNameError, match="Did you mean 'epochs'"):
        config.with_settings(["epoch=1"])
    with pytest.raises(UnknownNameError, match="unknown option of method 'source-only' or of training 'ratio_bound'"):
        config.with_settings(["ratio_bound=2"])


def test_settings_need_a_key_and_a_value() -> None:
    with pytest.raises(InvalidInputError, match="expected --set key=value, got 'epochs'"):
        RunConfig(source="s").with_settings(["epochs"])


def test_unknown_methods_are_named() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown method 'drll'\. Did you mean 'drl'\?"):
        RunConfig(source="s", method="drll").with_settings([])


def test_unknown_keys_suggest_the_closest(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"config\.yaml.*'methd'\. Did you mean 'method'\?"):
        read(tmp_path, "source: a\nmethd: drl")
    with pytest.raises(UnknownNameError, match="3"):
        read(tmp_path, "source: a\n3: drl")


@pytest.mark.parametrize("text", ["", "just text", "- a\n- b", "target: only", "42"])
def test_a_configuration_is_a_mapping_with_a_source(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"config\.yaml: expected a mapping with at least the key 'source'"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    "text", ["source: [", "source: a: b", "\tsource: a", "source: !!timestamp 2020", "!!python/x y"]
)
def test_what_is_not_yaml_is_said_to_be_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"config\.yaml' is not a YAML file"):
        read(tmp_path, text)


def test_bytes_that_are_no_text_are_no_yaml(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes(b"source: \xff\xfe")
    with pytest.raises(InvalidInputError, match="is not a YAML file"):
        read_config(tmp_path / "config.yaml")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("source", 3, "text"),
        ("method", None, "text"),
        ("backbone", ["mlp"], "text"),
        ("freeze_backbone", "yes", "true or false"),
        ("target", 3, "text or null"),
        ("test", {}, "text or null"),
        ("calibrator", [], "text or null"),
        ("image_size", "large", "a whole number or null"),
        ("image_size", True, "a whole number or null"),
        ("method_options", None, "a mapping"),
        ("calibrator_options", [], "a mapping"),
        ("training", ["epochs"], "a mapping"),
    ],
)
def test_values_of_the_wrong_type_are_named(key: str, value: Any, expected: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        config_from({"source": "a", key: value}, "here")
    assert str(raised.value) == f"here: {key!r} must be {expected}. Got {value!r} instead."


def test_values_are_checked_by_the_recipe() -> None:
    with pytest.raises(UnknownNameError, match=r"option of training 'epoch'\. Did you mean 'epochs'"):
        RunConfig(source="a", training={"epoch": 1}).recipe()
    with pytest.raises(UnknownNameError, match=r"unknown calibrator 'temprature'\. Did you mean 'temperature'"):
        RunConfig(source="a", calibrator="temprature").recipe()


@pytest.mark.parametrize("name", ["absent.yaml", "."])
def test_there_must_be_a_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataUnavailableError, match="no configuration file '"):
        read_config(tmp_path / name)
