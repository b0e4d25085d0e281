import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from shiftcal.functional import centre_labels
from shiftcal.functional.centre_labels import agree_both_ways, centre_similarities


def reference(features: NDArray[np.float64], probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centres with SciPy's cosine distances, class by class, for classes that all are predicted somewhere."""
    units = features / np.linalg.norm(features, axis=1, keepdims=True)
    centres = (probabilities.T @ units) / probabilities.sum(axis=0)[:, None]
    nearest = cdist(units, centres, "cosine").argmin(axis=1)
    centres = np.stack([units[nearest == label].mean(axis=0) for label in range(probabilities.shape[1])])
    return np.asarray(1 - cdist(units, centres, "cosine"))


def test_similarities_against_scipy() -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(60, 5)) + 3 * np.eye(3, 5)[np.arange(60) % 3]
    probabilities = generator.dirichlet(np.ones(3), size=60)
    found = centre_similarities(torch.from_numpy(features), torch.from_numpy(probabilities))
    np.testing.assert_allclose(found.numpy(), reference(features, probabilities), atol=1e-12)


def test_centres_correct_a_classifier_that_is_wrong_about_a_row() -> None:
    features = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.9, 0.0], [0.0, 1.0], [0.1, 1.0], [1.0, 0.05]])
    probabilities = torch.tensor([[0.9, 0.1]] * 3 + [[0.1, 0.9]] * 2 + [[0.4, 0.6]])
    assert centre_similarities(features, probabilities).argmax(dim=-1).tolist() == [0, 0, 0, 1, 1, 0]


def test_a_class_that_nothing_is_predicted_as_has_no_centre() -> None:
    # All cosines with the other centre are negative for the last row: an absent class must not win by a zero.
    features = torch.tensor([[1.0, 0.0], [1.0, 0.2], [-1.0, 0.1]])
    probabilities = torch.tensor([[0.6, 0.1, 0.3], [0.6, 0.1, 0.3], [0.5, 0.1, 0.4]])
    similarities = centre_similarities(features, probabilities)
    assert torch.isneginf(similarities[:, 1:]).all()
    assert similarities.argmax(dim=-1).tolist() == [0, 0, 0]


@pytest.mark.parametrize("rows_at_once", [1, 2, 1024])
def test_pairs_in_both_ways_by_hand(rows_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(centre_labels, "_ROWS_AT_ONCE", rows_at_once)

    def at(*degrees: float) -> torch.Tensor:
        return torch.stack(
            [torch.deg2rad(torch.tensor(degrees)).cos(), torch.deg2rad(torch.tensor(degrees)).sin()], 1
        )

    source, source_labels = at(0, 50, 90), torch.tensor([0, 1, 1])
    # 0: next to source 0 of its label. 1 and 2: next to sources of another label, and nearest to none of their own.
    # 3: next to source 2 of its label.
    target, labels = at(5, 40, 85, 120), torch.tensor([0, 0, 0, 1])
    assert agree_both_ways(source, source_labels, target, labels).tolist() == [True, False, False, True]


def test_one_way_is_enough() -> None:
    """A target row whose nearest source row has another label, but which is nearest to one of its own label."""
    source, source_labels = torch.tensor([[1.0, 0.0], [0.8, 0.6]]), torch.tensor([1, 0])
    target, labels = torch.tensor([[0.97, 0.2], [0.0, -1.0]]), torch.tensor([0, 1])
    assert (target[0] @ source.T).argmax() == 0
    assert agree_both_ways(source, source_labels, target, labels).tolist() == [True, True]
    assert agree_both_ways(source[:1], source_labels[:1], target, labels).tolist() == [False, True]
