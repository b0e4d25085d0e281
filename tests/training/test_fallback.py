from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from torch.nn.functional import cross_entropy

from shiftcal.core.errors import TrainingInterrupted
from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import ArrayInputs
from shiftcal.faces.classifier import AdaptiveClassifier
from shiftcal.methods import METHODS
from shiftcal.methods.base import TASK, Update
from shiftcal.methods.networks.classifiers import Classifier
from shiftcal.methods.source_only import SourceOnly
from shiftcal.target.clusters import common_units, unit_rows
from shiftcal.target.estimators.cluster_agreement import agrees_with_clusters
from shiftcal.target.findings import AdaptationCheck
from shiftcal.target.rule import TrustRule
from shiftcal.training.fallback import check_adaptation, fit_with_fallback, paired_p_value
from shiftcal.training.fit import fit_model
from shiftcal.training.fitted_model import FittedModel, source_split
from shiftcal.training.recipe import Recipe
from shiftcal.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("coarse_estimate")


@dataclass(frozen=True, kw_only=True)
class Harmful(SourceOnly):
    """Teaches that what lies on one side of the target is the first class."""

    needs_target: ClassVar[bool] = True

    def training_step(self, network: Classifier, batch: Batch) -> Iterator[Update]:
        assert batch.target_inputs is not None
        loss = cross_entropy(network(batch.source_inputs)[0], batch.source_labels)
        wrong = torch.where(batch.target_inputs[:, 0] + batch.target_inputs[:, 1] > 0.5, 0, 1)
        yield Update(TASK, loss + 3 * cross_entropy(network(batch.target_inputs)[0], wrong))


@pytest.fixture
def _harmful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "harmful", Harmful)


