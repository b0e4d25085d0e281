import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from tests.problems import estimate_coarsely
from torch import nn

from shiftcal import AdaptiveClassifier, ShiftCalibrator
from shiftcal.core.errors import InvalidInputError
from shiftcal.faces.models.outputs import LEAST_PROBABILITY
from shiftcal.functional.temperature import fit_temperature
from shiftcal.metrics import expected_calibration_error

CLASSES = np.array(["a", "b", "c", "d"])


def domain(num_rows: int, *, shift: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Four classes in ten dimensions; the shift moves each class's own cluster towards the next class."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 4, num_rows)
    centres = 4 * np.eye(4, 10)
    # The clusters stay as tight as they were, but the second half of the columns tells them apart now.
    moved = (1 - shift) * centres + shift * np.roll(centres, 1, axis=0) * 0.75 + 4 * shift * np.eye(4, 10, k=5)
    features = moved[labels] + generator.normal(size=(num_rows, 10))
    # Another camera, say: the domains can be told apart by what tells nothing of the classes.
    features[:, 4] += 5 * shift
    return features, CLASSES[labels]


SOURCE = domain(600)
HELD_OUT = domain(300, seed=1)
TARGET = domain(800, shift=0.35, seed=2)


@pytest.fixture
def _coarsely(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that ask for no numbers of the estimate."""
    estimate_coarsely(monkeypatch)


@pytest.fixture(scope="module")
def model() -> LogisticRegression:
    return LogisticRegression(C=100.0, max_iter=2000).fit(*SOURCE)


@pytest.fixture(scope="module")
def calibrated(model: LogisticRegression) -> ShiftCalibrator:
    return ShiftCalibrator(model).fit(*HELD_OUT, TARGET[0])


def ece(probabilities: np.ndarray, labels: np.ndarray) -> float:
    return expected_calibration_error(probabilities, np.searchsorted(CLASSES, labels))


def test_a_model_that_a_shift_made_overconfident_is_calibrated(
    model: LogisticRegression, calibrated: ShiftCalibrator
) -> None:
    before = ece(model.predict_proba(TARGET[0]), TARGET[1])
    after = ece(calibrated.predict_proba(TARGET[0]), TARGET[1])
    true_accuracy = float((model.predict(TARGET[0]) == TARGET[1]).mean())
    assert before > 0.1
    assert after < 0.6 * before
    assert calibrated.estimated_accuracy_ == pytest.approx(true_accuracy, abs=0.1)
    interval = calibrated.diagnosis_.interval
    assert interval is not None
    assert interval[0] < true_accuracy < interval[1]
    assert "clusters" in str(calibrated.verdict_)


def test_predictions_stay_the_models_own(model: LogisticRegression, calibrated: ShiftCalibrator) -> None:
    np.testing.assert_array_equal(calibrated.predict(TARGET[0]), model.predict(TARGET[0]))
    np.testing.assert_allclose(calibrated.predict_proba(TARGET[0]).sum(axis=1), 1)


def test_without_a_shift_it_is_temperature_scaling(model: LogisticRegression) -> None:
    same = domain(500, seed=3)[0]
    calibrated = ShiftCalibrator(model).fit(*HELD_OUT, same)
    codes = torch.from_numpy(np.searchsorted(CLASSES, HELD_OUT[1]))
    held_out, logits = (
        torch.from_numpy(np.log(model.predict_proba(rows).clip(LEAST_PROBABILITY))) for rows in (HELD_OUT[0], same)
    )
    scaled = (logits / fit_temperature(held_out, codes)).softmax(dim=-1)
    np.testing.assert_allclose(calibrated.predict_proba(same), scaled.numpy(), atol=0.03)


def test_a_model_that_is_too_unsure_gets_the_temperature_that_the_source_asks_for() -> None:
    unsure = LogisticRegression(C=1e-4, max_iter=2000).fit(*SOURCE)
    same = domain(500, seed=3)
    calibrated = ShiftCalibrator(unsure).fit(*HELD_OUT, same[0])
    assert ece(calibrated.predict_proba(same[0]), same[1]) < ece(unsure.predict_proba(same[0]), same[1]) / 3


def test_the_density_ratio_tells_source_from_target(calibrated: ShiftCalibrator) -> None:
    assert np.median(calibrated.density_ratio(HELD_OUT[0])) > 1 > np.median(calibrated.density_ratio(TARGET[0]))


@pytest.mark.usefixtures("_coarsely")
def test_a_module_with_column_numbers_as_labels() -> None:
    module = nn.Linear(10, 4)
    codes = np.searchsorted(CLASSES, HELD_OUT[1])
    calibrated = ShiftCalibrator(module).fit(torch.from_numpy(HELD_OUT[0]), codes, torch.from_numpy(TARGET[0]))
    assert calibrated.classes_.tolist() == [0, 1, 2, 3]
    assert calibrated.predict_proba(torch.from_numpy(TARGET[0])).shape == (800, 4)


@pytest.mark.usefixtures("_coarsely")
def test_an_adaptive_classifier_for_images_gives_its_features() -> None:
    generator = np.random.default_rng(0)
    labels = np.arange(60) % 2
    images = (60 + 120 * labels[:, None, None] + generator.integers(-40, 40, (60, 8, 8))).astype(np.uint8)
    model = AdaptiveClassifier("source-only", epochs=2).fit(images, labels)
    assert model.features(images).shape == (60, 128)
    calibrated = ShiftCalibrator(model).fit(images, labels, images // 2)
    assert calibrated.predict_proba(images).shape == (60, 2)
    assert calibrated.diagnosis_.cluster_reliability > 0


@pytest.mark.usefixtures("_coarsely")
def test_texts_through_a_pipeline() -> None:
    texts = [f"{word} {noun}" for word in ("good", "great", "bad", "awful") for noun in ("film", "book", "play") * 5]
    opinions = ["plus"] * 30 + ["minus"] * 30
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, opinions)
    calibrated = ShiftCalibrator(model).fit(texts, opinions, [f"{text} now" for text in texts])
    assert calibrated.predict_proba(["good now"]).shape == (1, 2)


def test_it_can_be_cloned_and_pickled(model: LogisticRegression, calibrated: ShiftCalibrator) -> None:
    again = pickle.loads(pickle.dumps(calibrated))
    np.testing.assert_array_equal(again.predict_proba(TARGET[0]), calibrated.predict_proba(TARGET[0]))
    assert clone(ShiftCalibrator(model, features="input")).features == "input"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"features": "pixels"}, "features must be one of auto, input, model, none or a function. Got 'pixels'"),
        ({"outputs": "scores"}, "outputs must be one of auto, logits, probabilities. Got 'scores'"),
    ],
)
def test_unknown_options_are_refused(model: LogisticRegression, change: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        ShiftCalibrator(model).set_params(**change).fit(*HELD_OUT, TARGET[0])


def test_labels_that_do_not_fit_are_refused(model: LogisticRegression) -> None:
    with pytest.raises(InvalidInputError, match="does not know the label 'z'"):
        ShiftCalibrator(model).fit(HELD_OUT[0], np.full(300, "z"), TARGET[0])
    with pytest.raises(InvalidInputError, match="one label for each of 300 rows, got 3"):
        ShiftCalibrator(model).fit(HELD_OUT[0], HELD_OUT[1][:3], TARGET[0])


def test_prediction_sets_hold_what_they_promise_on_the_target(calibrated: ShiftCalibrator) -> None:
    true_columns = np.searchsorted(CLASSES, TARGET[1])
    for coverage in (0.8, 0.95):
        sets = calibrated.predict_set(TARGET[0], coverage)
        assert sets.shape == (800, 4)
        assert sets[np.arange(800), true_columns].mean() == pytest.approx(coverage, abs=0.07)
        assert sets.sum(axis=1).mean() < 3


def test_the_verdict_says_what_it_looked_at_and_what_sets_hold(
    model: LogisticRegression, calibrated: ShiftCalibrator
) -> None:
    assert "Looked at: the inputs themselves; classes form clusters there." in calibrated.verdict_
    held = calibrated.set_coverage(0.9)
    assert held.low is not None
    assert held.high is not None
    assert held.low <= held.value <= held.high <= 1
    true_columns = np.searchsorted(CLASSES, TARGET[1])
    assert held.low < calibrated.predict_set(TARGET[0])[np.arange(800), true_columns].mean() < held.high
    assert f"{held.low:.0%} to {held.high:.0%}" in calibrated.verdict_
    alone = ShiftCalibrator(model, features="none").fit(*HELD_OUT, TARGET[0])
    assert "Looked at: what the model says, alone." in alone.verdict_


@pytest.mark.usefixtures("_coarsely")
def test_columns_in_other_units_are_said_before_any_estimate() -> None:
    names = ["income", *"bcdefghij"]
    frames = [pd.DataFrame(rows, columns=names) for rows in (SOURCE[0], HELD_OUT[0], TARGET[0])]
    wrong = frames[2].assign(income=1000 * frames[2]["income"])
    model = LogisticRegression(max_iter=2000).fit(frames[0], SOURCE[1])
    calibrated = ShiftCalibrator(model).fit(frames[1], HELD_OUT[1], wrong)
    assert calibrated.verdict_.startswith("LOOK AT THE INPUTS FIRST: 1 of 10 columns")
    assert "'income': varies" in calibrated.verdict_
    assert calibrated.diagnosis_.kind_of_shift() == "outside"
    assert calibrated.diagnosis_.interval is not None
    assert calibrated.diagnosis_.interval[0] == 0
    assert calibrated.set_coverage(0.9).low == 0
    assert "LOOK" not in calibrated.estimate(frames[2]).verdict


@pytest.mark.usefixtures("_coarsely")
def test_one_far_away_row_is_not_as_on_the_source(model: LogisticRegression) -> None:
    verdict = ShiftCalibrator(model).fit(*HELD_OUT, TARGET[0][:1] + 100).verdict_
    assert "10 of 10 columns of numbers are not what they were" in verdict
    assert "No estimate can be relied on" in verdict
