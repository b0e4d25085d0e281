import datetime
import doctest
import fractions
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn
from torch.utils.data import TensorDataset

import shiftcal.faces.classifier
from shiftcal import AdaptiveClassifier
from shiftcal.core.errors import CheckpointError, InvalidInputError, OutputError, UserCodeError
from shiftcal.data import ArrayInputs, LabelledDomain, UnlabelledDomain

pytestmark = pytest.mark.usefixtures("quick_estimate")


def allowed_to_fail(estimator: Any) -> dict[str, str]:
    """Weights say how often a row is drawn into random batches, and rows are held out at random."""
    reason = "training is random: a row of weight 2 is not the same as two rows"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


# check_array_api_input is skipped by scikit-learn itself unless SCIPY_ARRAY_API is set: training runs in torch.
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [AdaptiveClassifier(epochs=4)], expected_failed_checks=allowed_to_fail
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_docstring_example_runs() -> None:
    assert doctest.testmod(shiftcal.faces.classifier).failed == 0


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    data = load_digits()
    return (data.images[:100] * 15).astype(np.uint8), data.target[:100]


def small(**changes: Any) -> AdaptiveClassifier:
    return AdaptiveClassifier(**{"epochs": 2, **changes})


def test_image_forms_give_the_same_result(digits: tuple[np.ndarray, np.ndarray]) -> None:
    images, labels = digits
    tensor = torch.from_numpy(images).unsqueeze(1).float() / 255
    forms = [images, images[..., None], tensor, TensorDataset(tensor)]
    expected = small(method="source-only").fit(images, labels, images).predict_proba(images)
    for form in forms[1:]:
        np.testing.assert_allclose(
            small(method="source-only").fit(form, labels, form).predict_proba(form), expected, atol=1e-5
        )


def test_labelled_datasets_and_domains_need_no_y(digits: tuple[np.ndarray, np.ndarray]) -> None:
    images, labels = digits
    tensor = torch.from_numpy(images).unsqueeze(1).float() / 255
    expected = small(method="source-only").fit(tensor, labels, tensor).predict_proba(tensor)
    dataset = TensorDataset(tensor, torch.from_numpy(labels))
    np.testing.assert_allclose(
        small(method="source-only").fit(dataset, X_target=dataset).predict_proba(dataset), expected, atol=1e-5
    )
    source = LabelledDomain("s", ArrayInputs(tensor), labels.astype(np.int64), tuple(range(10)))
    target = UnlabelledDomain("t", ArrayInputs(tensor))
    np.testing.assert_allclose(
        small(method="source-only").fit(source, X_target=target).predict_proba(target), expected, atol=1e-5
    )


def test_without_a_target_the_ratio_is_one() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    classifier = small().fit(X, X[:, 0] > 0)
    assert classifier.density_ratio(X).tolist() == [1.0] * 60


