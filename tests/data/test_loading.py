from __future__ import annotations

import threading

import pytest

from shiftcal.data.loading import load_ahead


def double(number: int) -> int:
    return 2 * number


@pytest.mark.parametrize("num_workers", [0, 1])
def test_everything_comes_once_and_in_order(num_workers: int) -> None:
    assert list(load_ahead(double, range(7), num_workers=num_workers)) == [0, 2, 4, 6, 8, 10, 12]
    assert list(load_ahead(double, [], num_workers=num_workers)) == []


def test_the_next_ones_are_loaded_while_one_is_in_use() -> None:
    third_was_loaded = threading.Event()

    def load(number: int) -> int:
        if number == 2:
            third_was_loaded.set()
        return number

    batches = load_ahead(load, range(5))
    assert next(batches) == 0
    assert third_was_loaded.wait(5)
    batches.close()  # type: ignore[attr-defined]


def test_an_error_comes_where_its_item_would_have() -> None:
    def load(number: int) -> float:
        return 1 / (2 - number)

    batches = load_ahead(load, range(5))
    assert [next(batches), next(batches)] == [0.5, 1.0]
    with pytest.raises(ZeroDivisionError):
        next(batches)
