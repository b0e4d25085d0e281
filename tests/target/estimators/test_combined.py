from dataclasses import replace
from typing import Any

import pytest
import torch

from shiftcal.target.domain_auc import domain_auc_of_outputs
from shiftcal.target.estimators.combined import Combined, chance_corrected_purity
from shiftcal.target.evidence import BeforeAdaptation, mean_confidence

Make = Any
CLEAR = BeforeAdaptation(0.5, 1.0)


def test_accuracy_under_shift_is_found(make_rows: Make, make_evidence: Make) -> None:
    held_out = make_rows(100, wrong=0.03, seed=1)
    target, labels = make_rows(400, wrong=0.3, least_margin=4, seed=2)
    found = Combined().diagnose(make_evidence(target, held_out=held_out))
    assert found.accuracy == pytest.approx(float((target.predicted == labels).double().mean()), abs=0.02)
    assert found.trust > 0.9


def test_it_is_the_weighted_mean_of_the_two_witnesses(make_rows: Make, make_evidence: Make) -> None:
    """A domain AUC of .575 is half a shift; purity and compactness are beyond doubt."""
    target, _ = make_rows(400, wrong=0.3, least_margin=4, seed=2)
    evidence = replace(make_evidence(target), before_adaptation=BeforeAdaptation(1.0, 0.575))
    evidence = replace(evidence, target=replace(target, reference_features=target.features))
    found = Combined().diagnose(evidence)
    assert found.trust == pytest.approx(0.5)
    assert found.cluster_agreement is not None
    assert found.difference_of_confidences is not None
    now = (found.cluster_agreement + found.difference_of_confidences) / 2
    # As far as the clusters are not trusted, half of the way to what was expected before.
    assert found.accuracy == pytest.approx(now + 0.5 * (1.0 - now) / 2, abs=1e-9)


def test_without_a_visible_shift_held_out_data_decides(make_rows: Make, make_evidence: Make) -> None:
    """The outputs are as for the source, however well the inputs can be told apart: clusters are not believed."""
    target, _ = make_rows(400, wrong=0.3, log_ratio=-2.0, seed=2)
    found = Combined().diagnose(make_evidence(target))
    assert found.trust < 0.15
    assert found.accuracy == pytest.approx(mean_confidence(target.logits), abs=0.05)
    assert "held-out source data decides" in found.verdict()


def test_without_clusters_in_the_source_the_agreement_is_not_believed(make_rows: Make, make_evidence: Make) -> None:
    source = make_rows(400, spread=500.0)
    target, _ = make_rows(400, wrong=0.3, least_margin=4, spread=500.0, seed=2)
    found = Combined().diagnose(make_evidence(target, source=source))
    assert found.cluster_purity is not None
    assert found.cluster_purity < 0.2
    assert found.trust == 0
    assert "no clear clusters" in found.verdict()


