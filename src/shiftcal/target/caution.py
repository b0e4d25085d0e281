"""How cautious to be on the target, found without its labels.

Let tau(x), from 0 to 1, say how target-like an input is: P(target | x) = 1 / (1 + R(x)), unless a method says
otherwise. Its logits are scaled by

    log scale(x) = tau(x) (vote u(x) - caution) + (1 - tau(x)) gain

with u(x) the share of the predicted class among the clusters of the target at x. Source-like inputs (tau -> 0) keep
their logits, for gain is 0 unless a method is asked about the source too; the scale of target-like ones is a bounded,
monotone function of the density ratio, whose strength is the caution. The caution is chosen so that the mean
confidence on the target is the accuracy that can be expected there. Two witnesses tell of that accuracy:

- `cluster_agreement`: how often the classifier agrees with the clusters of the target's own representation, or of
  one that learned nothing from the target where there is one (`Observed.untaught_representation`). Where a
  shift leads the classifier astray, it cuts across these clusters. A class that is predicted less than 0.15 times as
  often as it occurs on the source is taken to be absent and has no cluster in this count: it would be a part of
  another's. Where that would hold for more than two thirds of the source, or leave a single class, the shift has
  driven the classifier into a few classes, and all of them count.
- `corrected_confidence`: the confidence on the target, corrected by what held-out source data shows to be wrong with
  it beyond chance. Without a shift it says all there is to know; under a shift it is too high.

The first is believed to the degree `trust`, the product of three answers between 0 and 1; the second for the rest.

- Does the shift change what the classifier says? `separation`: how well its log-probabilities for held-out source
  rows can be told from those for target rows, when each predicted class counts on the source as often as on the
  target. From 0.3 on the answer is yes. Two domains can be told apart by what does not matter to the classifier (a
  camera, say); its outputs show what does. And a target on which other classes are frequent is no harder for that.
- Do classes form clusters in this representation? `cluster_purity`: what the same clustering achieves on the source,
  where labels are known, corrected for chance (0: no better than the most frequent class). No at 0.2, yes from 0.5.
- Are the target's clusters compact? `cluster_compactness`: mean cosine of a row with the centroid of its cluster.
  From 0.4 on yes; loose clusters, as of bags of words, contradict a classifier that is right.

Where nothing but probabilities is known there are no clusters. In their place stands the average thresholded
confidence (Garg et al., "Leveraging Unlabeled Data to Predict Out-of-Distribution Performance", ICLR 2022): the share
of target rows above the confidence that as many held-out source rows exceed as are classified rightly.

The expected accuracy is never above the confidence: nothing here can justify more confidence without labels.

Source rows that look like the target have their part of the caution. Where the source matters too (`keep_source`), a
gain of at most 1 on whatever looks like the source makes the mean confidence on held-out source rows what it was
without caution, corrected by what their labels show to be wrong with it beyond chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from scipy.optimize import brentq
from torch import Tensor

from shiftcal.target.clusters import Clusters, cluster_by_predictions, cluster_posteriors, compactness
from shiftcal.target.domain_auc import separation

# Weight of the clusters' vote on a single input, in units of log scale, where the clusters are fully trusted.
VOTE = 0.5
_FULL_SEPARATION = 0.3
_PURITY_RANGE = (0.2, 0.5)
_FULL_COMPACTNESS = 0.4
# Frequency among the predictions for the target, in relation to the source, below which a class counts as absent.
_RARE = 0.15
# Share of the source that the target may lack: a classifier that predicts hardly any of its classes is not believed.
_MOST_ABSENT = 2 / 3
# Of a held-out row: a class that is hardly ever predicted on the source says little about its outputs.
_LARGEST_WEIGHT = 10.0
# Held-out rows with a class that is predicted on the target: with fewer, the two have nothing in common.
FEWEST_HELD_OUT = 10
_CAUTION_RANGE = (-1.0, 8.0)
# More would be noise of the ratio: domains that it can hardly tell apart would need a large gain and a large caution.
_GAIN_RANGE = (-1.0, 1.0)
_GAIN_ROUNDS = 5
_LEAST_LOG_POWER = -8.0
_NEGLIGIBLE = 1e-3
# Log-probabilities below this differ in nothing that matters.
_LEAST_LOG_PROBABILITY = -14.0


class Observed(NamedTuple):
    """What is known of the rows of one domain; float64 throughout."""

    logits: Tensor
    """(N, C) of the classifier."""
    likeness: Tensor
    """(N,) tau, how target-like each row is."""
    representation: Tensor | None
    """(N, F) in which clusters are looked for; None where nothing but the logits is known."""
    untaught_representation: Tensor | None = None
    """(N, F) of a network that learned nothing from the target, where there is one: in its clusters a classifier is
    judged that was taught on the target. Those of its own features confirm what it says."""


class AccuracyEstimate(NamedTuple):
    """The accuracy to be expected on the target, and what it rests on."""

    accuracy: float
    cluster_agreement: float
    """Without a representation, the average thresholded confidence."""
    corrected_confidence: float
    cluster_purity: float
    cluster_compactness: float
    separation: float
    trust: float

    def findings(self) -> dict[str, float]:
        """By the names that users see."""
        return {f"estimated_{name}" if name == "accuracy" else name: v for name, v in self._asdict().items()}


class Untaught(NamedTuple):
    """What was known of a classifier before it was taught on the target, by labels that it or clusters gave."""

    accuracy: float
    """Expected then. A taught classifier agrees with the clusters more often than it is right, and it was right less
    often before: the truth lies between the two estimates, and their mean is taken, as far as there are no trusted
    clusters of features that were not taught."""
    separation: float
    """Found then. What a taught classifier says of the target looks as on the source, whatever it is worth."""


class Caution(NamedTuple):
    """A fitted scale."""

    clusters: Clusters | None
    vote: Tensor
    """Scalar: weight of the clusters' vote on a single input."""
    caution: Tensor
    """Scalar."""
    gain: Tensor
    """Scalar."""


