import pytest

from shiftcal.core.errors import InvalidInputError
from shiftcal.core.limits import Limit

LIMIT = Limit("SHIFTCAL_MAX_APPLES", 10, "apples")


def test_what_is_more_than_the_limit_is_refused_with_how_to_raise_it() -> None:
    LIMIT.check(10, "the basket")
    with pytest.raises(InvalidInputError, match=r"the basket has 2,000 apples; the limit is 10, .*_APPLES=2000$"):
        LIMIT.check(2000, "the basket")


def test_limits_can_be_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    LIMIT.check(20, "the basket", at_least=20)
    monkeypatch.setenv("SHIFTCAL_MAX_APPLES", "2000")
    LIMIT.check(2000, "the basket")


@pytest.mark.parametrize("text", ["", "-1", "many", "1e3", "9" * 5000, "٣"])
def test_a_limit_is_a_whole_number(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIFTCAL_MAX_APPLES", text)
    with pytest.raises(InvalidInputError, match="SHIFTCAL_MAX_APPLES must be a whole number of apples"):
        LIMIT.check(1, "the basket")
