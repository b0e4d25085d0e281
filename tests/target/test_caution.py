import math

import pytest
import torch
from torch import Tensor

from shiftcal.target.caution import (
    Caution,
    Observed,
    Untaught,
    calibration_gap,
    fit_caution,
    log_scale,
    power_for_confidence,
)
from shiftcal.target.clusters import Clusters

CLASSES, DIM = 4, 8


def domain(
    num_rows: int, *, wrong: float, domain_logit: float, spread: float = 0.5, least_margin: float = 5, seed: int = 0
) -> tuple[Observed, Tensor]:
    """Clusters by class; a share of the rows has logits that name the wrong class with the same confidence.

    A lower margin than the source's is how a shift shows in the outputs.
    """
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(num_rows) % CLASSES
    noise = torch.randn(num_rows, DIM, generator=generator, dtype=torch.float64)
    representation = 5 * torch.eye(CLASSES, DIM, dtype=torch.float64)[labels] + spread * noise
    is_wrong = torch.rand(num_rows, generator=generator) < wrong
    predicted = torch.where(is_wrong, (labels + 1) % CLASSES, labels)
    # The margin varies, as it does in life; it says nothing about being right.
    margin = least_margin + torch.rand(num_rows, 1, generator=generator, dtype=torch.float64)
    logits = margin * torch.nn.functional.one_hot(predicted, CLASSES).double()
    likeness = torch.sigmoid(torch.full((num_rows,), -domain_logit, dtype=torch.float64))
    return Observed(logits, likeness, representation), labels


def confidence(caution: Caution, rows: Observed) -> float:
    scaled = log_scale(caution, rows).exp().unsqueeze(-1) * rows.logits
    return float(torch.softmax(scaled, dim=-1).max(dim=-1).values.mean())


def test_accuracy_under_shift_is_found_and_met() -> None:
    source, source_labels = domain(400, wrong=0.0, domain_logit=2.0)
    held_out, held_out_labels = domain(100, wrong=0.03, domain_logit=2.0, seed=1)
    target, target_labels = domain(400, wrong=0.3, domain_logit=-2.0, least_margin=4, seed=2)
    caution, estimate = fit_caution(source, source_labels, held_out, held_out_labels, target)
    true_accuracy = float((target.logits.argmax(dim=-1) == target_labels).double().mean())
    assert estimate.accuracy == pytest.approx(true_accuracy, abs=0.02)
    assert estimate.trust > 0.9
    assert confidence(caution, target) == pytest.approx(estimate.accuracy, abs=1e-4)


def test_inputs_that_their_cluster_contradicts_are_trusted_less() -> None:
    source, source_labels = domain(400, wrong=0.0, domain_logit=2.0)
    target, target_labels = domain(400, wrong=0.3, domain_logit=-2.0, least_margin=4, seed=2)
    caution, _ = fit_caution(source, source_labels, source, source_labels, target)
    right = target.logits.argmax(dim=-1) == target_labels
    scale = log_scale(caution, target)
    assert float(scale[right].mean()) > float(scale[~right].mean()) + 0.3


def test_without_a_visible_shift_held_out_data_decides() -> None:
    """The outputs are as for the source, however well the inputs can be told apart: clusters are not believed."""
    source, source_labels = domain(400, wrong=0.0, domain_logit=2.0)
    held_out, held_out_labels = domain(100, wrong=0.0, domain_logit=2.0, seed=1)
    target, _ = domain(400, wrong=0.3, domain_logit=-2.0, seed=2)
    caution, estimate = fit_caution(source, source_labels, held_out, held_out_labels, target)
    assert estimate.trust < 0.1
    # Held-out data shows no miscalibration beyond chance, so the confidence stays as it was.
    assert confidence(caution, target) == pytest.approx(confidence(neutral(), target), abs=0.03)


def test_loose_clusters_are_believed_less() -> None:
    source, source_labels = domain(400, wrong=0.0, domain_logit=2.0)
    tight, _ = domain(400, wrong=0.3, domain_logit=-2.0, least_margin=4, seed=2)
    loose, _ = domain(400, wrong=0.3, domain_logit=-2.0, least_margin=4, spread=20.0, seed=2)
    trust = [fit_caution(source, source_labels, source, source_labels, rows)[1].trust for rows in (tight, loose)]
    compact = [
        fit_caution(source, source_labels, source, source_labels, rows)[1].cluster_compactness
        for rows in (tight, loose)
    ]
    assert compact[0] > compact[1]
    assert trust[0] >= trust[1]


