from dataclasses import replace
from typing import Any

import pytest
import torch

from shiftcal.target.clusters import Clusters
from shiftcal.target.evidence import ObservedRows, calibration_gap, mean_confidence
from shiftcal.target.scaling import ConfidenceScaling, fit_scaling

Make = Any


def scaling(
    log_temperature: float = 0.0, of_source: float = 0.0, vote: float = 0.0, clusters: Clusters | None = None
) -> ConfidenceScaling:
    scalars = (torch.tensor(value, dtype=torch.float64) for value in (vote, log_temperature, of_source))
    return ConfidenceScaling(clusters, *scalars)


def confidence(fitted: ConfidenceScaling, rows: ObservedRows) -> float:
    return mean_confidence(fitted.scaled_logits(rows))


def test_the_scale_by_hand() -> None:
    """tau (v u - log T) - (1 - tau) log T_source, with u the share of the predicted class among the clusters."""
    clusters = Clusters(torch.ones(()), torch.zeros(2), torch.eye(2, dtype=torch.float64))
    features = torch.tensor([[1.0, 1.0], [9.0, 0.0], [0.0, 9.0]]).double()
    logits = torch.tensor([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0]]).double()
    rows = ObservedRows(logits, torch.tensor([0.25, 1.0, 1.0]).double(), features)
    found = scaling(0.7, 0.2, vote=0.4, clusters=clusters).log_scale(rows)
    expected = [0.25 * (0.4 * 0.5 - 0.7) - 0.75 * 0.2, 0.4 - 0.7, -0.7]
    torch.testing.assert_close(found, torch.tensor(expected).double(), atol=1e-6, rtol=0)


def test_source_like_inputs_keep_their_logits(make_rows: Make) -> None:
    rows, _ = make_rows(8, log_ratio=40.0)
    torch.testing.assert_close(scaling(3.0).log_scale(rows), torch.zeros(8).double(), atol=1e-12, rtol=0)
    target_like, _ = make_rows(8, log_ratio=-40.0)
    torch.testing.assert_close(scaling(3.0).log_scale(target_like), torch.full((8,), -3.0).double())


@pytest.mark.parametrize("accuracy", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("vote", [0.0, 0.5])
def test_the_mean_confidence_on_the_target_becomes_the_accuracy(
    make_rows: Make, make_evidence: Make, accuracy: float, vote: float
) -> None:
    target, _ = make_rows(400, wrong=0.3, log_ratio=-2.0, least_margin=4, seed=2)
    assert confidence(fit_scaling(make_evidence(target), accuracy, vote), target) == pytest.approx(accuracy, abs=1e-4)


def test_rows_that_their_cluster_contradicts_are_trusted_less(make_rows: Make, make_evidence: Make) -> None:
    target, labels = make_rows(400, wrong=0.3, log_ratio=-2.0, least_margin=4, seed=2)
    scale = fit_scaling(make_evidence(target), 0.7, 0.5).log_scale(target)
    right = target.predicted == labels
    assert float(scale[right].mean() - scale[~right].mean()) == pytest.approx(0.5 * 0.88, abs=0.02)


def test_with_keep_source_the_confidence_on_both_domains_is_what_it_should_be(
    make_rows: Make, make_evidence: Make
) -> None:
    """A ratio that tells the domains apart by halves: without T_source, T reaches the source."""
    held_out, labels = make_rows(400, wrong=0.1, log_ratio=1.5, least_margin=2, seed=1)
    target, _ = make_rows(400, wrong=0.3, log_ratio=-1.5, least_margin=2, seed=2)
    evidence = make_evidence(target, held_out=(held_out, labels))
    without, both = fit_scaling(evidence, 0.6), fit_scaling(evidence, 0.6, keep_source=True)
    wanted = mean_confidence(held_out.logits) + calibration_gap(held_out.logits, labels)
    assert without.source_log_temperature == 0
    assert confidence(without, held_out) < wanted - 0.01
    assert -1 < both.source_log_temperature < 0
    assert confidence(both, held_out) == pytest.approx(wanted, abs=1e-3)
    assert confidence(both, target) == pytest.approx(0.6, abs=1e-3)


def test_a_source_that_is_certain_is_left_alone(make_rows: Make, make_evidence: Make) -> None:
    certain = make_rows(400, log_ratio=2.0, least_margin=60)
    target, _ = make_rows(400, wrong=0.3, log_ratio=-2.0, least_margin=4, seed=2)
    fitted = fit_scaling(make_evidence(target, source=certain), 0.7, keep_source=True)
    assert fitted.source_log_temperature == 0


def test_without_features_there_is_no_vote(make_rows: Make, make_evidence: Make) -> None:
    target, _ = make_rows(400, wrong=0.3, log_ratio=-2.0, least_margin=4, seed=2)
    blind = replace(target, features=None)
    fitted = fit_scaling(make_evidence(blind), 0.7, 0.5)
    assert fitted.clusters is None
    torch.testing.assert_close(
        fitted.log_scale(blind), -fitted.log_temperature * torch.ones(400).double() * blind.target_probability
    )


def test_an_accuracy_out_of_reach_ends_at_the_nearest_bound(make_rows: Make, make_evidence: Make) -> None:
    target, _ = make_rows(100, log_ratio=-40.0, least_margin=1)
    assert fit_scaling(make_evidence(target), 1.0).log_temperature == -1
    assert fit_scaling(make_evidence(target), 0.0).log_temperature == 8
