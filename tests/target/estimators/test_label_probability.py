"""Labels that follow from one column with four values: the probability of each is known by counting."""

import numpy as np
import pytest
import torch
from torch import Tensor

from shiftcal.target.estimators import label_probability
from shiftcal.target.estimators.label_probability import LabelProbability
from shiftcal.target.evidence import ObservedRows, ShiftEvidence

# Of the second of three classes, which is said of all rows; the first has the rest.
OF_SECOND = torch.tensor([0.9, 0.7, 0.5, 0.2])
SAID = 1


def rows(frequencies: list[float], num_rows: int, seed: int, *, said: int = SAID) -> tuple[ObservedRows, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    value = torch.multinomial(torch.tensor(frequencies), num_rows, replacement=True, generator=generator)
    labels = (torch.rand(num_rows, generator=generator) < OF_SECOND[value]).long()
    logits = 3 * torch.eye(3, dtype=torch.float64)[said].expand(num_rows, 3)
    features = torch.stack([value.double(), torch.ones(num_rows).double()], dim=1)
    return ObservedRows(logits, torch.full((num_rows,), 0.5).double(), features), labels


def counted(source: ObservedRows, labels: Tensor, target: ObservedRows) -> float:
    """The share of the second class among source rows of each value, in the mean over the target."""
    assert source.features is not None
    assert target.features is not None
    shares = [labels[source.features[:, 0] == value].double().mean() for value in range(4)]
    return float(torch.stack(shares)[target.features[:, 0].long()].mean())


SOURCE, LABELS = rows([0.4, 0.3, 0.2, 0.1], 2000, 0)
TARGET, _ = rows([0.1, 0.2, 0.3, 0.4], 1000, 1)


def test_the_mean_of_counted_shares() -> None:
    expected = counted(SOURCE, LABELS, TARGET)
    assert expected < float(LABELS.double().mean()) - 0.15
    assert LabelProbability().estimate(ShiftEvidence(SOURCE, LABELS, TARGET)) == pytest.approx(expected, abs=0.01)


def test_rows_of_training_are_learned_from_where_they_are_at_hand() -> None:
    """Of the held-out rows there are too few to learn anything."""
    held_out, own = rows([0.4, 0.3, 0.2, 0.1], 12, 2)
    evidence = ShiftEvidence(held_out, own, TARGET, SOURCE, LABELS)
    rectifier = float(own.double().mean()) - counted(SOURCE, LABELS, held_out)
    expected = counted(SOURCE, LABELS, TARGET) + rectifier
    assert LabelProbability().estimate(evidence) == pytest.approx(min(expected, 1.0), abs=0.02)


def test_a_class_that_the_source_has_no_rows_of_has_no_probability() -> None:
    target, _ = rows([0.1, 0.2, 0.3, 0.4], 100, 1, said=2)
    assert LabelProbability().estimate(ShiftEvidence(SOURCE, LABELS, target)) == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("labels", [torch.zeros(2000).long(), (torch.arange(2000) < 7).long()])
def test_of_one_class_or_a_few_rows_of_others_there_is_nothing_to_learn(labels: Tensor) -> None:
    evidence = ShiftEvidence(SOURCE, labels, TARGET)
    assert LabelProbability().of_enough(evidence) is None
    assert LabelProbability().estimate(evidence) == evidence.held_out_accuracy


def test_many_columns_are_seen_by_their_components() -> None:
    """The four values lie along one direction of 121 columns, none of which has much of it."""

    def wide(part: ObservedRows, seed: int) -> ObservedRows:
        assert part.features is not None
        noise = torch.randn(len(part.logits), 121, generator=torch.Generator().manual_seed(seed)).double()
        return ObservedRows(part.logits, part.target_probability, part.features[:, :1] + 0.3 * noise)

    expected = counted(SOURCE, LABELS, TARGET)
    evidence = ShiftEvidence(wide(SOURCE, 0), LABELS, wide(TARGET, 1))
    assert not LabelProbability.sees_columns(evidence)
    found = LabelProbability().estimate(evidence)
    assert found == pytest.approx(expected, abs=0.03)
    assert LabelProbability().estimate(evidence) == found


@pytest.mark.parametrize(("num_classes", "iterations"), [(2, 60), (10, 60), (30, 20), (1000, 1)])
def test_trees_are_bounded_however_many_classes_there_are(num_classes: int, iterations: int) -> None:
    assert label_probability._boosting(num_classes).max_iter == iterations


def test_the_rectifier_moves_as_far_as_weights_show_more_than_chance() -> None:
    errors = np.repeat([0.3, -0.1], 200) + np.tile([0.05, -0.05], 200)
    even = np.full(400, 1 / 400)
    assert label_probability._rectifier(errors, even) == pytest.approx(0.1)
    first_half = np.repeat([1 / 200, 0.0], 200)
    # The weighted mean is .3; the differences from it are .05 in the first half, .35 or .45 in the other.
    error = np.sqrt(200 * 0.05**2 + 100 * 0.35**2 + 100 * 0.45**2) / 400
    assert label_probability._rectifier(errors, first_half) == pytest.approx(0.3 - 2 * error)