def test_with_a_gain_the_confidence_on_both_domains_is_what_it_should_be() -> None:
    """A ratio that tells the domains apart by halves: without a gain, caution reaches the source."""
    source, source_labels = domain(400, wrong=0.0, domain_logit=1.5)
    held_out, held_out_labels = domain(400, wrong=0.1, domain_logit=1.5, least_margin=2, seed=1)
    target, _ = domain(400, wrong=0.3, domain_logit=-1.5, least_margin=2, seed=2)
    rows = source, source_labels, held_out, held_out_labels, target
    (without, _), (caution, estimate) = fit_caution(*rows), fit_caution(*rows, keep_source=True)
    wanted = confidence(neutral(), held_out) + calibration_gap(held_out.logits, held_out_labels)
    assert without.gain == 0
    assert confidence(without, held_out) < wanted - 0.01
    assert 0 < caution.gain < 1
    assert confidence(caution, held_out) == pytest.approx(wanted, abs=1e-3)
    assert confidence(caution, target) == pytest.approx(estimate.accuracy, abs=1e-3)


def test_where_a_gain_would_change_nothing_there_is_none() -> None:
    certain, labels = domain(400, wrong=0.0, domain_logit=2.0, least_margin=60)
    target, _ = domain(400, wrong=0.3, domain_logit=-2.0, least_margin=4, seed=2)
    assert fit_caution(certain, labels, certain, labels, target, keep_source=True)[0].gain == 0


def test_with_nothing_but_logits_the_thresholded_confidence_bears_witness() -> None:
    """Held-out rows are right where they are sure (9 of 10); half of the target rows are as sure."""
    sure, unsure = torch.tensor([4.0, 0.0, 0.0]).double(), torch.tensor([0.5, 0.0, 0.0]).double()
    held_out_logits = torch.cat([sure.expand(90, 3), unsure.expand(10, 3)])
    labels = torch.cat([torch.zeros(90), torch.ones(10)]).long()
    target_logits = torch.cat([sure.expand(50, 3), unsure.expand(50, 3)])
    held_out = Observed(held_out_logits, torch.full((100,), 0.5).double(), None)
    target = Observed(target_logits, torch.ones(100).double(), None)
    caution, estimate = fit_caution(held_out, labels, held_out, labels, target)
    assert estimate.cluster_agreement == pytest.approx(0.5)
    assert estimate.separation == pytest.approx(0.4, abs=0.05)
    assert caution.clusters is None
    assert confidence(caution, target) == pytest.approx(estimate.accuracy, abs=1e-4)


def test_without_clusters_in_the_source_the_agreement_is_not_believed() -> None:
    source, source_labels = domain(400, wrong=0.0, domain_logit=2.0, spread=500.0)
    target, _ = domain(400, wrong=0.3, domain_logit=-2.0, spread=500.0, seed=2)
    _, estimate = fit_caution(source, source_labels, source, source_labels, target)
    assert estimate.cluster_purity < 0.2
    assert estimate.trust == 0


def test_classes_that_the_target_lacks_do_not_split_the_clusters_of_others() -> None:
    """Two of four classes occur; a few rows are taken for the others, as some always are."""
    source, source_labels = domain(400, wrong=0.0, domain_logit=2.0)
    target, labels = domain(800, wrong=0.0, domain_logit=-2.0, least_margin=3, spread=2.0, seed=2)
    half, half_labels = Observed(*(values[labels < 2] for values in target if values is not None)), labels[labels < 2]
    taken_for_others = torch.arange(len(half_labels)) % 40 == 0
    logits = torch.where(taken_for_others.unsqueeze(-1), half.logits.roll(2, dims=-1), half.logits)
    _, estimate = fit_caution(source, source_labels, source, source_labels, half._replace(logits=logits))
    true_accuracy = float((logits.argmax(dim=-1) == half_labels).double().mean())
    assert true_accuracy == pytest.approx(0.975, abs=0.01)
    assert estimate.cluster_agreement == pytest.approx(true_accuracy, abs=0.06)


