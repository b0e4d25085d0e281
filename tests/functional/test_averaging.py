import torch

from shiftcal.functional.averaging import log_mean_probabilities


def test_softmax_of_the_result_is_the_mean_probability() -> None:
    logits = torch.randn(5, 7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    got = log_mean_probabilities(logits)
    torch.testing.assert_close(got.exp(), logits.softmax(dim=-1).mean(dim=0))
    torch.testing.assert_close(got.softmax(dim=-1), got.exp())


def test_one_prediction_and_extreme_logits() -> None:
    logits = torch.tensor([[[1000.0, 0.0]], [[0.0, 1000.0]]])
    assert torch.isfinite(log_mean_probabilities(logits)).all()
    torch.testing.assert_close(log_mean_probabilities(logits).exp(), torch.tensor([[0.5, 0.5]]))
    torch.testing.assert_close(log_mean_probabilities(logits[:1]), logits[0].log_softmax(dim=-1))
