import torch

from shiftcal.methods.networks.label_estimate import LabelEstimate


def put(estimate: LabelEstimate, **values: torch.Tensor) -> None:
    for name, value in values.items():
        estimate.get_buffer(name).copy_(value)


def test_before_it_was_fitted_it_says_what_the_task_says() -> None:
    logits, structure = torch.randn(5, 3), torch.randn(5, 4)
    estimate = LabelEstimate(4, 3)
    shares = estimate.shares(structure)
    torch.testing.assert_close(shares, torch.full((5, 3), 1 / 3))
    torch.testing.assert_close(estimate.probabilities(logits, shares), torch.softmax(logits, dim=-1))


def test_clusters_and_the_calibrated_task_by_reliability() -> None:
    logits, structure = torch.randn(5, 3), torch.randn(5, 4)
    estimate = LabelEstimate(4, 3)
    centroids = torch.nn.functional.normalize(torch.randn(3, 4), dim=-1)
    centre = torch.randn(4)
    put(estimate, centroids=centroids, centre=centre, temperature=torch.tensor(2.0))
    directions = torch.nn.functional.normalize(structure - centre, dim=-1)
    shares = torch.softmax(30 * directions @ centroids.T, dim=-1)
    torch.testing.assert_close(estimate.shares(structure), shares, atol=1e-5, rtol=1e-4)
    for reliability in (0.0, 0.25, 1.0):
        put(estimate, reliability=torch.tensor(reliability))
        expected = reliability * shares + (1 - reliability) * torch.softmax(logits / 2, dim=-1)
        torch.testing.assert_close(estimate.probabilities(logits, shares), expected)


def test_logits_of_lower_precision_than_the_inputs() -> None:
    """In mixed precision those of vectors are."""
    estimate, logits, shares = LabelEstimate(4, 3), torch.randn(5, 3), torch.softmax(torch.randn(5, 3), dim=-1)
    put(estimate, reliability=torch.tensor(0.5))
    expected = estimate.probabilities(logits, shares)
    torch.testing.assert_close(estimate.probabilities(logits.bfloat16(), shares), expected, atol=0.01, rtol=0)