def log_scale(caution: Caution, rows: Observed) -> Tensor:
    """log of the factor (N,) for the logits of each row."""
    return _log_scale(rows, _support(rows, caution.clusters), caution.vote, caution.caution, caution.gain)


def _support(rows: Observed, clusters: Clusters | None) -> Tensor:
    """u (N,): the share of the predicted class among the clusters at each row."""
    if clusters is None or rows.representation is None:
        return torch.zeros_like(rows.likeness)
    predicted = rows.logits.argmax(dim=-1, keepdim=True)
    return cluster_posteriors(rows.representation, clusters).gather(-1, predicted).squeeze(-1)


def _log_scale(
    rows: Observed, support: Tensor, vote: Tensor, caution: Tensor | float, gain: Tensor | float
) -> Tensor:
    return rows.likeness * (vote * support - caution) + (1 - rows.likeness) * gain


def fit_caution(
    source: Observed,
    source_labels: Tensor,
    held_out: Observed,
    held_out_labels: Tensor,
    target: Observed,
    *,
    untaught: Untaught | None = None,
    keep_source: bool = False,
) -> tuple[Caution, AccuracyEstimate]:
    """Find the caution, and the accuracy estimate that it rests on.

    Args:
        source: rows that the classifier was trained on, with labels (N,).
        held_out: source rows that it was not trained on, with labels.
        target: rows of the target.
        untaught: what was known before the classifier was taught on the target, where it was.
        keep_source: find a gain too, so that the confidence on the source stays what its labels say.
    """
    clusters, vote = None, target.logits.new_zeros(())
    if target.representation is None:
        estimate = estimate_from_outputs(held_out, held_out_labels, target)
    else:
        clusters = _clusters(target)
        apart = None if untaught is None else untaught.separation
        judged = _as_judged(target)
        judging = clusters if judged is target else _clusters(judged)
        estimate = estimate_accuracy(
            _as_judged(source), source_labels, held_out, held_out_labels, judged, judging, apart
        )
        vote = target.logits.new_tensor(VOTE * estimate.trust)
    if untaught is not None:
        # Trusted clusters of features that nothing taught need no correction.
        in_doubt = 1.0 if target.untaught_representation is None else 1 - estimate.trust
        expected = estimate.accuracy + in_doubt * (untaught.accuracy - estimate.accuracy) / 2
        estimate = estimate._replace(accuracy=min(expected, _mean_confidence(target.logits)))

    def confidence_of(rows: Observed) -> Callable[[float, float], float]:
        support = _support(rows, clusters)
        return lambda caution, gain: _mean_confidence(
            _log_scale(rows, support, vote, caution, gain).exp().unsqueeze(-1) * rows.logits
        )

    on_target, on_source = confidence_of(target), confidence_of(held_out)
    wanted = _mean_confidence(held_out.logits) + calibration_gap(held_out.logits, held_out_labels)

    def caution_for(gain: float) -> float:
        return _root(lambda caution: on_target(caution, gain) - estimate.accuracy, _CAUTION_RANGE)

    def gain_for(caution: float) -> float:
        if on_source(caution, _GAIN_RANGE[1]) - on_source(caution, _GAIN_RANGE[0]) < _NEGLIGIBLE:
            return 0.0
        return -_root(lambda loss: on_source(caution, -loss) - wanted, _GAIN_RANGE)

    gain, caution = 0.0, caution_for(0.0)
    for _ in range(_GAIN_ROUNDS if keep_source else 0):
        gain = gain_for(caution)
        caution = caution_for(gain)
    return Caution(clusters, vote, *target.logits.new_tensor([caution, gain])), estimate


