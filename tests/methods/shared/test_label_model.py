from dataclasses import replace

import pytest
import torch

from shiftcal.methods.shared.label_model import (
    LabelBuffers,
    LabelModel,
    accuracy_above_chance,
    fit_label_model,
    shift_degree,
    structure_trust,
)
from shiftcal.target.clusters import Clusters
from shiftcal.target.evidence import BeforeAdaptation, ObservedRows, ShiftEvidence
from shiftcal.target.scaling import ConfidenceScaling

pytestmark = pytest.mark.usefixtures("coarse_estimate")
CLASSES, DIM = 3, 6


def rows(
    num_rows: int, *, seed: int, margin: float = 4.0, attracted: float = 0.0, moved: float = 0.0
) -> tuple[ObservedRows, torch.Tensor]:
    """Clusters by class; a share of the rows of the others is taken for class 0; all may have moved."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(num_rows) % CLASSES
    features = 5 * torch.eye(CLASSES, DIM)[labels] + torch.randn(num_rows, DIM, generator=generator)
    features[:, -1] += moved
    taken = torch.rand(num_rows, generator=generator) < attracted
    predicted = torch.where(taken, 0, labels)
    logits = (margin + torch.rand(num_rows, 1, generator=generator)) * torch.eye(CLASSES)[predicted]
    return ObservedRows(logits.double(), torch.full((num_rows,), 0.8).double(), features.double()), labels


@pytest.fixture
def evidence() -> ShiftEvidence:
    source = rows(300, seed=0, margin=6.0)
    return ShiftEvidence(*rows(60, seed=1, margin=6.0), rows(300, seed=2, attracted=0.4, moved=8.0)[0], *source)


def test_the_scores_by_hand() -> None:
    """log f + 0.3 trust log q + log b."""
    clusters = Clusters(torch.ones(()), torch.zeros(2), torch.eye(2))
    scaling = ConfidenceScaling(clusters, *torch.tensor([0.0, 0.7, 0.0]))
    correction = torch.tensor([0.3, -0.2])
    observed = ObservedRows(torch.tensor([[2.0, 1.0]]), torch.ones(1), torch.tensor([[1.0, 0.5]]))
    f = (torch.tensor([[2.0, 1.0]]) * torch.exp(torch.tensor(-0.7))).log_softmax(-1)
    q = clusters.log_posteriors(torch.tensor([[1.0, 0.5]]))
    found = LabelModel(scaling, torch.tensor(0.6), correction, torch.tensor(1.0)).log_scores(observed)
    torch.testing.assert_close(found, f + 0.3 * 0.6 * q + correction)
    without = LabelModel(scaling, torch.tensor(0.0), correction, torch.tensor(1.0)).log_scores(observed)
    torch.testing.assert_close(without, f + correction)


def test_f_has_the_confidence_that_the_accuracy_merits(evidence: ShiftEvidence) -> None:
    model, found = fit_label_model(evidence, by_clusters=False, correct_prior=False)
    confidence = torch.softmax(model.log_scores(evidence.target), dim=-1).amax(dim=-1).mean()
    assert float(confidence) == pytest.approx(found.accuracy, abs=1e-4)
    assert found.interval is not None
    assert found.interval[0] < 0.73 < found.interval[1]


def test_clusters_may_vote_on_confidence_without_a_part_in_labels(evidence: ShiftEvidence) -> None:
    silent, voting = (
        fit_label_model(evidence, by_clusters=False, correct_prior=False, for_threshold=chosen)[0]
        for chosen in (False, True)
    )
    assert silent.scaling.cluster_vote == 0
    assert float(voting.scaling.cluster_vote) == pytest.approx(0.5, abs=0.01)
    assert voting.cluster_trust == silent.cluster_trust == 0


def test_labels_count_by_the_trust_in_clusters_and_confusion_by_the_accuracy_though_labels_do_without_clusters(
    evidence: ShiftEvidence,
) -> None:
    assert evidence.target.features is not None
    buffers = LabelBuffers(evidence.target.features.shape[1], CLASSES, 0)
    for by_clusters in (False, True):
        model, found = fit_label_model(evidence, by_clusters=by_clusters, correct_prior=False)
        trust = structure_trust(found)
        assert trust > accuracy_above_chance(found.accuracy, CLASSES)
        values = buffers.values(model, found)
        assert float(values["cluster_trust"]) == pytest.approx(trust * by_clusters)
        assert float(values["label_trust"]) == pytest.approx(trust)
        assert float(values["confusion_trust"]) == pytest.approx(shift_degree(found.domain_auc) * found.accuracy)


def test_clusters_that_rows_do_not_gather_around_are_not_believed(evidence: ShiftEvidence) -> None:
    """Noise in ever more columns: the same classes, cosines to the others of a cluster of ever less."""
    noise = torch.randn(600 + 60, 300, generator=torch.Generator().manual_seed(3)).double()
    degrees = []
    for strength in (0.0, 0.6, 1.2):
        parts = [rows_ for rows_ in (evidence.held_out, evidence.target, evidence.training) if rows_ is not None]
        noisy = [
            replace(part, features=torch.cat([part.features, strength * noise[start : start + len(part.logits)]], 1))
            for part, start in zip(parts, (0, 60, 360), strict=True)
            if part.features is not None
        ]
        loose = replace(evidence, held_out=noisy[0], target=noisy[1], training=noisy[2])
        degrees.append(loose.gathering)
        model, found = fit_label_model(loose, by_clusters=True, correct_prior=False)
        assert float(model.cluster_trust) == pytest.approx(structure_trust(found) * degrees[-1])
    assert degrees[0] == 1
    assert 0 < degrees[1] < 1
    assert degrees[2] == 0
    # What is left to believe in is the classifier.
    assert float(model.label_trust) == pytest.approx(accuracy_above_chance(found.accuracy, CLASSES))


@pytest.mark.parametrize(
    ("accuracy", "num_classes", "above"), [(1.0, 2, 1.0), (0.65, 2, 0.3), (0.4, 2, 0.0), (0.325, 10, 0.25)]
)
def test_accuracy_above_chance(accuracy: float, num_classes: int, above: float) -> None:
    assert accuracy_above_chance(accuracy, num_classes) == pytest.approx(above)


def test_clusters_and_prior_correction_mend_labels(evidence: ShiftEvidence) -> None:
    labels = torch.arange(300) % CLASSES

    def right(**parts: bool) -> float:
        model, _ = fit_label_model(evidence, **parts)
        return float((model.log_scores(evidence.target).argmax(dim=-1) == labels).double().mean())

    plain = right(by_clusters=False, correct_prior=False)
    assert right(by_clusters=True, correct_prior=False) > plain + 0.2
    model, _ = fit_label_model(evidence, by_clusters=False, correct_prior=True)
    # Class 0 attracts the rows of others: less of it, more of them.
    assert model.log_prior_correction[0] < -0.3
    assert (model.log_prior_correction[1:] > 0).all()


def test_prior_correction_is_by_the_frequencies_of_the_source(evidence: ShiftEvidence) -> None:
    """log(frequency on the source / mean probability on the target), to the power of the degree of the shift."""
    half_a_shift = replace(evidence, before_adaptation=BeforeAdaptation(0.7, 0.575))
    plain, _ = fit_label_model(half_a_shift, by_clusters=False, correct_prior=False)
    model, found = fit_label_model(half_a_shift, by_clusters=False, correct_prior=True)
    assert found.domain_auc == 0.575
    mean = torch.softmax(plain.log_scores(evidence.target), dim=-1).mean(dim=0)
    expected = 0.5 * (torch.full((3,), 1 / 3).double() / mean).log()
    torch.testing.assert_close(model.log_prior_correction, expected, atol=1e-4, rtol=0)


def test_with_too_few_held_out_rows_the_prior_is_left_alone(evidence: ShiftEvidence) -> None:
    few = replace(evidence, held_out=rows(9, seed=1)[0], held_out_labels=torch.arange(9) % 3)
    assert not fit_label_model(few, by_clusters=False, correct_prior=True)[0].log_prior_correction.any()


def test_where_the_shift_can_not_be_told_the_prior_is_left_alone() -> None:
    """Held-out rows of many classes, a target of few: too few rows of these to tell, however many there are."""
    source, labels = rows(300, seed=0, margin=6.0)
    held_out, own = rows(30, seed=1, margin=6.0)
    target, _ = rows(300, seed=2)
    only = replace(target, logits=target.logits + torch.tensor([50.0, 0, 0]))
    few = torch.cat([(own != 0).nonzero().squeeze(-1), (own == 0).nonzero().squeeze(-1)[:5]])
    part = replace(
        held_out, **{name: getattr(held_out, name)[few] for name in ("logits", "target_probability", "features")}
    )
    evidence = ShiftEvidence(part, own[few], only, source, labels)
    model, found = fit_label_model(evidence, by_clusters=False, correct_prior=True)
    assert found.domain_auc is None
    assert not model.log_prior_correction.any()


def test_buffers_hold_the_label_model_and_remember_the_time_before(evidence: ShiftEvidence) -> None:
    buffers = LabelBuffers(DIM, CLASSES, 0).double()
    assert buffers.known_before is None
    model, found = fit_label_model(evidence, by_clusters=True, correct_prior=True)
    for name, value in buffers.values(model, found).items():
        buffers.get_buffer(name).copy_(value)
    torch.testing.assert_close(buffers.model.log_scores(evidence.target), model.log_scores(evidence.target))
    known = buffers.known_before
    assert known is not None
    assert [known.accuracy, known.domain_auc] == pytest.approx([found.accuracy, found.domain_auc])
    assert found.witnesses is not None
    assert known.cluster_purity == pytest.approx(found.witnesses.cluster_purity)
    seen = replace(found.witnesses, cluster_purity=0.5, domain_auc=0.9)
    later = buffers.values(model, replace(found, accuracy=0.1, witnesses=seen))
    remembered = [known.accuracy, known.domain_auc, float(known.prior_explains), 0.5]
    assert later["before_adaptation"].tolist() == pytest.approx(remembered)


def test_where_class_frequencies_explain_the_shift_labels_follow_them_and_no_clusters() -> None:
    """One class of three is gone, nothing else has changed; also in later rounds, when outputs tell nothing of it."""
    source, labels = rows(600, seed=0)
    held_out = rows(300, seed=1)
    target, own = rows(600, seed=2)
    kept = own != 2
    part = replace(
        target, **{name: getattr(target, name)[kept] for name in ("logits", "target_probability", "features")}
    )
    evidence = ShiftEvidence(*held_out, part, source, labels)
    model, found = fit_label_model(evidence, by_clusters=True, correct_prior=True)
    assert found.prior_shift is not None
    assert found.prior_shift.explains
    assert model.cluster_trust == structure_trust(found) == 0
    assert model.log_prior_correction[2] < -2
    later = replace(evidence, before_adaptation=BeforeAdaptation(0.9, 0.9, prior_explains=True))
    again, _ = fit_label_model(later, by_clusters=True, correct_prior=True)
    torch.testing.assert_close(again.log_prior_correction, model.log_prior_correction)
    unexplained = replace(evidence, before_adaptation=BeforeAdaptation(0.9, 0.9))
    other, _ = fit_label_model(unexplained, by_clusters=True, correct_prior=True)
    # Alignment would look for the class that is gone.
    assert other.log_prior_correction[2] > 0


@pytest.mark.parametrize(
    ("auc", "degree"), [(None, 1.0), (0.4, 0.0), (0.5, 0.0), (0.575, 0.5), (0.635, 0.9), (0.65, 1.0), (0.9, 1.0)]
)
def test_the_degree_of_a_shift_grows_with_the_domain_auc_of_outputs(auc: float | None, degree: float) -> None:
    assert shift_degree(auc) == pytest.approx(degree)
