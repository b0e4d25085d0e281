import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from torch import nn

from shiftcal.core.errors import InvalidInputError
from shiftcal.faces.models.features import Features
from shiftcal.faces.models.foreign_models import classes_of
from shiftcal.faces.models.outputs import as_logits, kind_of_outputs
from shiftcal.faces.models.reader import ModelReader, SeenRows

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(40, 3))
Y = np.array(["a", "b"])[(X[:, 0] > 0).astype(int)]
TEXTS = ["good film", "bad film", "good book", "bad book"] * 3
OPINIONS = ["plus", "minus"] * 6


def seen(model: object, inputs: object = X, features: Features = "auto") -> SeenRows:
    return ModelReader(model, features).read(inputs, "X")


def logits_of(model: object, inputs: object = X) -> torch.Tensor:
    found = ModelReader(model, "none")
    rows = found.read(inputs, "X")
    return as_logits(rows.outputs, kind_of_outputs(rows.outputs, found.model.kind), rows.rows)


def test_a_classifier_of_scikit_learn_gives_the_logarithm_of_its_probabilities() -> None:
    model = LogisticRegression().fit(X, Y)
    np.testing.assert_allclose(torch.softmax(logits_of(model), dim=-1).numpy(), model.predict_proba(X))
    assert classes_of(model, 2, []).tolist() == ["a", "b"]


def test_without_probabilities_decision_values_are_logits() -> None:
    two = RidgeClassifier().fit(X, Y)
    assert torch.equal(logits_of(two)[:, 1], torch.from_numpy(two.decision_function(X)))
    three = LinearSVC().fit(X, np.arange(40) % 3)
    assert torch.equal(logits_of(three), torch.from_numpy(three.decision_function(X)))


def test_a_module_is_run_in_evaluation_mode_and_left_as_it_was() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.9), nn.Linear(8, 2))
    module[0].eval()
    first, second = logits_of(module), logits_of(module)
    assert torch.equal(first, second)
    assert [part.training for part in module] == [False, True, True]
    assert not first.requires_grad


def test_what_a_function_gives_is_looked_at_over_all_rows() -> None:
    probabilities = np.tile([0.25, 0.75], (40, 1))
    torch.testing.assert_close(logits_of(lambda _: probabilities).exp(), torch.from_numpy(probabilities))
    logits = np.tile([1.0, -2.0], (40, 1))
    assert torch.equal(logits_of(lambda _: logits), torch.from_numpy(logits))
    assert kind_of_outputs(probabilities, "logits") == "logits"
    assert kind_of_outputs(np.array([[0.33, 0.33, 0.33], [0.5, 0.26, 0.25]]), "auto") == "probabilities"
    with pytest.raises(InvalidInputError, match="do not sum to 1"):
        kind_of_outputs(np.array([[0.9, 0.9], [0.5, 0.5]]), "auto")


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_a_single_score_is_of_the_second_class(shape: tuple[int, ...]) -> None:
    chances = np.linspace(0.1, 0.9, 40)
    found = logits_of(lambda _: chances.reshape(shape))
    np.testing.assert_allclose(found.exp().numpy(), np.stack([1 - chances, chances], axis=1))
    assert torch.equal(logits_of(lambda _: (X[:, 0]).reshape(shape))[:, 1], torch.from_numpy(X[:, 0]))


def test_mappings_and_label_score_pairs_are_unpacked() -> None:
    logits = np.tile([1.0, -2.0], (40, 1))
    assert torch.equal(logits_of(lambda _: {"loss": 1.0, "logits": logits}), torch.from_numpy(logits))

    class Output:
        def __init__(self) -> None:
            self.loss, self.logits = None, torch.from_numpy(logits)

    assert torch.equal(logits_of(lambda _: Output()), torch.from_numpy(logits))
    pairs = [[{"label": "b", "score": 0.7}, {"label": "a", "score": 0.3}]] * 40
    np.testing.assert_allclose(logits_of(lambda _: pairs).exp()[0].numpy(), [0.3, 0.7])


