import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from torch import nn

from shiftcal.core.errors import InvalidInputError
from shiftcal.faces.foreign_models import classes_of, features_of, logits_of

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(40, 3))
Y = np.array(["a", "b"])[(X[:, 0] > 0).astype(int)]
TEXTS = ["good film", "bad film", "good book", "bad book"] * 3
OPINIONS = ["plus", "minus"] * 6


def test_a_classifier_of_scikit_learn_gives_the_logarithm_of_its_probabilities() -> None:
    model = LogisticRegression().fit(X, Y)
    np.testing.assert_allclose(torch.softmax(logits_of(model, X), dim=-1).numpy(), model.predict_proba(X))
    assert classes_of(model, 2, []).tolist() == ["a", "b"]


def test_without_probabilities_decision_values_are_logits() -> None:
    two = RidgeClassifier().fit(X, Y)
    assert torch.equal(logits_of(two, X)[:, 1], torch.from_numpy(two.decision_function(X)))
    three = LinearSVC().fit(X, np.arange(40) % 3)
    assert torch.equal(logits_of(three, X), torch.from_numpy(three.decision_function(X)))


def test_a_module_is_run_in_evaluation_mode_and_left_as_it_was() -> None:
    module = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.9), nn.Linear(8, 2))
    module[0].eval()
    first, second = logits_of(module, X), logits_of(module, X)
    assert torch.equal(first, second)
    assert [part.training for part in module] == [False, True, True]
    assert not first.requires_grad


def test_what_a_function_gives_is_looked_at() -> None:
    probabilities = np.tile([0.25, 0.75], (40, 1))
    torch.testing.assert_close(logits_of(lambda _: probabilities, X).exp(), torch.from_numpy(probabilities))
    logits = np.tile([1.0, -2.0], (40, 1))
    assert torch.equal(logits_of(lambda _: logits, X), torch.from_numpy(logits))
    assert torch.equal(logits_of(lambda _: probabilities, X, "logits"), torch.from_numpy(probabilities))


def test_probabilities_of_zero_have_finite_logits() -> None:
    assert torch.isfinite(logits_of(lambda _: np.tile([0.0, 1.0], (40, 1)), X)).all()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (LogisticRegression(), "not fitted"),
        ("nonsense", "Got str instead"),
        (lambda _: np.ones(40), r"got \(40,\)"),
        (lambda _: np.ones((39, 2)), r"got \(39, 2\)"),
        (lambda _: np.full((40, 2), np.nan), "finite"),
        (nn.LSTM(3, 2), "got tuple"),
    ],
)
def test_what_is_no_model_is_refused(model: object, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        logits_of(model, X)


def test_labels_name_the_columns_or_must_be_their_numbers() -> None:
    assert classes_of(len, 2, ["b", "a", "b"]).tolist() == ["a", "b"]
    assert classes_of(len, 4, [0, 2]).tolist() == [0, 1, 2, 3]
    with pytest.raises(InvalidInputError, match="which column is which"):
        classes_of(len, 4, ["a", "b"])


def test_vectors_are_features_themselves() -> None:
    features = features_of(LogisticRegression(), X)
    assert isinstance(features, np.ndarray)
    np.testing.assert_array_equal(features, X)


def test_of_images_a_module_is_asked_what_its_last_layer_sees() -> None:
    body = nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.ReLU())
    module = nn.Sequential(body, nn.Linear(5, 3))
    images = torch.rand(7, 1, 4, 4)
    features = features_of(module, images)
    assert isinstance(features, np.ndarray)
    np.testing.assert_allclose(features, body(images).detach().numpy(), rtol=1e-6)
    assert not module[1]._forward_hooks


def test_of_texts_a_pipeline_is_asked_what_its_last_step_sees() -> None:
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(TEXTS, OPINIONS)
    features = features_of(model, TEXTS)
    assert sparse.issparse(features)
    assert features is not None
    assert features.shape == (12, 4)


def test_a_given_function_comes_first_and_none_means_none() -> None:
    given = features_of(LogisticRegression(), X, lambda rows: torch.from_numpy(2 * rows))
    assert isinstance(given, np.ndarray)
    np.testing.assert_array_equal(given, 2 * X)
    assert features_of(LogisticRegression(), X, "none") is None
    assert features_of(lambda texts: texts, TEXTS) is None


def test_features_that_are_not_there_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="Pipeline"):
        features_of(LogisticRegression(), X, "model")
    with pytest.raises(InvalidInputError, match="arrays of numbers"):
        features_of(LogisticRegression(), TEXTS, "input")