@pytest.fixture
def _quick(estimate_quickly: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of methods that do not label by the estimate, the check asks nothing of it."""
    estimate_quickly(monkeypatch)


@pytest.fixture(scope="module")
def reference(estimate_quickly: Callable[[pytest.MonkeyPatch], None]) -> FittedModel:
    """Trained on the source of `problem()` alone."""
    with pytest.MonkeyPatch.context() as patch:
        estimate_quickly(patch)
        return fit_model(problem(), recipe("source-only"))


def problem(noise: float = 0.3) -> ShiftProblem:
    """Three clusters in five dimensions, moved a little on the target."""
    generator = np.random.default_rng(0)
    centres = 3 * np.eye(5)[:3]
    labels = np.tile(np.arange(3), 60)
    source = centres[labels] + noise * generator.normal(size=(180, 5))
    target = centres[labels] + noise * generator.normal(size=(180, 5)) + 0.4
    inputs = [ArrayInputs(torch.from_numpy(rows).float()) for rows in (source, target)]
    return ShiftProblem(LabelledDomain("a", inputs[0], labels, (0, 1, 2)), UnlabelledDomain("b", inputs[1]))


def recipe(method: str, epochs: int = 10) -> Recipe:
    return Recipe.from_names(method, training={"epochs": epochs, "batch_size": 32})


def check(model: FittedModel) -> AdaptationCheck:
    assert model.findings.adaptation is not None
    return model.findings.adaptation


def logits(model: FittedModel, of: ShiftProblem) -> torch.Tensor:
    assert of.target is not None
    return model.predict(of.target.inputs).logits


@pytest.mark.usefixtures("_harmful", "_quick")
def test_a_harmful_method_is_given_up_for_the_source_alone(reference: FittedModel) -> None:
    data = problem()
    model = fit_with_fallback(data, recipe("harmful"))
    assert model.findings.fell_back
    assert check(model).adapted_agreement < check(model).source_agreement
    assert torch.equal(logits(model, data), logits(reference, data))
    assert model.asked_for is not None
    assert model.asked_for.method_name == "harmful"
    assert "FELL BACK" in model.findings.verdicts()[0]


@pytest.mark.usefixtures("_harmful", "_quick")
def test_it_can_be_kept_all_the_same() -> None:
    data = problem()
    model = fit_with_fallback(data, recipe("harmful"), fallback=False)
    assert model.findings.adaptation is None
    assert len(model.findings.verdicts()) == 1
    assert torch.equal(logits(model, data), logits(fit_model(data, recipe("harmful")), data))


@pytest.mark.parametrize("method", ["drst", "mcc"])
def test_what_does_no_harm_is_kept(method: str) -> None:
    data, how = problem(), recipe(method, epochs=3)
    model = fit_with_fallback(data, how)
    assert not model.findings.fell_back
    assert model.asked_for is None
    assert torch.equal(logits(model, data), logits(fit_model(data, how), data))
    assert "adapting has done no harm" in model.findings.verdicts()[0]


@pytest.mark.usefixtures("_quick")
def test_images_are_judged_in_the_features_of_the_reference(images: ShiftProblem) -> None:
    """Those of the adapted classifier would confirm what it says."""
    assert images.target is not None
    adapted, reference = (fit_model(images, recipe(method)) for method in ("cbst", "source-only"))
    features = reference.predict(images.target.inputs).features.double()
    source = source_split(images.source, reference.recipe.training)[0]
    units = common_units(reference.predict(source.inputs).features.double())
    labels = torch.from_numpy(source.labels)
    expected = [
        float(
            agrees_with_clusters(unit_rows(features, units), logits(model, images).double(), labels, TrustRule())
            .double()
            .mean()
        )
        for model in (adapted, reference)
    ]
    found = check_adaptation(adapted, reference, images)
    assert [found.adapted_agreement, found.source_agreement] == pytest.approx(expected)


@pytest.mark.parametrize(("wrong_rows", "falls_back"), [(4, False), (5, True), (6, True)])
def test_the_error_rate_is_five_in_a_hundred(
    wrong_rows: int, falls_back: bool, reference: FittedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of rows on which the reference alone agrees: 1/16 and 1/32 by tossing a coin."""
    data = problem()
    right = reference.predict(data.target.inputs).logits if data.target is not None else torch.empty(0)
    turned = right.clone()
    turned[:wrong_rows] = right[:wrong_rows].roll(1, dims=1)
    monkeypatch.setattr(FittedModel, "judged_outputs", lambda self, inputs: (turned,))
    assert check_adaptation(reference, reference, data).fell_back is falls_back


def test_clusters_that_are_relied_on_by_half_can_judge(
    reference: FittedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = problem()
    for could_judge in (False, True):
        monkeypatch.setattr(TrustRule, "forms_clusters", lambda self, purity, value=could_judge: value)
        found = check_adaptation(reference, reference, data)
        assert (found.could_judge, found.fell_back) == (could_judge, not could_judge)


def test_agreement_is_counted_as_in_the_estimate() -> None:
    """Whatever clusters have taught the classifier, it is asked by itself."""
    data = problem(noise=1.0)
    adapted, reference = (fit_model(data, recipe(method, epochs=4)) for method in ("drst", "source-only"))
    assert data.target is not None
    found = check_adaptation(adapted, reference, data)
    features = reference.predict(data.target.inputs, keep_inputs=True).structure.double()
    source = source_split(data.source, adapted.recipe.training)[0]
    rows = np.arange(len(source), dtype=np.int64)
    units, labels = common_units(source.inputs.fetch(rows).double()), torch.from_numpy(source.labels)
    judged = adapted.judged_outputs(data.target.inputs)[0].double()
    expected = agrees_with_clusters(unit_rows(features, units), judged, labels, TrustRule()).double().mean()
    assert found.adapted_agreement == pytest.approx(float(expected))


def test_the_check_does_not_depend_on_the_estimator_of_the_calibrator() -> None:
    """One that tells nothing of purity ended in an assertion after both trainings."""
    how = Recipe.from_names(
        "adapted", calibrator_options={"estimator": "mean-confidence"}, training={"epochs": 2, "batch_size": 32}
    )
    assert fit_with_fallback(problem(), how).findings.adaptation is not None


def test_one_row_of_difference_decides_nothing() -> None:
    """71 against 72 of 120 rows made it say that adapting did harm."""
    reference = torch.arange(120) < 72
    adapted = reference.clone()
    adapted[0] = False
    assert paired_p_value(adapted, reference) == 0.5
    assert paired_p_value(reference, adapted) == 1.0
    assert paired_p_value(reference, reference) == 1.0


@pytest.mark.parametrize(("only_reference", "only_adapted"), [(12, 3), (30, 30), (5, 9)])
def test_the_paired_test_is_the_binomial_one(only_reference: int, only_adapted: int) -> None:
    reference, adapted = torch.zeros(200, dtype=torch.bool), torch.zeros(200, dtype=torch.bool)
    reference[:only_reference] = True
    adapted[only_reference : only_reference + only_adapted] = True
    both = torch.arange(200) >= 150
    expected = binomtest(only_reference, only_reference + only_adapted, alternative="greater").pvalue
    assert paired_p_value(adapted | both, reference | both) == pytest.approx(expected)


@pytest.mark.usefixtures("_harmful", "_quick")
def test_without_clusters_adapting_is_given_up() -> None:
    data = problem()
    generator = np.random.default_rng(1)
    data = replace(data, source=replace(data.source, labels=generator.integers(0, 3, len(data.source))))
    model = fit_with_fallback(data, recipe("harmful"))
    assert (check(model).could_judge, check(model).fell_back) == (False, True)
    assert "form no clusters" in model.findings.verdicts()[0]


@pytest.mark.usefixtures("_quick")
def test_a_method_that_does_not_adapt_has_nothing_to_fall_back_from() -> None:
    assert fit_with_fallback(problem(), recipe("source-only")).findings.adaptation is None


@pytest.mark.usefixtures("_harmful", "_quick")
def test_an_interrupted_reference_goes_on(tmp_path: Path) -> None:
    data, checkpoint = problem(), tmp_path / "checkpoint.pt"
    whole = fit_with_fallback(data, recipe("harmful"))
    original, steps = Trainer._step, 0

    def interrupting(self: Trainer, batch: Any) -> dict[str, Any]:
        nonlocal steps
        steps += 1
        if steps == 65:  # the first training has sixty
            raise KeyboardInterrupt
        return original(self, batch)

    with mock.patch.object(Trainer, "_step", interrupting), pytest.raises((KeyboardInterrupt, TrainingInterrupted)):
        fit_with_fallback(data, recipe("harmful"), checkpoint=checkpoint)
    assert checkpoint.exists()
    resumed = fit_with_fallback(data, recipe("harmful"), checkpoint=checkpoint, resume=True)
    assert torch.equal(logits(resumed, data), logits(whole, data))
    assert resumed.findings == whole.findings


@pytest.mark.usefixtures("_harmful", "_quick")
def test_a_saved_classifier_knows_what_was_asked_for(tmp_path: Path) -> None:
    data = problem()
    assert data.target is not None
    rows = np.arange(len(data.target), dtype=np.int64)
    source, target = (domain.inputs.fetch(rows).numpy() for domain in (data.source, data.target))
    classifier = AdaptiveClassifier("harmful", epochs=10, batch_size=32).fit(source, data.source.labels, target)
    classifier.save(tmp_path / "run")
    loaded = AdaptiveClassifier.load(tmp_path / "run")
    assert loaded.method == "harmful"
    assert loaded.model_.findings.fell_back
    np.testing.assert_allclose(loaded.predict_proba(target), classifier.predict_proba(target))