def _as_judged(rows: Observed) -> Observed:
    """With the representation that a classifier is judged in."""
    independent = rows.untaught_representation
    return rows if independent is None else rows._replace(representation=independent)


def _clusters(rows: Observed) -> Clusters:
    assert rows.representation is not None
    return cluster_by_predictions(rows.representation, torch.softmax(rows.logits, dim=-1))


def estimate_accuracy(
    source: Observed,
    source_labels: Tensor,
    held_out: Observed,
    held_out_labels: Tensor,
    target: Observed,
    clusters: Clusters,
    apart: float | None = None,
) -> AccuracyEstimate:
    """Accuracy to be expected on the target; arguments as for `fit_caution`, `apart` the separation where known."""
    assert source.representation is not None
    assert target.representation is not None
    agreement = _agreement_of_classes_that_occur(target, clusters, source_labels)
    source_clusters = _clusters(source)
    chance = float(source_labels.bincount().max()) / len(source_labels)
    purity = 0.0
    if chance < 1:
        purity = (_agreement(source.representation, source_clusters, source_labels) - chance) / (1 - chance)
    compact = compactness(target.representation, clusters)
    belief = belief_in_clusters(purity, compact)
    return _weighed(held_out, held_out_labels, target, agreement, belief, purity, compact, apart)


def degree_of_shift(apart: float) -> float:
    """How far a shift changes what the classifier says, from 0 to 1, given the separation of its outputs."""
    return _share(apart / _FULL_SEPARATION)


def belief_in_clusters(purity: float, compact: float) -> float:
    """How far clusters can be believed that achieve this purity on the source and are this compact on the target."""
    low, high = _PURITY_RANGE
    return _share((purity - low) / (high - low)) * _share(compact / _FULL_COMPACTNESS)


def estimate_from_outputs(held_out: Observed, held_out_labels: Tensor, target: Observed) -> AccuracyEstimate:
    """The same where nothing but logits is known."""
    right = (held_out.logits.argmax(dim=-1) == held_out_labels).double().mean()
    threshold = _confidence(held_out.logits).quantile(1 - right)
    above = float((_confidence(target.logits) >= threshold).double().mean())
    return _weighed(held_out, held_out_labels, target, above, 1.0, 0.0, 0.0)


def _weighed(
    held_out: Observed,
    held_out_labels: Tensor,
    target: Observed,
    witness: float,
    belief: float,
    purity: float,
    compact: float,
    apart: float | None = None,
) -> AccuracyEstimate:
    """The two witnesses put together."""
    if apart is None:
        apart = _separation_of_outputs(held_out.logits, target.logits)
    trust = degree_of_shift(apart) * belief
    confidence = _mean_confidence(target.logits)
    corrected = confidence + calibration_gap(held_out.logits, held_out_labels)
    expected = trust * witness + (1 - trust) * corrected
    floor = 1 / target.logits.shape[-1]
    return AccuracyEstimate(min(max(expected, floor), confidence), witness, corrected, purity, compact, apart, trust)


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _agreement(representation: Tensor, clusters: Clusters, labels: Tensor) -> float:
    return float((cluster_posteriors(representation, clusters).argmax(dim=-1) == labels).double().mean())


