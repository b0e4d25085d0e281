"""What is read from the cells of finished comparisons.

precision_at_coverage: the precision of the surest tenth, quarter and half of the target's test rows after training.

pseudo_label_rounds: how many pseudo-labels each round has, and how many of them are right.

oracle_temperature: the Brier score of `source-only` at the temperature that is best for it on the target's labels,
and that of target scaling, which has none.

prediction_sets: what they hold and how large they are, means over all cells, by what they rest on: "source" is
weighted conformal prediction by held-out source rows and the learned ratio, "target" the probabilities of the
target's own rows, "both" what `predict_set` does, with thresholds from the rows that are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from benchmarks.frame import Job, of_comparisons
from scipy.optimize import minimize_scalar
from torch import Tensor

from shiftcal.data.pseudo_label_rounds import load_pseudo_label_rounds
from shiftcal.faces.models.outputs import LEAST_PROBABILITY
from shiftcal.metrics import brier_score
from shiftcal.runs.comparison.plan import Folders
from shiftcal.runs.folder import RunFolder
from shiftcal.runs.predictions import Predictions, load_predictions
from shiftcal.target.prediction_sets import Conformity, conformity

COVERAGES = (0.1, 0.25, 0.5)
SET_METHODS = ("source-only", "source-only+temperature", "source-only+target-scaling")
SET_COVERAGES = (0.8, 0.9, 0.95)


def precision_at_coverage(folder: RunFolder) -> Iterator[dict[str, float]]:
    """Of one cell."""
    predictions = load_predictions(folder.target_predictions)
    surest_first = np.argsort(-predictions.confidence, kind="stable")
    right = (predictions.predicted == labels_of(predictions))[surest_first]
    yield {f"precision_at_{share}": float(right[: round(share * len(right))].mean()) for share in COVERAGES}


def pseudo_label_rounds(folder: RunFolder) -> Iterator[dict[str, float]]:
    """Of one cell; none if it took no rows of the target as labelled."""
    if not folder.pseudo_labels.is_file():
        return
    num_classes = len(load_predictions(folder.target_predictions).classes)
    rounds = load_pseudo_label_rounds(folder.pseudo_labels, num_classes)
    assert rounds.true_precision is not None, "the runs of a benchmark have labels for evaluation"
    columns = ("epoch", "coverage", "estimated_precision", "true_precision")
    for values in zip(rounds.epochs, rounds.share, rounds.estimated_precision, rounds.true_precision, strict=True):
        yield dict(zip(columns, map(float, values), strict=True))


def labels_of(predictions: Predictions) -> np.ndarray:
    """The labels, which the runs of a benchmark have for evaluation."""
    assert predictions.labels is not None
    return predictions.labels


def each_cell(measure: Callable[[RunFolder], Iterator[dict[str, float]]], cells: Folders) -> Iterator[Job]:
    """A job for each cell."""
    for (task, method, seed), folder in cells.items():
        yield Job({"task": task, "method": method, "seed": seed}, partial(measure, folder))


def oracle_jobs(cells: Folders) -> Iterator[Job]:
    """A job for each task and seed."""
    for (task, method, seed), folder in cells.items():
        if method == "source-only+target-scaling":
            pair = cells[task, "source-only", seed], folder
            yield Job({"task": task, "seed": seed}, partial(oracle_temperature, *pair))


def oracle_temperature(plain: RunFolder, scaled: RunFolder) -> Iterator[dict[str, float]]:
    """Of one task and seed."""
    before, after = (load_predictions(folder.target_predictions) for folder in (plain, scaled))
    labels = torch.from_numpy(labels_of(before))
    yield {
        "oracle_temperature": oracle_brier(torch.from_numpy(before.probabilities), labels),
        "target_scaling": brier_score(after.probabilities, labels),
    }


def oracle_brier(probabilities: Tensor, labels: Tensor) -> float:
    """The lowest Brier score (N, C) over temperatures from 1/20 to 20."""
    log_probabilities = probabilities.clamp_min(LEAST_PROBABILITY).log()

    def at(log_temperature: float) -> float:
        return brier_score(torch.softmax(log_probabilities / 10**log_temperature, dim=-1), labels)

    return float(minimize_scalar(at, bounds=(-1.3, 1.3), method="bounded").fun)


def prediction_sets(cells: Folders) -> Iterator[dict[str, str | float]]:
    """Means over all cells."""
    found: dict[tuple[str, float, str], list[tuple[float, float]]] = {}
    for (_, method, _), folder in cells.items():
        if method not in SET_METHODS:
            continue
        source, target = load_predictions(folder.source_predictions), load_predictions(folder.target_predictions)
        rests_on = conformity(
            torch.from_numpy(source.probabilities),
            torch.from_numpy(labels_of(source)),
            torch.from_numpy(1 / source.density_ratio),
            torch.from_numpy(target.probabilities),
        )
        for coverage in SET_COVERAGES:
            for name, witness in witnesses(rests_on).items():
                sets = witness.sets(target.probabilities, 1 / target.density_ratio, coverage)
                holds = float(sets[np.arange(len(sets)), labels_of(target)].mean())
                found.setdefault((method, coverage, name), []).append((holds, float(sets.sum(axis=1).mean())))
    for (method, coverage, name), values in sorted(found.items(), key=lambda item: SET_METHODS.index(item[0][0])):
        holding, sizes = np.array(values).T
        yield {
            "method": method,
            "wanted": coverage,
            "witness": name,
            "runs": len(values),
            "coverage": holding.mean(),
            "mean_distance": np.abs(holding - coverage).mean(),
            "labels": sizes.mean(),
        }


def witnesses(found: Conformity) -> dict[str, Conformity]:
    """Each alone, and both; a source row that is never in doubt asks for nothing."""
    silent = found._replace(scores=torch.zeros(1).double(), weights=torch.ones(1).double())
    return {"source": found._replace(expected=None), "target": silent, "both": found}


BENCHMARKS = {
    "precision_at_coverage": of_comparisons(partial(each_cell, precision_at_coverage)),
    "pseudo_label_rounds": of_comparisons(partial(each_cell, pseudo_label_rounds)),
    "oracle_temperature": of_comparisons(oracle_jobs),
    "prediction_sets": of_comparisons(lambda cells: [Job({}, lambda: prediction_sets(cells))]),
}
