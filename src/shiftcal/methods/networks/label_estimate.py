"""What can be known of the labels of target rows without any, as buffers of a network.

    g(x) = reliability q(x) + (1 - reliability) softmax( z(x) / T )

q has the shares of the target's own clusters, one for each class, and T is the temperature that held-out source rows
ask for. How far clusters are relied on is known from the source, by how well its own hold the classes of held-out
rows.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from shiftcal.target.clusters import Clusters


class LabelEstimate(nn.Module):
    """g; until it was fitted all clusters have the same share in every row, and nothing is said by them."""

    units: Tensor
    centre: Tensor
    centroids: Tensor
    reliability: Tensor
    temperature: Tensor

    def __init__(self, structure_dim: int, num_classes: int) -> None:
        super().__init__()
        self.register_buffer("units", torch.ones(structure_dim))
        self.register_buffer("centre", torch.zeros(structure_dim))
        self.register_buffer("centroids", torch.zeros(num_classes, structure_dim))
        self.register_buffer("reliability", torch.zeros(()))
        self.register_buffer("temperature", torch.ones(()))

    @torch.no_grad()
    def shares(self, structure: Tensor) -> Tensor:
        """q (N, C) of rows whose clusters are looked for in `structure` (N, S)."""
        return Clusters(self.units, self.centre, self.centroids).log_posteriors(structure).exp()

    @torch.no_grad()
    def probabilities(self, logits: Tensor, shares: Tensor) -> Tensor:
        """g (N, C) from z and q."""
        by_task = torch.softmax(logits / self.temperature, dim=-1)
        # Not as `torch.lerp`: in mixed precision the two differ in theirs.
        return self.reliability * shares + (1 - self.reliability) * by_task
