import torch

from shiftcal.data.batches import Batch
from shiftcal.methods.mc_dropout import MonteCarloDropout
from shiftcal.methods.networks.classifiers import Blueprint, Classifier


def test_a_prediction_is_the_mean_over_random_masks(blueprint: Blueprint, batch: Batch) -> None:
    """Many fixed masks, the same for all rows, against many random ones of torch's own dropout."""
    method = MonteCarloDropout(dropout_rate=0.4, num_passes=4000)
    network = spread(method.build(blueprint))
    with torch.no_grad():
        got = method.predict(network, batch.source_inputs).logits.softmax(dim=-1)
        features = network.backbone(batch.source_inputs)
        torch.manual_seed(0)
        passes = torch.nn.functional.dropout(features.expand(4000, *features.shape), 0.4)
        expected = network.head(passes).softmax(dim=-1).mean(dim=0)
        plain = network.head(features).softmax(dim=-1)
    torch.testing.assert_close(got, expected, atol=0.02, rtol=0)
    assert (plain - expected).abs().max() > 0.05


def test_predictions_are_repeatable_and_training_is_random(blueprint: Blueprint, batch: Batch) -> None:
    method = MonteCarloDropout()
    network = method.build(blueprint).eval()
    first, second = (method.predict(network, batch.source_inputs).logits for _ in range(2))
    assert torch.equal(first, second)
    losses = [next(method.training_step(network.train(), batch)).loss for _ in range(2)]
    assert losses[0] != losses[1]


def spread(network: Classifier) -> Classifier:
    """Larger logits, for which dropping features matters."""
    with torch.no_grad():
        network.head.weight.mul_(10)
    return network