def test_loose_clusters_of_the_target_are_believed_less(make_rows: Make, make_evidence: Make) -> None:
    """Ten times the columns, all of them noise: rows are far from their centroids, which are still right."""
    target, _ = make_rows(400, wrong=0.3, least_margin=4, seed=2)
    source, labels = make_rows(400)
    noise = 8 * torch.randn(400, 200, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    found = []
    for scale in (0.0, 1.0):
        rows = replace(target, features=torch.cat([target.features, scale * noise], dim=1))
        padded = replace(source, features=torch.cat([source.features, torch.zeros(400, 200)], dim=1))
        # Labels that the clusters of the source hold, so that purity is no question.
        evidence = replace(make_evidence(rows, source=(padded, labels)), before_adaptation=CLEAR)
        found.append(Combined().diagnose(evidence))
    assert found[0].cluster_compactness is not None
    assert found[1].cluster_compactness is not None
    assert found[0].cluster_compactness > 0.9
    assert found[1].cluster_compactness < 0.4
    assert found[0].trust == 1
    assert found[1].trust == pytest.approx(found[1].cluster_compactness / 0.4)


def test_confidence_is_never_raised(make_rows: Make, make_evidence: Make) -> None:
    target, _ = make_rows(400, seed=2)
    unsure = replace(target, logits=target.logits / 4)
    found = Combined().diagnose(make_evidence(unsure))
    assert found.cluster_agreement is not None
    assert found.cluster_agreement > 0.99
    assert found.accuracy == mean_confidence(unsure.logits)


def test_too_few_held_out_rows_are_said_to_be_too_few(make_rows: Make, make_evidence: Make) -> None:
    target, _ = make_rows(400, wrong=0.3, least_margin=4, seed=2)
    found = Combined().diagnose(make_evidence(target, held_out=make_rows(9, seed=1)))
    assert found.domain_auc is None
    assert "too few source rows were held out" in found.verdict()
    enough = Combined().diagnose(make_evidence(target, held_out=make_rows(11, seed=1)))
    assert enough.domain_auc is not None


def test_a_held_out_row_weighs_at_most_ten_times_as_much_as_on_average(make_rows: Make, make_evidence: Make) -> None:
    """Class 0 is predicted twenty times as often on the target as on the source."""
    rows, labels = make_rows(4000, least_margin=4, seed=1)
    rare = (labels != 0) | (torch.arange(4000) % 64 == 0)
    held_out = replace(rows, logits=rows.logits[rare], features=None), labels[rare]
    target, own = make_rows(2000, least_margin=3, seed=2)
    often = replace(target, logits=target.logits[(own == 0) | (torch.arange(2000) % 40 == 1)], features=None)
    expected = domain_auc_of_outputs(held_out[0].logits, often.logits, fewest=10, largest_weight=10.0)
    found = Combined().diagnose(make_evidence(often, held_out=held_out))
    assert found.domain_auc == expected
    assert domain_auc_of_outputs(held_out[0].logits, often.logits, fewest=10, largest_weight=8.0) != expected


def test_with_outputs_alone_the_thresholded_confidence_bears_witness(make_rows: Make, make_evidence: Make) -> None:
    target, _ = make_rows(400, least_margin=4, seed=2)
    found = Combined().diagnose(make_evidence(replace(target, features=None)))
    assert found.cluster_agreement is None
    assert found.thresholded_confidence is not None
    assert "probabilities alone" in found.verdict()


def test_what_was_known_before_adaptation_counts(make_rows: Make, make_evidence: Make) -> None:
    """Half of the estimate, and all of the domain AUC: the outputs of an adapted classifier would show no shift."""
    target, _ = make_rows(400, seed=1)
    plain = Combined().diagnose(make_evidence(target))
    adapted = Combined().diagnose(replace(make_evidence(target), before_adaptation=BeforeAdaptation(0.4, 1.0)))
    assert plain.domain_auc is not None
    assert plain.domain_auc < 0.65
    assert (adapted.domain_auc, adapted.trust, adapted.before_adaptation) == (1.0, 1.0, 0.4)
    assert adapted.cluster_agreement is not None
    now = min(adapted.cluster_agreement, adapted.mean_confidence)
    assert adapted.accuracy == pytest.approx((0.4 + now) / 2)
    assert "before the classifier was adapted" in adapted.verdict()


def test_an_adapted_classifier_is_judged_in_the_clusters_of_the_source_reference(
    make_rows: Make, make_evidence: Make
) -> None:
    """Its own features agree with whatever it says; what was expected before does not count then."""
    target, _ = make_rows(400, wrong=0.3, least_margin=2, seed=1)
    confirming = replace(target, features=5 * torch.eye(4, 8, dtype=torch.float64)[target.predicted])
    judged = replace(confirming, reference_features=target.features)
    before = BeforeAdaptation(0.1, 1.0)
    unaware = Combined().diagnose(replace(make_evidence(confirming), before_adaptation=before))
    found = Combined().diagnose(replace(make_evidence(judged), before_adaptation=before))
    assert unaware.cluster_agreement == 1
    assert found.accuracy == pytest.approx(0.7, abs=0.05)
    assert found.before_adaptation is None


def test_nothing_known_before_justifies_more_confidence(make_rows: Make, make_evidence: Make) -> None:
    target, _ = make_rows(400, least_margin=1, seed=1)
    found = Combined().diagnose(replace(make_evidence(target), before_adaptation=BeforeAdaptation(0.99, 1.0)))
    assert found.accuracy == pytest.approx(mean_confidence(target.logits))


def test_purity_is_corrected_for_chance(make_rows: Make) -> None:
    rows, labels = make_rows(400)
    units = torch.ones(8).double()
    assert rows.features is not None
    assert chance_corrected_purity(rows.features, rows.logits, labels, units) == 1
    one = torch.zeros(400).long()
    assert chance_corrected_purity(rows.features, rows.logits, one, units) == 0
    # Half of the rows have labels of their cluster, the rest all the same one: .5 + .5 / 4 right, chance .625.
    mixed = torch.where(torch.arange(400) < 200, labels, 0)
    assert chance_corrected_purity(rows.features, rows.logits, mixed, units) == pytest.approx(0.0, abs=1e-9)
