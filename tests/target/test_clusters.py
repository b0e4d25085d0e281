import pytest
import torch

from shiftcal.target.clusters import (
    Clusters,
    cluster_by_predictions,
    cluster_posteriors,
    common_units,
    compactness,
)


def blobs(num_rows: int, spread: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(num_rows) % 4
    noise = torch.randn(num_rows, 8, generator=generator, dtype=torch.float64)
    return 5 * torch.eye(4, 8, dtype=torch.float64)[labels] + spread * noise + 100, labels


def test_clusters_correct_the_errors_of_the_predictions_that_they_start_from() -> None:
    """A third of the predictions of each class are wrong; the clusters find their way back."""
    representation, labels = blobs(400, spread=0.5)
    predicted = torch.where(torch.arange(400) % 3 == 0, (labels + 1) % 4, labels)
    probabilities = torch.nn.functional.one_hot(predicted, 4).double()
    posteriors = cluster_posteriors(representation, cluster_by_predictions(representation, probabilities))
    assert (posteriors.argmax(dim=-1) == labels).double().mean() > 0.99
    torch.testing.assert_close(posteriors.sum(dim=-1), torch.ones(400, dtype=torch.float64))


def test_neither_a_common_offset_nor_a_common_scale_matters() -> None:
    representation, labels = blobs(80, spread=1.0)
    probabilities = torch.nn.functional.one_hot(labels, 4).double()
    before = cluster_posteriors(representation, cluster_by_predictions(representation, probabilities))
    moved = 3 * representation - 7
    after = cluster_posteriors(moved, cluster_by_predictions(moved, probabilities))
    torch.testing.assert_close(before, after)


def test_columns_in_units_of_their_own_are_divided_by_their_deviation() -> None:
    embedding = torch.tensor([1.0, 2.0, 5.0])
    assert torch.equal(common_units(embedding), torch.ones(3))
    table = torch.tensor([0.4, 1.0, 4000.0])
    assert torch.equal(common_units(table), table)


def test_compactness_is_the_mean_cosine_with_the_nearest_centroid() -> None:
    clusters = Clusters(torch.zeros(2), torch.eye(2))
    rows = torch.tensor([[2.0, 0.0], [1.0, 1.0]])
    assert compactness(rows, clusters) == pytest.approx((1 + 0.5**0.5) / 2)
