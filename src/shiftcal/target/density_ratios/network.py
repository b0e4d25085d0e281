"""A small domain classifier: log R(x) = g(x), the logit of "source" of a multilayer perceptron.

Trained with `shiftcal.functional.density_ratio.domain_loss` (each domain with half of the weight, so R = exp(g)) and
stopped where the loss on held-out rows of both domains is smallest; with the weights of that epoch. Nothing but the
domain of each row is used. The classifier's logit as a ratio: Sugiyama, Suzuki and Kanamori, Density Ratio Estimation
in Machine Learning, 2012, ch. 4; Sec. 3.3 of arXiv 2010.05784.

Good for: thousands of rows and ratios that are not linear in the features. Needs more data than `logistic`.
Costs: at most `max_epochs` passes over the smaller domain on the CPU: about a second for 2,000 x 256.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from shiftcal.core.options import option
from shiftcal.functional.density_ratio import domain_loss
from shiftcal.metrics.checks import FloatArray
from shiftcal.target.density_ratios.base import DensityRatioEstimator, LogRatio


@dataclass(frozen=True, kw_only=True)
class Network(DensityRatioEstimator):
    """Domain classifier with early stopping; good for thousands of rows and ratios that are not linear."""

    hidden_features: int = option(64, "width of the two hidden layers", at_least=1, at_most=65_536)
    learning_rate: float = option(1e-3, "of AdamW", above=0)
    weight_decay: float = option(0.01, "of AdamW", at_least=0)
    batch_size: int = option(128, "rows of each domain in a batch", at_least=1, at_most=65_536)
    max_epochs: int = option(100, "passes over the smaller domain", at_least=1, at_most=100_000)
    patience: int = option(8, "epochs without a better held-out loss before it stops", at_least=1, at_most=100_000)
    held_out_share: float = option(0.2, "of each domain, for the choice of the epoch", above=0, below=1)

    def fit_log_ratio(self, source: FloatArray, target: FloatArray, generator: np.random.Generator) -> LogRatio:
        """Train, and keep the epoch with the smallest held-out loss."""
        train, held = zip(*(self._split(rows, generator) for rows in (source, target)), strict=True)
        network = _new_network(source.shape[1], self.hidden_features, int(generator.integers(2**31)))
        optimizer = torch.optim.AdamW(network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay)
        best_loss, best_state, waited = _loss(network, held), copy.deepcopy(network.state_dict()), 0
        for _ in range(self.max_epochs):
            self._run_epoch(network, optimizer, train, generator)
            loss = _loss(network, held)
            waited = 0 if loss < best_loss else waited + 1
            if waited == 0:
                best_loss, best_state = loss, copy.deepcopy(network.state_dict())
            elif waited >= self.patience:
                break
        network.load_state_dict(best_state)
        return partial(_log_ratio, network)

    def _split(self, rows: FloatArray, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
        """The rows to train on and those held out, at least one of each."""
        shuffled = torch.from_numpy(generator.permutation(rows)).float()
        held = min(max(round(self.held_out_share * len(rows)), 1), len(rows) - 1)
        return shuffled[held:], shuffled[:held]

    def _run_epoch(
        self,
        network: nn.Module,
        optimizer: torch.optim.Optimizer,
        train: tuple[Tensor, ...],
        generator: np.random.Generator,
    ) -> None:
        network.train()
        orders = [torch.from_numpy(generator.permutation(len(rows))) for rows in train]
        for start in range(0, min(map(len, train)), self.batch_size):
            source, target = (
                rows[order[start : start + self.batch_size]] for rows, order in zip(train, orders, strict=True)
            )
            logits = network(torch.cat([source, target]))[:, 0]
            loss = domain_loss(logits, len(source))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def _new_network(num_features: int, hidden_features: int, seed: int) -> nn.Module:
    # The layers draw their weights from torch's global state, which is given back as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(num_features, hidden_features),
            nn.ReLU(),
            nn.Linear(hidden_features, hidden_features),
            nn.ReLU(),
            nn.Linear(hidden_features, 1),
        )


def _loss(network: nn.Module, domains: tuple[Tensor, ...]) -> float:
    network.eval()
    with torch.no_grad():
        return float(domain_loss(network(torch.cat(domains))[:, 0], len(domains[0])))


def _log_ratio(network: nn.Module, rows: FloatArray) -> FloatArray:
    network.eval()
    with torch.no_grad():
        return np.asarray(network(torch.from_numpy(rows).float())[:, 0].double().numpy())
