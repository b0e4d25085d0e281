import pytest
import torch

from shiftcal.target.class_priors import corrected, target_frequencies


def sample(frequencies: list[float], num_rows: int, seed: int) -> torch.Tensor:
    """Posteriors p(y | x) under equal frequencies, of rows whose classes have others: two normal distributions."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.multinomial(torch.tensor(frequencies), num_rows, replacement=True, generator=generator)
    x = torch.randn(num_rows, generator=generator, dtype=torch.float64) + 2 * labels - 1
    return torch.stack([torch.sigmoid(-2 * x), torch.sigmoid(2 * x)], dim=1)


@pytest.mark.parametrize("first", [0.5, 0.2, 0.9])
def test_frequencies_are_found_from_calibrated_probabilities(first: float) -> None:
    probabilities = sample([first, 1 - first], 20_000, 0)
    found = target_frequencies(probabilities, torch.tensor([0.5, 0.5]).double())
    assert float(found[0]) == pytest.approx(first, abs=0.015)


def test_they_are_what_the_confusion_of_hard_predictions_says_too() -> None:
    """Black box shift estimation (Lipton, Wang, Smola, ICML 2018), an independent estimate: C q = mu."""
    probabilities = sample([0.25, 0.75], 20_000, 1)
    miss = 0.15866  # Phi(-1): of either class
    confusion = torch.tensor([[1 - miss, miss], [miss, 1 - miss]]).double()
    predicted = probabilities.argmax(dim=1).bincount(minlength=2).double() / len(probabilities)
    independent = torch.linalg.solve(confusion, predicted)
    found = target_frequencies(probabilities, torch.tensor([0.5, 0.5]).double())
    torch.testing.assert_close(found, independent, atol=0.015, rtol=0)


def test_the_correction_is_by_bayes() -> None:
    found = corrected(
        torch.tensor([[0.5, 0.5]]).double(), torch.tensor([0.5, 0.5]).double(), torch.tensor([0.9, 0.1]).double()
    )
    torch.testing.assert_close(found, torch.tensor([[0.9, 0.1]]).double())


def test_a_class_is_not_driven_to_nothing_by_a_few_rows() -> None:
    probabilities = torch.tensor([[0.99, 0.01]]).double().expand(4, 2)
    assert target_frequencies(probabilities, torch.tensor([0.5, 0.5]).double())[1] > 0.15