def test_probabilities_of_zero_have_finite_logits() -> None:
    assert torch.isfinite(logits_of(lambda _: np.tile([0.0, 1.0], (40, 1)))).all()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (LogisticRegression(), "FrozenEstimator"),
        ("nonsense", "Got str instead"),
        (lambda _: np.ones((40, 2, 2)), r"got \(40, 2, 2\)"),
        (lambda _: np.ones((39, 2)), r"got \(39, 2\)"),
        (lambda _: np.ones(40), "predicted labels"),
        (lambda _: np.array([[np.nan, 1.0], *[[0.0, 2.0]] * 39]), "finite outputs, got NaN or infinity in row 0"),
        (lambda _: None, "got NoneType|got \\(\\)"),
        (lambda _: {"hidden": 1}, "hidden"),
        (nn.LSTM(3, 2), "got tuple"),
        (make_pipeline(StandardScaler(), StandardScaler()).fit(X), "last step has predict_proba"),
    ],
)
def test_what_is_no_model_is_refused(model: object, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        logits_of(model)


def test_what_a_model_raises_is_shown_as_such_and_names_the_rows() -> None:
    def broken(_: object) -> None:
        raise RuntimeError("out of coffee")

    with pytest.raises(RuntimeError, match="out of coffee") as raised:
        logits_of(broken)
    assert "rows 0 to 39" in raised.value.__notes__[0]


def test_labels_name_the_columns_or_must_be_their_numbers() -> None:
    assert classes_of(len, 2, ["b", "a", "b"]).tolist() == ["a", "b"]
    assert classes_of(len, 2, ["b", 1, "b"]).tolist() == [1, "b"]
    assert classes_of(len, 4, [0, 2]).tolist() == [0, 1, 2, 3]
    assert classes_of(len, 2, [7, 8], ("7", "8")).tolist() == [7, 8]
    with pytest.raises(InvalidInputError, match="which column is which"):
        classes_of(len, 4, ["a", "b"])


def test_vectors_are_features_themselves() -> None:
    found = seen(LogisticRegression().fit(X, Y))
    np.testing.assert_array_equal(found.features, X)
    assert found.looked_at == "the inputs themselves"


def test_of_images_a_module_is_asked_once_what_its_last_layer_sees() -> None:
    body = nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.ReLU())
    module = nn.Sequential(body, nn.Linear(5, 3))
    asked = []
    module.register_forward_hook(lambda _, given, __: asked.append(len(given[0])))
    images = torch.rand(7, 1, 4, 4)
    found = seen(module, images)
    assert asked == [7]
    np.testing.assert_allclose(np.asarray(found.features), body(images).detach().numpy(), rtol=1e-6)
    assert found.looked_at == "what the last linear layer of the module sees"
    assert not module[1]._forward_hooks


def test_a_pipeline_is_asked_what_its_last_step_sees() -> None:
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(TEXTS, OPINIONS)
    search = GridSearchCV(model, {"logisticregression__C": [1.0]}, cv=2).fit(TEXTS, OPINIONS)
    for given in (model, FrozenEstimator(model), search):
        for texts in (TEXTS, pd.Series(TEXTS), np.array(TEXTS)):
            found = seen(given, texts)
            assert sparse.issparse(found.features)
            assert found.features is not None
            assert found.features.shape == (12, 4)
    scaled = seen(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y))
    np.testing.assert_allclose(np.asarray(scaled.features).std(axis=0), 1)


def test_a_given_function_comes_first_and_none_means_none() -> None:
    model = LogisticRegression().fit(X, Y)
    np.testing.assert_array_equal(seen(model, X, lambda rows: torch.from_numpy(2 * rows)).features, 2 * X)
    assert seen(model, X, "none").features is None
    assert seen(lambda texts: np.ones((len(texts), 2)), TEXTS).features is None


def test_of_a_frame_columns_that_are_numbers_are_features() -> None:
    frame = pd.DataFrame({"a": [1.0, None, 3.0], "b": ["x", "y", "z"], "c": pd.array([1, None, 2], dtype="Int64")})
    found = seen(lambda rows: np.ones((len(rows), 2)), frame)
    np.testing.assert_array_equal(found.features, [[1, 1], [np.nan, np.nan], [3, 2]])
    assert found.column_names == ("a", "c")


def test_features_that_are_not_there_are_refused() -> None:
    model = LogisticRegression().fit(X, Y)
    with pytest.raises(InvalidInputError, match="Pipeline"):
        seen(model, X, "model")
    with pytest.raises(InvalidInputError, match="arrays of numbers"):
        seen(lambda texts: np.ones((len(texts), 2)), TEXTS, "input")
    for given in (lambda _: None, lambda rows: rows[:3], lambda _: "text"):
        with pytest.raises(InvalidInputError, match="the function's result: expected numbers of shape"):
            seen(model, X, given)
