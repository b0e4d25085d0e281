"""From a fitted model and a domain to predictions, and from predictions to metrics."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import Inputs
from shiftcal.data.pseudo_label_rounds import NOT_CHOSEN, PseudoLabelRounds
from shiftcal.metrics import compute_metrics
from shiftcal.runs.predictions import ExampleImages, Predictions
from shiftcal.training.fitted_model import FittedModel

# Pictures kept of each end of the density ratio.
_EXAMPLES_PER_END = 12


def predict_domain(
    model: FittedModel, domain: LabelledDomain | UnlabelledDomain, *, keep_examples: bool = False
) -> Predictions:
    """Predictions for every row; labels, where the domain has them, are carried along for evaluation.

    Raises:
        InvalidInputError: the domain has labels that the model does not know, or inputs of another shape.
    """
    labels = domain.labels_among(model.classes) if isinstance(domain, LabelledDomain) else None
    outputs = model.predict(domain.inputs)
    density_ratio = outputs.density_ratio.double().numpy()
    return Predictions(
        ids=np.array([domain.inputs.identify(row) for row in range(len(domain))]),
        probabilities=torch.softmax(outputs.logits.double(), dim=-1).numpy(),
        density_ratio=density_ratio,
        classes=model.classes,
        labels=labels,
        examples=_extreme_examples(domain.inputs, density_ratio) if keep_examples else None,
    )


def evaluate(predictions: Predictions) -> dict[str, float | None]:
    """All metrics of predictions with labels; None where one is not defined (no errors to detect, say).

    Raises:
        InvalidInputError: the predictions have no labels.
    """
    if predictions.labels is None:
        raise InvalidInputError("metrics need labels, and these predictions have none; give labelled data")
    metrics = compute_metrics(predictions.probabilities, predictions.labels)
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}


def summarize(predictions: Predictions) -> dict[str, float | None]:
    """What can be said with or without labels: size, confidence, density ratio, and metrics if there are labels."""
    log_ratio = np.log(predictions.density_ratio)
    summary: dict[str, float | None] = {
        "num_samples": len(predictions),
        "mean_confidence": float(predictions.confidence.mean()),
        "median_density_ratio": float(np.exp(np.median(log_ratio))),
    }
    return summary | (evaluate(predictions) if predictions.labels is not None else {})


def coverage_of_sets(model: FittedModel, predictions: Predictions, coverage: float = 0.9) -> dict[str, float | None]:
    """How large the prediction sets of a wanted coverage are, and with labels what they really cover."""
    if model.conformity is None:
        return {}
    sets = model.conformity.sets(predictions.probabilities, 1 / predictions.density_ratio, coverage)
    percent = round(100 * coverage)
    summary: dict[str, float | None] = {f"mean_set_size_{percent}": float(sets.sum(axis=1).mean())}
    if predictions.labels is not None:
        summary[f"set_coverage_{percent}"] = float(sets[np.arange(len(sets)), predictions.labels].mean())
    return summary


def judge_pseudo_labels(
    rounds: PseudoLabelRounds, target: LabelledDomain, classes: tuple[Hashable, ...]
) -> PseudoLabelRounds:
    """The rounds with the share of their labels that is right.

    Args:
        rounds: of a model that was trained on the inputs of `target`.
        target: the same rows with labels; a label that the model does not know makes every pseudo-label wrong.
        classes: of the model.
    """
    position = {label: index for index, label in enumerate(classes)}
    unknown = len(classes)
    labels = np.array([position.get(label, unknown) for label in target.classes])[target.labels]
    chosen = rounds.labels != NOT_CHOSEN
    right = chosen & (rounds.labels == labels)
    return replace(rounds, true_precision=right.sum(axis=1) / chosen.sum(axis=1))


def precision_by_round(model: FittedModel, domain: LabelledDomain | UnlabelledDomain) -> list[dict[str, float]]:
    """What the model took as labelled in each round, and how much of it was right; nothing if it took nothing.

    Nothing also if the domain has another number of rows than the target of training: it can't be that one then.
    """
    rounds = model.pseudo_labels
    if rounds is None or not isinstance(domain, LabelledDomain) or len(domain) != rounds.labels.shape[1]:
        return []
    judged = judge_pseudo_labels(rounds, domain, model.classes)
    assert judged.true_precision is not None
    columns = (judged.epochs, judged.share, judged.estimated_precision, judged.true_precision)
    names = ("epoch", "share", "estimated_precision", "true_precision")
    return [dict(zip(names, map(float, row), strict=True)) for row in zip(*columns, strict=True)]


def verdict_on_sets(target_metrics: Mapping[str, float | None], coverage: float = 0.9) -> str | None:
    """In words, what prediction sets of a wanted coverage are like on the target; None where there are none."""
    percent = round(100 * coverage)
    size, covered = (target_metrics.get(f"{name}_{percent}") for name in ("mean_set_size", "set_coverage"))
    if size is None:
        return None
    found = "" if covered is None else f" hold it {covered:.1%} of the time and"
    return f"Prediction sets that are to hold the true label {percent}% of the time{found} have {size:.1f} labels."


def _extreme_examples(inputs: Inputs, density_ratio: NDArray[np.float64]) -> ExampleImages | None:
    """Pictures of the inputs that are most and least like the source; None for features."""
    if inputs.kind != "images":
        return None
    order = np.argsort(density_ratio, kind="stable")
    rows = np.unique(np.concatenate([order[:_EXAMPLES_PER_END], order[-_EXAMPLES_PER_END:]])).astype(np.int64)
    pictures = (inputs.fetch(rows).clamp(0, 1) * 255).round().to(torch.uint8)
    return ExampleImages(rows, pictures.permute(0, 2, 3, 1).contiguous().numpy())
