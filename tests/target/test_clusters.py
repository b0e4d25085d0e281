import pytest
import torch

from shiftcal.target.clusters import Clusters, common_units, fit_clusters, unit_rows


def blobs(num_rows: int, spread: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(num_rows) % 4
    noise = torch.randn(num_rows, 8, generator=generator, dtype=torch.float64)
    return 5 * torch.eye(4, 8, dtype=torch.float64)[labels] + spread * noise + 100, labels


def test_clusters_correct_the_errors_of_the_predictions_that_they_start_from() -> None:
    """A third of the predictions of each class are wrong; the clusters find their way back."""
    features, labels = blobs(400, spread=0.5)
    predicted = torch.where(torch.arange(400) % 3 == 0, (labels + 1) % 4, labels)
    clusters = fit_clusters(unit_rows(features), torch.nn.functional.one_hot(predicted, 4).double())
    posteriors = clusters.log_posteriors(features).exp()
    assert (posteriors.argmax(dim=-1) == labels).double().mean() > 0.99
    assert torch.equal(posteriors.argmax(dim=-1), clusters.nearest(unit_rows(features).directions))
    torch.testing.assert_close(posteriors.sum(dim=-1), torch.ones(400, dtype=torch.float64))


def test_neither_a_common_offset_nor_a_common_scale_matters() -> None:
    features, labels = blobs(80, spread=1.0)
    probabilities = torch.nn.functional.one_hot(labels, 4).double()
    before = fit_clusters(unit_rows(features), probabilities).log_posteriors(features).exp()
    moved = 3 * features - 7
    torch.testing.assert_close(before, fit_clusters(unit_rows(moved), probabilities).log_posteriors(moved).exp())


def test_units_divide_the_columns() -> None:
    features, labels = blobs(80, spread=1.0)
    probabilities = torch.nn.functional.one_hot(labels, 4).double()
    units = torch.arange(1, 9).double()
    scaled = fit_clusters(unit_rows(features, units), probabilities).log_posteriors(features).exp()
    torch.testing.assert_close(
        scaled, fit_clusters(unit_rows(features / units), probabilities).log_posteriors(features / units).exp()
    )


def test_posteriors_are_those_of_a_mixture_of_von_mises_fisher_distributions() -> None:
    """Concentration 30: at an angle of 60 degrees to one centroid and 90 to the other the odds are exp(15)."""
    clusters = Clusters(torch.ones(()), torch.zeros(2), torch.eye(2))
    row = torch.tensor([[0.5, 0.0]])
    between = torch.tensor([[3.0**0.5, 1.0]])
    assert clusters.log_posteriors(row)[0].diff().item() == pytest.approx(-30)
    assert clusters.log_posteriors(between)[0].diff().item() == pytest.approx(-30 * (3**0.5 - 1) / 2, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("units", [torch.ones(()), torch.arange(1, 9)])
def test_shares_come_with_a_linear_function_of_the_same_features(units: torch.Tensor, dtype: torch.dtype) -> None:
    """Far from 0, where the slope has to be taken from the centre too for as many digits."""
    features, labels = blobs(80, spread=1.0)
    clusters = fit_clusters(unit_rows(features, units.double()), torch.nn.functional.one_hot(labels, 4).double())
    slope, seen = torch.linspace(-1, 1, 8).double(), features.to(dtype)
    shares, values = clusters.shares_beside(slope, torch.tensor(0.5).double())(seen, labels)
    torch.testing.assert_close(shares, clusters.shares(seen, labels), check_dtype=False, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(values.double(), seen.double() @ slope + 0.5, atol=1e-4, rtol=1e-5)


def test_columns_in_units_of_their_own_are_divided_by_their_deviation() -> None:
    """From thirty times the median deviation on; a constant column gets that of an ordinary one."""
    one = torch.tensor([[-1.0], [1.0]]).double()
    assert torch.equal(common_units(one * torch.tensor([1.0, 2.0, 59.0])), torch.ones(3).double())
    torch.testing.assert_close(
        common_units(one * torch.tensor([0.4, 1.0, 31.0])), torch.tensor([0.4, 1.0, 31.0]).double()
    )
    torch.testing.assert_close(
        common_units(one * torch.tensor([0.0, 1.0, 1.0, 40.0])), torch.tensor([1.0, 1.0, 1.0, 40.0]).double()
    )
