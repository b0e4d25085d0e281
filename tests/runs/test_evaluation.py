from dataclasses import replace

import numpy as np
import pytest
import torch

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import ArrayInputs
from shiftcal.data.pseudo_label_rounds import PseudoLabelRounds
from shiftcal.metrics import METRICS
from shiftcal.runs.evaluation import (
    evaluate,
    judge_pseudo_labels,
    precision_by_round,
    predict_domain,
    summarize,
    verdict_on_sets,
)
from shiftcal.runs.predictions import Predictions
from shiftcal.training.fit import fit_model
from shiftcal.training.fitted_model import FittedModel
from shiftcal.training.recipe import Recipe

pytestmark = pytest.mark.usefixtures("quick_estimate")


def fitted(problem: ShiftProblem, **choices: str) -> FittedModel:
    return fit_model(problem, Recipe.from_names(**choices, training={"epochs": 2}))  # type: ignore[arg-type]


def known_predictions(labels: list[int] | None) -> Predictions:
    return Predictions(
        ids=np.array(["a", "b"]),
        probabilities=np.array([[0.8, 0.2], [0.4, 0.6]]),
        density_ratio=np.array([0.5, 8.0]),
        classes=("no", "yes"),
        labels=None if labels is None else np.array(labels, dtype=np.int64),
    )


def test_predictions_have_one_row_for_each_input(features: ShiftProblem) -> None:
    assert features.target is not None
    predictions = predict_domain(fitted(features), features.target)
    assert predictions.ids.tolist() == [str(row) for row in range(len(features.target))]
    assert predictions.probabilities.shape == (len(features.target), 3)
    np.testing.assert_allclose(predictions.probabilities.sum(axis=1), 1, atol=1e-12)
    assert (predictions.density_ratio > 0).all()
    assert predictions.classes == ("a", "b", "c")
    assert predictions.labels is None
    assert predictions.examples is None


def test_without_a_target_the_density_ratio_is_one(features: ShiftProblem) -> None:
    predictions = predict_domain(fitted(ShiftProblem(features.source, None)), features.source)
    np.testing.assert_array_equal(predictions.density_ratio, 1)


def test_labels_are_put_into_the_order_of_the_models_classes(features: ShiftProblem) -> None:
    model = fitted(features, method="source-only")
    source = features.source
    renumbered = LabelledDomain("again", source.inputs, 2 - source.labels, ("c", "b", "a"))
    expected = predict_domain(model, source)
    found = predict_domain(model, renumbered)
    assert found.labels is not None
    np.testing.assert_array_equal(found.labels, source.labels)
    assert evaluate(found) == evaluate(expected)


def test_a_part_of_the_classes_is_enough(features: ShiftProblem) -> None:
    rows = np.flatnonzero(features.source.labels == 2)
    part = LabelledDomain("part", features.source.inputs.subset(rows), np.zeros(len(rows), np.int64), ("c",))
    predictions = predict_domain(fitted(features, method="source-only"), part)
    assert predictions.labels is not None
    assert set(predictions.labels.tolist()) == {2}
    assert predictions.ids[0] == str(rows[0])


def test_unknown_classes_are_refused(features: ShiftProblem) -> None:
    stranger = LabelledDomain("new data", features.source.inputs, features.source.labels, ("a", "b", "z"))
    with pytest.raises(InvalidInputError, match=r"class sets differ: new data has .*'z'"):
        predict_domain(fitted(features, method="source-only"), stranger)


def test_inputs_of_another_shape_are_refused(features: ShiftProblem) -> None:
    model = fitted(features, method="source-only")
    with pytest.raises(InvalidInputError, match=r"\(4,\), got \(2,\)"):
        predict_domain(model, UnlabelledDomain("narrow", ArrayInputs(torch.zeros(3, 2))))