def _agreement_of_classes_that_occur(target: Observed, clusters: Clusters, source_labels: Tensor) -> float:
    assert target.representation is not None
    predicted = target.logits.argmax(dim=-1)
    num_classes = target.logits.shape[-1]
    frequency, source_frequency = (
        labels.bincount(minlength=num_classes) / len(labels) for labels in (predicted, source_labels)
    )
    occurs = (frequency > 0) & (frequency >= _RARE * source_frequency)
    collapsed = occurs.sum() == 1 or source_frequency[~occurs].sum() > _MOST_ABSENT
    if occurs.all() or collapsed:
        return _agreement(target.representation, clusters, predicted)
    of_these = torch.softmax(target.logits, dim=-1)[:, occurs]
    clusters = cluster_by_predictions(target.representation, of_these)
    by_clusters = cluster_posteriors(target.representation, clusters).argmax(dim=-1)
    return float((occurs.nonzero().squeeze(-1)[by_clusters] == predicted).double().mean())


def _separation_of_outputs(held_out: Tensor, target: Tensor) -> float:
    predicted = [logits.argmax(dim=-1) for logits in (held_out, target)]
    frequency, wanted = (labels.bincount(minlength=held_out.shape[-1]) / len(labels) for labels in predicted)
    weights = (wanted / frequency).clamp_max(_LARGEST_WEIGHT)[predicted[0]]
    counts = weights > 0
    if counts.sum() < FEWEST_HELD_OUT:
        return 1.0
    return separation(_log_probabilities(held_out[counts]), _log_probabilities(target), weights[counts])


def _log_probabilities(logits: Tensor) -> Tensor:
    return torch.log_softmax(logits, dim=-1).clamp_min(_LEAST_LOG_PROBABILITY)


def _confidence(logits: Tensor) -> Tensor:
    return torch.softmax(logits, dim=-1).max(dim=-1).values


def _mean_confidence(logits: Tensor) -> float:
    return float(_confidence(logits).mean())


def calibration_gap(logits: Tensor, labels: Tensor) -> float:
    """Accuracy less confidence, less a standard error towards zero: what held-out data shows beyond chance."""
    accuracy = float((logits.argmax(dim=-1) == labels).double().mean())
    gap = accuracy - _mean_confidence(logits)
    variance = max(accuracy * (1 - accuracy), 1 / len(labels))
    excess: float = max(abs(gap) - (variance / len(labels)) ** 0.5, 0.0)
    return excess if gap > 0 else -excess


def _root(surplus: Callable[[float], float], bounds: tuple[float, float]) -> float:
    """Where a falling surplus is 0, or the bound that is nearest to it."""
    low, high = bounds
    if surplus(low) <= 0:
        return low
    if surplus(high) >= 0:
        return high
    return float(brentq(surplus, low, high, xtol=1e-6))


def power_for_confidence(log_probabilities: Tensor, confidence: float, likeness: Tensor | float = 1.0) -> float:
    """The power s of probabilities at which their mean confidence is the given one; 1 where it is lower anyway.

    Args:
        log_probabilities: (N, C), each row up to a constant.
        confidence: wanted mean of the largest probability of a row.
        likeness: (N, 1) how far the power holds for each row, of which s^likeness is the power.
    """

    def surplus(log_power: float) -> float:
        powers = torch.exp(torch.as_tensor(log_power * likeness, dtype=log_probabilities.dtype))
        return float(torch.softmax(powers * log_probabilities, dim=-1).amax(dim=-1).mean()) - confidence

    if surplus(0.0) <= _NEGLIGIBLE:
        return 1.0
    return math.exp(_LEAST_LOG_POWER if surplus(_LEAST_LOG_POWER) >= 0 else brentq(surplus, _LEAST_LOG_POWER, 0.0))
