"""A moving average of the weights of a network, for prediction."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel


def moving_average(network: nn.Module, decay: float) -> AveragedModel | None:
    """That of the weights and buffers of a network, to be updated after each step; None for a decay of 0."""
    if decay == 0:
        return None

    @torch.no_grad()
    def update(kept: Sequence[Tensor], given: Sequence[Tensor], num_averaged: Tensor | int) -> None:
        # A short average at first: with 0.999 from the start, the weights of the first step would still be a third
        # of the average after a thousand steps.
        count = int(num_averaged)
        share = 1 - min(decay, (1 + count) / (10 + count))
        # They come by device and type.
        if kept[0].is_floating_point():
            torch._foreach_lerp_(list(kept), list(given), share)
        else:  # there is no average of counters and class numbers
            torch._foreach_copy_(list(kept), list(given))

    return AveragedModel(network, multi_avg_fn=update, use_buffers=True)
