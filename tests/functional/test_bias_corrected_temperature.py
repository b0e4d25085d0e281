import torch
from torch.nn.functional import cross_entropy

from shiftcal.functional.bias_corrected_temperature import bias_corrected


def test_scale_and_biases_of_logits_are_undone() -> None:
    generator = torch.Generator().manual_seed(0)
    true = 2 * torch.randn(50_000, 3, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(true.softmax(dim=-1), 1, generator=generator).squeeze(-1)
    given = 3 * (true + torch.tensor([0.5, 0.0, -1.0]))
    torch.testing.assert_close(bias_corrected(given, labels, given), true.softmax(dim=-1), atol=0.02, rtol=0)


def test_probabilities_are_right_in_the_mean_of_each_class() -> None:
    """What estimates of frequencies rest on, and what a temperature alone does not give."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(20_000, 4, generator=generator, dtype=torch.float64) + torch.tensor([2.0, 0, 0, 0])
    labels = torch.arange(20_000) % 4
    found = bias_corrected(logits, labels, logits)
    torch.testing.assert_close(found.mean(dim=0), torch.full((4,), 0.25).double(), atol=0.002, rtol=0)


def test_a_class_of_few_rows_has_nearly_no_bias() -> None:
    logits, labels = torch.zeros(4, 2, dtype=torch.float64), torch.tensor([0, 0, 0, 0])
    found = bias_corrected(logits, labels, logits)
    assert 0.5 < float(found[0, 0]) < 0.65
    assert float(cross_entropy(found.log(), labels)) < float(cross_entropy(logits, labels))
