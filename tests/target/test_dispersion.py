import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from shiftcal.target.clusters import fit_clusters, unit_rows
from shiftcal.target.dispersion import dispersion, gathering, similarity_to_others

MEANS = 6 * torch.eye(5, 16, dtype=torch.float64)
LABELS = torch.arange(500) % 5


def normal(num_rows: int, seed: int) -> Tensor:
    return torch.randn(num_rows, 16, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def dispersion_of(target: Tensor, num_source: int = 500) -> float:
    """Against a source around these means."""
    source = MEANS[LABELS[:num_source]] + normal(num_source, 0)
    parts = []
    for rows, labels in ((source, LABELS[:num_source]), (target, LABELS[: len(target)])):
        units = unit_rows(rows)
        parts += [units, fit_clusters(units, one_hot(labels, 5).double())]
    return dispersion(*parts)  # type: ignore[arg-type]


@pytest.mark.parametrize("noise", [1.0, 2.5, 3.0, 6.0])
def test_rows_gather_by_the_mean_cosine_with_the_others_of_their_cluster(noise: float) -> None:
    """From .3, where they do not, to .5."""
    units = unit_rows(MEANS[LABELS] + noise * normal(500, 0))
    clusters = fit_clusters(units, one_hot(LABELS, 5).double())
    cosine = float(similarity_to_others(units.directions, clusters.nearest(units.directions)).mean())
    assert gathering(units, clusters) == pytest.approx(min(max((cosine - 0.3) / 0.2, 0), 1))


def test_it_is_the_probability_that_a_source_row_is_nearer_to_its_cluster() -> None:
    source, target = MEANS[LABELS] + normal(500, 0), MEANS[LABELS] + 1.5 * normal(500, 1)
    similarity = []
    for rows in (source, target):
        units = unit_rows(rows)
        own = fit_clusters(units, one_hot(LABELS, 5).double()).nearest(units.directions)
        others = [
            units.directions[(own == own[row]) & (torch.arange(500) != row)].sum(dim=0) for row in range(len(rows))
        ]
        similarity.append(torch.cosine_similarity(torch.stack(others), units.directions))
    expected = (similarity[0][:, None] > similarity[1]).double().mean()
    assert dispersion_of(target) == pytest.approx(float(expected), abs=1e-4)


def test_clusters_as_dense_as_on_the_source_are_not_dispersed_wherever_they_are() -> None:
    same = dispersion_of(MEANS[LABELS] + normal(500, 1))
    assert same == pytest.approx(0.5, abs=0.05)
    assert dispersion_of(3 * (MEANS[LABELS] + normal(500, 1)) + 7) == pytest.approx(same, abs=0.01)


def test_noise_and_columns_that_no_longer_belong_to_the_same_rows_are() -> None:
    target, generator = MEANS[LABELS] + normal(500, 1), torch.Generator().manual_seed(3)
    shuffled = torch.stack([column[torch.randperm(500, generator=generator)] for column in target.T], dim=1)
    for rows in (shuffled, target.mean(dim=0) + target.std(dim=0) * normal(500, 2)):
        assert dispersion_of(rows) > 0.8


def test_a_source_of_few_rows_makes_no_target_look_dispersed() -> None:
    """Each of three rows is a third of its own cluster."""
    assert dispersion_of(MEANS[LABELS] + normal(500, 1), num_source=15) < 0.6


def test_a_target_of_few_rows_does_not_look_dispersed() -> None:
    """Of 65 classes, 50 rows: most are alone in their clusters, and those of the source have twenty others."""
    means, generator = 6 * torch.randn(65, 128, generator=torch.Generator().manual_seed(0)), torch.Generator()
    parts = []
    for num_rows in (1_300, 50):
        labels = torch.randint(0, 65, (num_rows,), generator=generator.manual_seed(num_rows))
        rows = means[labels] + 6 * torch.randn(num_rows, 128, generator=generator)
        units = unit_rows(rows.double())
        parts += [units, fit_clusters(units, one_hot(labels, 65).double())]
    assert dispersion(*parts) < 0.65  # type: ignore[arg-type]
