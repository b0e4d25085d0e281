"""Where rows of both domains lie, whatever a classifier says of them: components, domains told apart, novelty.

All of it is found when it is first asked for, and once. Where features stay as they are while a classifier learns,
one structure serves all of its evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from shiftcal.target.clusters import UnitRows, common_units, unit_rows
from shiftcal.target.components import Components, fit_components
from shiftcal.target.domain_classifier import DomainClassifier, fit_domain_classifier
from shiftcal.target.novelty import novelty
from shiftcal.target.shifted_part import ShiftedPart, find_shifted_part


@dataclass(frozen=True)
class DomainStructure:
    """Features (N, F) of rows of both domains, and what follows from them alone."""

    training: Tensor | None
    """Of source rows that a classifier was trained on; None: not at hand."""
    held_out: Tensor
    """Of source rows that it was not trained on."""
    target: Tensor
    known_shifted: ShiftedPart | None = None
    """Which part of the target has shifted, where that was found before."""

    @property
    def source(self) -> Tensor:
        """Rows that the source is known by: those of training, else the held-out ones."""
        return self.held_out if self.training is None else self.training

    @cached_property
    def units(self) -> Tensor:
        """(F,) that features are divided by before clusters are looked for."""
        return common_units(self.source)

    @cached_property
    def source_rows(self) -> UnitRows:
        """The source as clusters are found from it."""
        return unit_rows(self.source, self.units)

    @cached_property
    def target_rows(self) -> UnitRows:
        """The target as clusters are found from it, all rows alike."""
        return unit_rows(self.target, self.units)

    @cached_property
    def shifted_rows(self) -> UnitRows:
        """The target with its rows weighted by how likely they are to have shifted."""
        return unit_rows(self.target, self.units, self.shifted.weights)

    @cached_property
    def components(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of source, held-out and target rows (N, K)."""
        held_out, target = self._components.of(self.held_out), self._components.of(self.target)
        return held_out if self.training is None else self._components.of(self.training), held_out, target

    @cached_property
    def domains(self) -> DomainClassifier | None:
        """Of all source rows, held-out ones first, and target rows; None where there are too few."""
        return fit_domain_classifier(self._all_source, self.target, self._components)

    @cached_property
    def shifted(self) -> ShiftedPart:
        """The part of the target that is not as the source; all of it where there are too few rows to tell."""
        if self.known_shifted is not None:
            return self.known_shifted
        if self.domains is None:
            return ShiftedPart(1.0, torch.ones(len(self.target), dtype=torch.float64))
        return find_shifted_part(self.domains)

    @cached_property
    def novelty(self) -> float:
        """How much of the target lies outside of anything that the source has."""
        source, _, target = self.components
        return novelty(source, target)

    @cached_property
    def _components(self) -> Components:
        return fit_components(self._all_source, self.target)

    @property
    def _all_source(self) -> Tensor:
        return self.held_out if self.training is None else torch.cat([self.held_out, self.training])