def test_a_classifier_that_ran_into_one_class_is_not_believed() -> None:
    """All four classes occur, one is predicted: three quarters of the source can't be absent."""
    source, source_labels = domain(400, wrong=0.0, domain_logit=2.0)
    target, labels = domain(800, wrong=0.0, domain_logit=-2.0, least_margin=3, seed=2)
    # Each row keeps a trace of its class, by which the clusters can be told.
    collapsed = target._replace(logits=0.5 * target.logits + torch.tensor([9.0, 0, 0, 0]).double())
    assert (collapsed.logits.argmax(dim=-1) == 0).all()
    _, estimate = fit_caution(source, source_labels, source, source_labels, collapsed)
    assert estimate.accuracy == pytest.approx(float((labels == 0).double().mean()), abs=0.1)


def test_other_frequencies_of_classes_are_no_shift_of_what_the_classifier_says() -> None:
    rows, labels = domain(1200, wrong=0.1, domain_logit=0.0)
    source, half = (Observed(*(part[kept] for part in rows if part is not None)) for kept in halves(labels))
    source_labels = labels[halves(labels)[0]]
    _, estimate = fit_caution(source, source_labels, source, source_labels, half)
    assert estimate.separation < 0.15
    assert estimate.trust < 0.5


@pytest.mark.parametrize("num_shared", [0, 1, 9])
def test_outputs_with_hardly_a_predicted_class_in_common_are_wholly_apart(num_shared: int) -> None:
    source, source_labels = domain(5000, wrong=0.0, domain_logit=2.0)
    target, target_labels = domain(400, wrong=0.0, domain_logit=-2.0, seed=1)
    kept = torch.cat([(source_labels != 0).nonzero(), (source_labels == 0).nonzero()[:num_shared]]).squeeze(-1)
    held_out, labels = Observed(*(part[kept] for part in source if part is not None)), source_labels[kept]
    one_class = Observed(*(part[target_labels == 0] for part in target if part is not None))
    _, estimate = fit_caution(source, source_labels, held_out, labels, one_class)
    assert estimate.separation == 1


def test_classes_that_occur_nowhere_change_nothing() -> None:
    """A model may know classes that neither sample has."""
    source, source_labels = domain(400, wrong=0.0, domain_logit=2.0)
    target, _ = domain(400, wrong=0.3, domain_logit=-2.0, least_margin=4, seed=2)

    def with_more(rows: Observed) -> Observed:
        return rows._replace(logits=torch.cat([rows.logits, torch.full((len(rows.logits), 8), -9.0).double()], dim=1))

    plain = fit_caution(source, source_labels, source, source_labels, target)[1]
    more = fit_caution(*2 * (with_more(source), source_labels), with_more(target))[1]
    assert more.cluster_agreement == pytest.approx(plain.cluster_agreement, abs=0.01)


