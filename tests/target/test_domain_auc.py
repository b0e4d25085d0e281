import pytest
import torch

from shiftcal.target.domain_auc import domain_auc, domain_auc_of_outputs


def normal(num_rows: int, width: int, mean: float = 0.0, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return mean + torch.randn(num_rows, width, generator=generator, dtype=torch.float64)


def test_like_samples_cannot_be_told_apart_however_few_their_rows() -> None:
    assert domain_auc(normal(60, 200), normal(40, 200, seed=1)) < 0.63
    assert domain_auc(normal(1500, 5), normal(1500, 5, seed=1)) < 0.53


def test_it_is_the_auc_of_the_best_direction() -> None:
    """Means one deviation apart in one dimension: AUC = Phi(1 / sqrt 2) = 0.760."""
    assert domain_auc(normal(2000, 1), normal(2000, 1, mean=1.0, seed=1)) == pytest.approx(0.760, abs=0.02)


def test_far_apart_is_one_and_too_few_rows_are_a_half() -> None:
    assert domain_auc(normal(50, 3), normal(50, 3, mean=20.0, seed=1)) == 1.0
    assert domain_auc(normal(1, 3), normal(50, 3)) == 0.5


def test_weights_make_one_sample_like_the_other() -> None:
    """N(0, 1) weighted by the density ratio is N(1, 1)."""
    first, second = normal(2000, 1), normal(2000, 1, mean=1.0, seed=1)
    assert domain_auc(first, second, torch.exp(first[:, 0] - 0.5)) < 0.55
    assert domain_auc(first, second, torch.full((2000,), 3.0)) == domain_auc(first, second)


def outputs(counts: list[int], seed: int = 0) -> torch.Tensor:
    """So many rows that are predicted as each class, with margins that are alike."""
    labels = torch.cat([torch.full((count,), label) for label, count in enumerate(counts)])
    margin = 3 + normal(len(labels), 1, seed=seed).abs()
    return margin * torch.nn.functional.one_hot(labels, len(counts)).double()


def test_other_frequencies_of_classes_are_no_shift_of_what_the_classifier_says() -> None:
    held_out, target = outputs([300, 300, 300]), outputs([450, 90, 0], seed=1)
    found = domain_auc_of_outputs(held_out, target, fewest=10, largest_weight=10.0)
    assert found is not None
    assert found < 0.55


@pytest.mark.parametrize(("num_shared", "known"), [(0, False), (9, False), (10, True)])
def test_with_hardly_a_class_in_common_nothing_is_known(num_shared: int, known: bool) -> None:
    """Fewer than ten held-out rows silently counted as domains that are wholly apart."""
    held_out, target = outputs([num_shared, 500, 500]), outputs([200, 0, 0], seed=1)
    found = domain_auc_of_outputs(held_out, target, fewest=10, largest_weight=10.0)
    assert (found is not None) is known


def test_the_weight_of_a_held_out_row_is_bounded() -> None:
    """A class predicted once on the source and always on the target would be all that counts."""
    held_out, target = outputs([1, 400]), outputs([380, 20], seed=1)
    bounded, free = (
        domain_auc_of_outputs(held_out, target, fewest=2, largest_weight=weight) for weight in (10.0, 1e6)
    )
    assert bounded is not None
    assert free is not None
    assert bounded > free + 0.1