def test_save_and_load_give_the_same_classifier(digits: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    images, labels = digits
    chosen = {"method": "drl", "calibrator": "temperature", "method_options": {"ratio_strength": 0.5}}
    classifier = small(**chosen).fit(images, labels, images)
    classifier.save(tmp_path / "run")
    loaded = AdaptiveClassifier.load(str(tmp_path / "run"))
    assert np.array_equal(loaded.predict_proba(images), classifier.predict_proba(images))
    assert np.array_equal(loaded.density_ratio(images), classifier.density_ratio(images))
    assert loaded.classes_.dtype == classifier.classes_.dtype
    refitted = clone(loaded).fit(images, labels, images)
    assert np.array_equal(refitted.predict_proba(images), classifier.predict_proba(images))


@pytest.mark.parametrize("fallback", [True, False])
def test_a_loaded_classifier_knows_whether_it_may_fall_back(fallback: bool, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    small(method="cbst", fallback=fallback).fit(X, y, X + 0.5).save(tmp_path / "run")
    assert AdaptiveClassifier.load(tmp_path / "run").fallback is fallback


def test_options_of_the_calibrator_are_used_and_kept(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = (X[:, 0] + np.random.default_rng(1).normal(size=200) > 0).astype(int)
    bins = {"num_bins": 2}
    classifier = small(
        calibrator="histogram", calibrator_options=bins, training_options={"validation_fraction": 0.5}
    ).fit(X, y, X)
    assert classifier.model_.calibrator_state is not None
    assert len(classifier.model_.calibrator_state["shares"]) == 2
    classifier.save(tmp_path / "run")
    loaded = AdaptiveClassifier.load(tmp_path / "run")
    assert loaded.calibrator_options == bins
    assert loaded.model_.recipe.calibrator == classifier.model_.recipe.calibrator
    assert np.array_equal(loaded.predict_proba(X), classifier.predict_proba(X))


def test_a_module_of_the_users_own_is_the_backbone(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    layer = nn.Linear(3, 7)
    body = nn.Sequential(layer, nn.Tanh())
    before = layer.weight.clone()
    classifier = small(backbone=body).fit(X, X[:, 0] > 0, X)
    assert torch.equal(layer.weight, before)
    classifier.save(tmp_path / "run")
    with pytest.raises(CheckpointError, match="backbone=module"):
        AdaptiveClassifier.load(tmp_path / "run")
    loaded = AdaptiveClassifier.load(tmp_path / "run", backbone=body)
    assert np.array_equal(loaded.predict_proba(X), classifier.predict_proba(X))


def test_it_works_in_pipelines_and_searches() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.where(X[:, 0] > 0, "yes", "no")
    search = GridSearchCV(small(), {"method": ["source-only", "drl"], "epochs": [1, 20]}, cv=2).fit(X, y)
    assert search.best_params_["epochs"] == 20
    assert make_pipeline(StandardScaler(), small()).fit(X, y).predict(X).shape == (60,)


def test_unfitted_and_mismatched_use_is_refused(digits: tuple[np.ndarray, np.ndarray]) -> None:
    images, labels = digits
    with pytest.raises(NotFittedError):
        small().predict(images)
    with pytest.raises(InvalidInputError, match=r"source's shape \(1, 8, 8\), got \(1, 6, 6\)"):
        small().fit(images, labels, images[:, :6, :6])
    classifier = small(epochs=1).fit(images, labels)
    with pytest.raises(InvalidInputError, match=r"expected inputs of shape \(1, 8, 8\)"):
        classifier.predict(images[:, :6, :6])


def test_a_random_state_object_and_none_are_taken() -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    for state in (None, np.random.RandomState(3)):
        assert small(random_state=state).fit(X, X[:, 0] > 0).predict(X).shape == (40,)


def test_options_are_not_given_twice() -> None:
    with pytest.raises(InvalidInputError, match="must not repeat 'epochs'"):
        small(training_options={"epochs": 3}).fit(np.zeros((4, 2)), [0, 1, 0, 1])


def test_saving_over_other_files_is_refused(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    classifier = small(epochs=1).fit(X, X[:, 0] > 0)
    (tmp_path / "thesis.txt").write_text("chapter 1")
    with pytest.raises(OutputError, match="holds other files"):
        classifier.save(tmp_path)
    classifier.save(tmp_path / "run")


def test_another_model_is_replaced_only_if_that_is_asked_for(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    first, second = (small(epochs=1, random_state=seed).fit(X, X[:, 0] > 0) for seed in (0, 1))
    first.save(tmp_path)
    results = (tmp_path / "metrics.json", tmp_path / "report.html")
    for path in results:
        path.touch()
    with pytest.raises(OutputError, match=r"already holds a model; .* overwrite=True"):
        second.save(tmp_path)
    assert all(path.exists() for path in results)
    assert np.array_equal(AdaptiveClassifier.load(tmp_path).predict_proba(X), first.predict_proba(X))
    second.save(tmp_path, overwrite=True)
    assert np.array_equal(AdaptiveClassifier.load(tmp_path).predict_proba(X), second.predict_proba(X))
    assert not any(path.exists() for path in results)


def test_a_model_that_can_not_be_saved_leaves_nothing(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    classifier = small(epochs=1).fit(X, [frozenset({int(value > 0)}) for value in X[:, 0]])
    with pytest.raises(InvalidInputError, match="can't be saved"):
        classifier.save(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": ["drl"]}, "method must be a name"),
        ({"calibrator": 3}, "calibrator must be a name"),
        ({"backbone": 3}, "backbone must be a name or an nn.Module"),
        ({"method_options": 3}, "must be a mapping"),
    ],
)
def test_arguments_of_the_wrong_type_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        small(**changes).fit(np.eye(4), [0, 1, 0, 1])


def test_prediction_sets_survive_saving_and_need_held_out_data(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    classifier = small().fit(X, X[:, 0] > 0, X)
    classifier.save(tmp_path / "run")
    assert np.array_equal(AdaptiveClassifier.load(tmp_path / "run").predict_set(X), classifier.predict_set(X))
    without = small(training_options={"validation_fraction": 0.0}).fit(X, X[:, 0] > 0)
    with pytest.raises(InvalidInputError, match="held-out source data"):
        without.predict_set(X)


class Season(Enum):
    SUMMER = "summer"
    WINTER = "winter"


LABELS_OF_ALL_KINDS: dict[str, tuple[Any, Any]] = {
    "text": ("b", "a"),
    "truth values": (True, False),
    "floats": (2.0, -1.0),
    "Enum": (Season.SUMMER, Season.WINTER),
    "dates": (datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)),
    "bytes": (b"a", b"\xff"),
    "big integers": (10**30, -(10**30)),
    "frozensets": (frozenset("ab"), frozenset("cd")),
    "tuples": ((1, 2), (3,)),
    "text that NumPy would cut": ("a\0", "a\0\0"),
    "several types": (1, "1"),
    "fractions": (fractions.Fraction(1, 3), fractions.Fraction(2, 3)),
}


@pytest.mark.parametrize("kind", LABELS_OF_ALL_KINDS)
def test_labels_of_any_hashable_type_come_back(kind: str, tmp_path: Path) -> None:
    first, second = LABELS_OF_ALL_KINDS[kind]
    inputs = torch.tensor([[-1.0], [1.0]]).repeat(20, 1)
    # Labels come in with tensors as with arrays.
    X = inputs if kind in ("text that NumPy would cut", "tuples", "truth values") else inputs.numpy()
    classifier = AdaptiveClassifier(epochs=30).fit(X, [first, second] * 20)
    assert set(classifier.classes_.tolist()) == {first, second}
    assert classifier.predict(X[:2]).tolist() == [first, second]
    if kind in ("Enum", "dates", "frozensets", "fractions"):
        with pytest.raises(InvalidInputError, match="expected text, bytes, numbers or tuples of them"):
            classifier.save(tmp_path / "run")
    else:
        classifier.save(tmp_path / "run")
        assert AdaptiveClassifier.load(tmp_path / "run").predict(X[:2]).tolist() == [first, second]


class Moody(nn.Module):
    """A module of the user's own that does not like large numbers."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if inputs.abs().max() > 1e3:
            raise ArithmeticError("too large for me")
        return inputs


def test_errors_of_a_users_own_module_are_named_with_their_rows() -> None:
    inputs = np.random.default_rng(0).normal(size=(600, 2)).astype(np.float32)
    classifier = AdaptiveClassifier(backbone=Moody(), epochs=1).fit(inputs, np.arange(600) % 2)
    more = np.tile(inputs, (20, 1))
    more[9_000] = 1e6
    with pytest.raises(UserCodeError, match=r"backbone Moody raised ArithmeticError.*rows 8192 to 11999") as raised:
        classifier.predict(more)
    assert isinstance(raised.value.__cause__, ArithmeticError)


def test_one_pass_gives_what_the_methods_give_one_by_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(300, 64)).astype(np.float32)
    classifier = AdaptiveClassifier(epochs=1).fit(inputs, np.arange(300) % 3, inputs + 0.5)
    # Several batches, of a file that can't be written to.
    np.save(tmp_path / "rows.npy", np.tile(inputs, (30, 1)))
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    batches = list(classifier.iter_predict(rows, coverage=0.8))
    assert len(batches) == 2
    probabilities, ratio, sets = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    np.testing.assert_array_equal(probabilities, classifier.predict_proba(rows))
    np.testing.assert_array_equal(ratio, classifier.density_ratio(rows))
    np.testing.assert_array_equal(sets, classifier.predict_set(rows, coverage=0.8))
    np.testing.assert_allclose(probabilities[:300], probabilities[-300:], rtol=1e-5)
    assert next(classifier.iter_predict(rows)).sets is None
