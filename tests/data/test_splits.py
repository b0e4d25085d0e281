from __future__ import annotations

import numpy as np
import pytest
import torch

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.inputs import ArrayInputs
from shiftcal.data.splits import hold_out, within_budget


def make_domain(counts: list[int]) -> LabelledDomain:
    """Rows of the classes in a random order; the only feature of a row is its number."""
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts), dtype=np.int64), counts))
    inputs = ArrayInputs(torch.arange(float(len(labels))).view(-1, 1))
    return LabelledDomain("here", inputs, labels, tuple("abcdef"[: len(counts)]))


def row_numbers(domain: LabelledDomain) -> list[int]:
    return [int(domain.inputs.identify(row)) for row in range(len(domain))]


def split(domain: LabelledDomain, fraction: float, seed: int = 0) -> tuple[LabelledDomain, LabelledDomain]:
    kept, held = hold_out(domain, fraction, seed)
    assert held is not None
    return kept, held


@pytest.mark.parametrize(
    ("counts", "fraction", "expected"),
    [
        ([40, 20, 10], 0.1, [4, 2, 1]),
        ([40, 20, 10], 0.25, [10, 5, 2]),
        ([19, 10], 0.1, [1, 1]),
        ([2, 2], 0.99, [1, 1]),
    ],
)
def test_each_class_gives_its_share(counts: list[int], fraction: float, expected: list[int]) -> None:
    kept, held = split(make_domain(counts), fraction)
    assert np.bincount(held.labels).tolist() == expected
    assert np.bincount(kept.labels).tolist() == [all_ - held_ for all_, held_ in zip(counts, expected, strict=True)]


def test_parts_are_disjoint_and_complete_and_keep_their_labels() -> None:
    domain = make_domain([30, 50, 7])
    kept, held = split(domain, 0.3)
    assert sorted(row_numbers(kept) + row_numbers(held)) == list(range(len(domain)))
    for part in (kept, held):
        assert part.classes == domain.classes
        assert part.name == domain.name
        assert part.labels.tolist() == domain.labels[row_numbers(part)].tolist()
        assert part.inputs.fetch(np.arange(len(part))).flatten().tolist() == row_numbers(part)


def test_the_seed_decides() -> None:
    domain = make_domain([30, 30])
    assert row_numbers(split(domain, 0.5, 1)[1]) == row_numbers(split(domain, 0.5, 1)[1])
    assert row_numbers(split(domain, 0.5, 1)[1]) != row_numbers(split(domain, 0.5, 2)[1])


def test_tiny_classes_keep_a_row_to_train_on() -> None:
    kept, held = split(make_domain([1, 2, 100]), 0.9)
    assert np.bincount(kept.labels).tolist() == [1, 1, 10]
    assert np.bincount(held.labels).tolist() == [0, 1, 90]


@pytest.mark.parametrize(("counts", "fraction"), [([9, 9], 0.1), ([100, 100], 0.0), ([1, 1], 0.99)])
def test_where_nothing_can_be_held_out_there_is_no_second_part(counts: list[int], fraction: float) -> None:
    domain = make_domain(counts)
    kept, held = hold_out(domain, fraction, 0)
    assert held is None
    assert row_numbers(kept) == list(range(len(domain)))


def test_classes_without_rows_do_no_harm() -> None:
    domain = LabelledDomain("here", ArrayInputs(torch.zeros(10, 1)), np.full(10, 1, dtype=np.int64), ("a", "b"))
    _, held = split(domain, 0.5)
    assert len(held) == 5


def test_the_global_random_state_is_untouched() -> None:
    np.random.seed(3)
    before = np.random.get_state()[1].copy()  # type: ignore[index]
    hold_out(make_domain([30, 30]), 0.5, 0)
    assert np.array_equal(np.random.get_state()[1], before)  # type: ignore[index]


@pytest.mark.parametrize(
    ("counts", "budget", "expected"),
    [
        ([40, 20, 10], 15, [5, 5, 5]),
        ([40, 20, 10], 60, [30, 20, 10]),
        ([40, 20, 10], 61, [31, 20, 10]),
        ([40, 20, 10], 16, [6, 5, 5]),
        ([40, 20, 10], 1000, [40, 20, 10]),
        ([40, 0, 10], 20, [10, 0, 10]),
    ],
)
def test_a_budget_is_shared_by_the_classes(counts: list[int], budget: int, expected: list[int]) -> None:
    domain = make_domain(counts)
    part = within_budget(domain, budget, 0)
    assert np.bincount(part.labels, minlength=3).tolist() == expected
    assert part.labels.tolist() == domain.labels[row_numbers(part)].tolist()
    assert len(set(row_numbers(part))) == len(part)


def test_the_seed_decides_what_a_budget_buys() -> None:
    domain = make_domain([30, 30])
    assert row_numbers(within_budget(domain, 10, 1)) == row_numbers(within_budget(domain, 10, 1))
    assert row_numbers(within_budget(domain, 10, 1)) != row_numbers(within_budget(domain, 10, 2))


def test_a_budget_below_one_row_per_class_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="label_budget 1 is less than one row for each of the 2 classes"):
        within_budget(make_domain([30, 30]), 1, 0)
