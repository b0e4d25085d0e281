import pytest

from shiftcal.runs.reporting.run_card import CardGroup, card_groups, written_value


def test_loose_values_come_first_and_nesting_becomes_dots() -> None:
    card = {"configuration": {"method": {"name": "drl", "extra": {}}, "epochs": 3}, "seed": 7, "versions": {}}
    assert card_groups(card) == (
        CardGroup("", (("seed", "7"),)),
        CardGroup("configuration", (("method.name", "drl"), ("method.extra", "none"), ("epochs", "3"))),
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "none"),
        (True, "yes"),
        (1e-05, "1e-05"),
        (132.441234567, "132.441"),
        ([0.1, 10], "0.1, 10"),
        ([], "none"),
        (["The first of two sentences.", "short"], "The first of two sentences.\nshort"),
        ([{"a": 1, "b": None}], "a: 1, b: none"),
    ],
)
def test_values_are_written_for_readers(value: object, words: str) -> None:
    assert written_value(value) == words
