from collections.abc import Hashable

import numpy as np
import pytest

from shiftcal.data.labels import class_numbers


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["b", "a", "b"], ("a", "b")),
        ([10, 9, 10], (9, 10)),
        (["a", 10, "a"], (10, "a")),
        (["only"], ("only",)),
        ([], ()),
    ],
)
def test_classes_are_sorted_and_numbers_are_positions_in_them(
    labels: list[Hashable], classes: tuple[Hashable, ...]
) -> None:
    numbers, found = class_numbers(labels)
    assert found == classes
    assert numbers.dtype == np.int64
    assert [found[number] for number in numbers] == labels
