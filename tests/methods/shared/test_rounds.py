from collections.abc import Callable
from typing import Any

import pytest
import torch

from shiftcal.data.batches import Batch
from shiftcal.data.views import ViewMaker
from shiftcal.methods import method_class
from shiftcal.methods.cbst import ClassBalancedSelfTraining
from shiftcal.methods.networks.classifiers import Blueprint


@pytest.mark.parametrize(("num_channels", "kind"), [(1, "strong"), (3, "strong"), (2, "weak")])
def test_selected_images_are_shown_in_strong_views_and_the_source_as_it_is(
    image_batch: Callable[[int], tuple[Blueprint, Batch]], num_channels: int, kind: str
) -> None:
    blueprint, batch = image_batch(num_channels)
    changed = getattr(ViewMaker(0, 0), kind)(batch.source_inputs)
    expected = torch.where(batch.is_pseudo[:, None, None, None], changed, batch.source_inputs)
    shown = ClassBalancedSelfTraining().in_strong_views(batch, blueprint.new_backbone())
    torch.testing.assert_close(shown.source_inputs, expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["cbst", "cbst-avh", "crst", "brer", "drst"])
def test_self_training_is_compared_on_equal_views(image_batch: Callable[[int], Any], name: str) -> None:
    """Every method of this kind learns from strong views of selected images, and from pictures where told so."""
    blueprint, batch = image_batch(3)
    losses = []
    for strong_views in (True, False):
        torch.manual_seed(0)
        method = method_class(name)(strong_views=strong_views)  # type: ignore[call-arg]
        network = method.build(blueprint)
        losses.append(list(method.training_step(network, batch))[-1].loss.item())
    assert losses[0] != losses[1]
