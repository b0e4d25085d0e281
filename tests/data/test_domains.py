from __future__ import annotations

import numpy as np
import pytest
import torch

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import ArrayInputs


def make_domain(labels: list[int], classes: tuple[str, ...]) -> LabelledDomain:
    inputs = ArrayInputs(torch.arange(2.0 * len(labels)).reshape(-1, 2))
    return LabelledDomain("here", inputs, np.array(labels, dtype=np.int64), classes)


def test_labels_and_inputs_must_be_as_many() -> None:
    with pytest.raises(InvalidInputError, match="got 1 labels for 2 inputs"):
        LabelledDomain("here", ArrayInputs(torch.zeros(2, 3)), np.zeros(1, dtype=np.int64), ("a",))


def test_without_labels_keeps_name_and_inputs_only() -> None:
    domain = make_domain([0, 1], ("a", "b"))
    bare = domain.without_labels()
    assert isinstance(bare, UnlabelledDomain)
    assert (bare.name, len(bare), bare.inputs) == ("here", 2, domain.inputs)
    assert not hasattr(bare, "labels")


def test_subset_keeps_classes_and_row_names() -> None:
    part = make_domain([0, 1, 1], ("a", "b")).subset(np.array([2, 0]))
    assert part.labels.tolist() == [1, 0]
    assert part.classes == ("a", "b")
    assert [part.inputs.identify(row) for row in range(len(part))] == ["2", "0"]


def test_labels_among_follows_the_other_order() -> None:
    assert make_domain([0, 1, 1], ("a", "b")).labels_among(("b", "c", "a")).tolist() == [2, 0, 0]


def test_labels_among_accepts_unknown_classes_that_do_not_occur() -> None:
    assert make_domain([0, 0], ("a", "never")).labels_among(("a", "b")).tolist() == [0, 0]


def test_labels_among_names_the_strangers() -> None:
    with pytest.raises(InvalidInputError, match=r"2 class\(es\) that the source does not have \('x', 'y'\)"):
        make_domain([0, 1, 2], ("a", "x", "y")).labels_among(("a", "b"))
