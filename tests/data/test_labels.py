from collections.abc import Hashable
from datetime import date
from enum import Enum

import numpy as np
import pytest

from shiftcal.data.labels import class_numbers


class Colour(Enum):
    RED = 1
    BLUE = 2


class Thing:
    """Without an order or a text: its place in memory must not decide."""


FIRST, SECOND = Thing(), Thing()


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["b", "a", "b"], ("a", "b")),
        ([10, 9, 10], (9, 10)),
        (["a", 10, "a"], (10, "a")),
        (["only"], ("only",)),
        ([], ()),
        ([frozenset("c"), frozenset("ba"), frozenset("c")], (frozenset("ab"), frozenset("c"))),
        ([(1, frozenset("ba")), (1, frozenset("a"))], ((1, frozenset("ab")), (1, frozenset("a")))),
        ([date(2021, 1, 1), date(2020, 1, 1)], (date(2020, 1, 1), date(2021, 1, 1))),
        ([b"\xff", b"a"], (b"a", b"\xff")),
        ([10**31, 10**30], (10**30, 10**31)),
        ([Colour.RED, Colour.BLUE], (Colour.BLUE, Colour.RED)),
        ([SECOND, FIRST, SECOND], (SECOND, FIRST)),
    ],
)
def test_classes_are_sorted_and_numbers_are_positions_in_them(
    labels: list[Hashable], classes: tuple[Hashable, ...]
) -> None:
    numbers, found = class_numbers(labels)
    assert found == classes
    assert numbers.dtype == np.int64
    assert [found[number] for number in numbers] == labels