def halves(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Every other row; and of the rest those of two classes."""
    first = torch.arange(len(labels)) // CLASSES % 2 == 0
    return first, ~first & (labels < 2)


def test_source_like_inputs_keep_their_logits() -> None:
    caution = neutral()._replace(caution=torch.tensor(3.0, dtype=torch.float64))
    rows, _ = domain(8, wrong=0.0, domain_logit=40.0)
    torch.testing.assert_close(log_scale(caution, rows), torch.zeros(8, dtype=torch.float64), atol=1e-12, rtol=0)
    target_like, _ = domain(8, wrong=0.0, domain_logit=-40.0)
    torch.testing.assert_close(log_scale(caution, target_like), torch.full((8,), -3.0, dtype=torch.float64))


def test_confidence_is_never_raised() -> None:
    source, source_labels = domain(400, wrong=0.0, domain_logit=2.0)
    target, _ = domain(400, wrong=0.0, domain_logit=-2.0, seed=2)
    unsure = target._replace(logits=target.logits / 4)
    _, estimate = fit_caution(source, source_labels, source, source_labels, unsure)
    assert estimate.cluster_agreement > 0.99
    assert estimate.accuracy <= confidence(neutral(), unsure) + 1e-12
    assert not math.isnan(estimate.accuracy)


def neutral() -> Caution:
    zero = torch.zeros((), dtype=torch.float64)
    clusters = Clusters(torch.zeros(DIM, dtype=torch.float64), torch.eye(CLASSES, DIM, dtype=torch.float64))
    return Caution(clusters, zero, zero, zero)


def test_the_power_brings_the_mean_confidence_down_to_what_is_wanted() -> None:
    scores = 5 * torch.randn(200, 4, generator=torch.Generator().manual_seed(0)).double()
    for wanted in (0.3, 0.5, 0.8):
        power = power_for_confidence(scores, wanted)
        assert 0 < power < 1
        assert torch.softmax(power * scores, dim=-1).amax(dim=-1).mean().item() == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(("wanted", "expected"), [(1.0, 1.0), (0.2, pytest.approx(0, abs=1e-3))])
def test_the_power_never_sharpens_and_ends_at_uniform(wanted: float, expected: object) -> None:
    scores = 5 * torch.randn(200, 4, generator=torch.Generator().manual_seed(0)).double()
    assert power_for_confidence(scores, wanted) == expected


def test_the_power_holds_as_far_as_the_likeness_says() -> None:
    scores = 5 * torch.randn(200, 4, generator=torch.Generator().manual_seed(0)).double()
    likeness = (torch.arange(200) % 2).double().unsqueeze(-1)
    power = power_for_confidence(scores, 0.7, likeness)
    assert torch.softmax(power**likeness * scores, dim=-1).amax(dim=-1).mean().item() == pytest.approx(0.7, abs=1e-6)


def test_what_was_known_before_teaching_counts() -> None:
    """Half of the estimate, and all of the separation: the outputs of a taught classifier would show none."""
    source, labels = domain(400, wrong=0.0, domain_logit=1.0)
    target, _ = domain(400, wrong=0.0, domain_logit=-1.0, seed=1)
    _, plain = fit_caution(source, labels, source, labels, target)
    _, taught = fit_caution(source, labels, source, labels, target, untaught=Untaught(0.4, 1.0))
    assert plain.separation < 0.3
    assert taught.separation == 1
    assert taught.trust == pytest.approx(1)
    now = taught.trust * taught.cluster_agreement + (1 - taught.trust) * taught.corrected_confidence
    assert taught.accuracy == pytest.approx((0.4 + now) / 2, abs=0.02)


def test_a_taught_classifier_is_judged_in_clusters_that_nothing_taught() -> None:
    """Its own features agree with whatever it says; what was expected before does not count then."""
    source, labels = domain(400, wrong=0.0, domain_logit=1.0)
    target, _ = domain(400, wrong=0.3, domain_logit=-1.0, least_margin=2, seed=1)
    confirming = 5 * torch.eye(CLASSES, DIM, dtype=torch.float64)[target.logits.argmax(dim=-1)]
    deceived = target._replace(representation=confirming)
    judged = deceived._replace(untaught_representation=target.representation)
    untaught = Untaught(0.1, 1.0)
    _, unaware = fit_caution(source, labels, source, labels, deceived, untaught=untaught)
    caution, estimate = fit_caution(source, labels, source, labels, judged, untaught=untaught)
    assert unaware.cluster_agreement == 1
    assert estimate.accuracy == pytest.approx(0.7, abs=0.05)
    assert confidence(caution, judged) == pytest.approx(estimate.accuracy, abs=1e-3)
    assert caution.clusters is not None  # for predictions: of the classifier's own features
    torch.testing.assert_close(caution.clusters.centre, confirming.mean(dim=0))


def test_what_was_known_before_counts_as_far_as_untaught_clusters_are_not_trusted() -> None:
    source, labels = domain(400, wrong=0.0, domain_logit=1.0)
    target, _ = domain(400, wrong=0.3, domain_logit=-1.0, least_margin=2, seed=1)
    judged = target._replace(untaught_representation=target.representation)
    _, now = fit_caution(source, labels, source, labels, judged, untaught=Untaught(0.7, 0.15))
    _, estimate = fit_caution(source, labels, source, labels, judged, untaught=Untaught(0.3, 0.15))
    assert estimate.trust == pytest.approx(0.5)
    assert now.accuracy - estimate.accuracy == pytest.approx(0.4 * 0.5 / 2, abs=1e-6)


def test_nothing_known_before_justifies_more_confidence() -> None:
    source, labels = domain(400, wrong=0.0, domain_logit=1.0)
    target, _ = domain(400, wrong=0.0, domain_logit=-1.0, least_margin=1, seed=1)
    caution, estimate = fit_caution(source, labels, source, labels, target, untaught=Untaught(0.99, 1.0))
    assert estimate.accuracy == pytest.approx(float(torch.softmax(target.logits, dim=-1).amax(dim=-1).mean()))
    assert confidence(caution, target) == pytest.approx(estimate.accuracy, abs=1e-3)