def test_pictures_of_both_ends_of_the_ratio_are_kept(images: ShiftProblem) -> None:
    assert images.target is not None
    predictions = predict_domain(fitted(images), images.target, keep_examples=True)
    assert predictions.examples is not None
    order = np.argsort(predictions.density_ratio, kind="stable")
    assert set(predictions.examples.rows.tolist()) == {*order[:12].tolist(), *order[-12:].tolist()}
    stored = images.target.inputs
    assert isinstance(stored, ArrayInputs)
    shown = stored.values[torch.from_numpy(predictions.examples.rows)].permute(0, 2, 3, 1).numpy()
    np.testing.assert_array_equal(predictions.examples.images, shown)


def test_few_pictures_are_kept_once(images: ShiftProblem) -> None:
    few = UnlabelledDomain("few", images.source.inputs.subset(np.arange(5, dtype=np.int64)))
    predictions = predict_domain(fitted(images, method="source-only"), few, keep_examples=True)
    assert predictions.examples is not None
    assert predictions.examples.rows.tolist() == [0, 1, 2, 3, 4]


def test_metrics_of_known_predictions() -> None:
    metrics = evaluate(known_predictions([0, 0]))
    assert list(metrics) == list(METRICS)
    assert metrics["accuracy"] == 0.5
    assert metrics["brier_score"] == pytest.approx((2 * 0.2**2 + 2 * 0.6**2) / 2)
    assert metrics["negative_log_likelihood"] == pytest.approx(-(np.log(0.8) + np.log(0.4)) / 2)
    assert metrics["error_detection_auroc"] == 1


def test_a_metric_that_is_not_defined_is_none() -> None:
    assert evaluate(known_predictions([0, 1]))["error_detection_auroc"] is None


def test_metrics_need_labels() -> None:
    with pytest.raises(InvalidInputError, match="metrics need labels"):
        evaluate(known_predictions(None))


def test_summary_without_labels() -> None:
    assert summarize(known_predictions(None)) == {
        "num_samples": 2,
        "mean_confidence": pytest.approx(0.7),
        "median_density_ratio": pytest.approx(2.0),
    }


def test_summary_with_labels_holds_the_metrics() -> None:
    predictions = known_predictions([0, 0])
    summary = summarize(predictions)
    assert {name: summary[name] for name in METRICS} == evaluate(predictions)
    assert summary["num_samples"] == 2


def test_prediction_sets_are_judged_with_and_without_labels() -> None:
    sizes = {"mean_set_size_90": 2.345}
    assert "90% of the time have 2.3 labels" in str(verdict_on_sets(sizes))
    assert "hold it 87.1% of the time and have 2.3" in str(verdict_on_sets({**sizes, "set_coverage_90": 0.871}))
    assert verdict_on_sets({}) is None


def test_pseudo_labels_are_judged_whatever_the_order_of_classes_and_whether_they_are_known() -> None:
    """True labels b, a, b, z in the model's words, of which z is none that it knows."""
    target = LabelledDomain("target", ArrayInputs(torch.zeros(4, 1)), np.array([2, 1, 2, 0]), ("z", "a", "b"))
    labels = np.array([[1, -1, 0, -1], [1, 0, 1, 0]], dtype=np.int16)
    rounds = PseudoLabelRounds(np.array([2, 3]), labels, np.array([0.9, 0.8]))
    judged = judge_pseudo_labels(rounds, target, ("a", "b"))
    assert judged.true_precision is not None
    assert judged.true_precision.tolist() == [0.5, 0.75]
    assert rounds.true_precision is None


def test_precision_by_round_needs_the_rows_of_the_target(features: ShiftProblem) -> None:
    assert features.target is not None
    model = fit_model(features, Recipe.from_names("cbst", training={"epochs": 4}))
    labels = np.zeros(len(features.target), dtype=np.int64)
    target = LabelledDomain("target", features.target.inputs, labels, features.source.classes)
    rounds = precision_by_round(model, target)
    assert [row["epoch"] for row in rounds] == [2, 3, 4]
    assert model.pseudo_labels is not None
    chosen = model.pseudo_labels.labels[-1]
    assert rounds[-1]["true_precision"] == pytest.approx((chosen[chosen >= 0] == 0).mean())
    assert precision_by_round(model, target.subset(np.arange(5))) == []
    assert precision_by_round(model, features.target) == []
    assert precision_by_round(replace(model, pseudo_labels=None), target) == []
