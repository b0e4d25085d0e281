import pytest
import torch

from shiftcal.target.class_priors import corrected, standard_error, target_frequencies


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


def test_the_accuracy_is_known_as_well_as_the_frequencies_of_repeated_samples() -> None:
    said, found = [], []
    source, judged = torch.tensor([0.5, 0.5]).double(), sample([0.2, 0.8], 20_000, 1_000)
    for seed in range(200):
        probabilities = sample([0.2, 0.8], 400, seed)
        frequencies = target_frequencies(probabilities, source)
        posterior, predicted = corrected(probabilities, source, frequencies), torch.zeros(400, dtype=torch.int64)
        said.append(standard_error(posterior, frequencies, predicted))
        found.append(float(corrected(judged, source, frequencies)[:, 0].mean()))
    assert sum(said) / len(said) == pytest.approx(float(torch.tensor(found).std()), rel=0.15)


def test_classes_that_are_told_apart_for_certain_leave_no_doubt_and_those_that_are_not_all_of_it() -> None:
    frequencies, predicted = torch.tensor([0.5, 0.5]).double(), torch.tensor([0, 1] * 50)
    certain = torch.tensor([[1.0, 0.0], [0.0, 1.0]] * 50).double()
    assert standard_error(certain, frequencies, predicted) == pytest.approx(0, abs=1e-9)
    alike = torch.full((100, 2), 0.5).double()
    assert standard_error(alike, frequencies, torch.zeros(100, dtype=torch.int64)) > 0.25
