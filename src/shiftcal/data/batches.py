"""Paired batches of equal size from source and target.

The rows of a step are a function of (seed, epoch, step) alone, so batches are the same for any number of worker
processes, a run can be resumed at any step by its number, and the processes of a distributed run take slices of
one global batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from shiftcal.core.errors import InvalidInputError
from shiftcal.core.limits import BATCH_BYTES
from shiftcal.data.domains import LabelledDomain, Rows, UnlabelledDomain
from shiftcal.data.loading import load_ahead
from shiftcal.data.views import ViewMaker
from shiftcal.data.weights import weighted_rows

_SOURCE, _TARGET, _PSEUDO = 0, 1, 2
Distributions = NDArray[np.float32]
_NO_ROWS: Rows = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class PseudoLabels:
    """Target rows that take part in training as if labelled, with labels that the model itself gave."""

    rows: Rows
    labels: Rows
    soft_labels: Distributions | None = None
    """(N, C) for methods that train on distributions, such as weighted or smoothed labels; None: one-hot."""
    confidence: float | None = None
    """Mean probability that the method gave these labels, for diagnostics; None: what the network predicts."""

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class ShiftProblem:
    """Labelled source and unlabelled target (or none, if no shift is known): all that training is given."""

    source: LabelledDomain
    target: UnlabelledDomain | None
    pseudo_labels: PseudoLabels | None = None

    def __post_init__(self) -> None:
        if self.target is not None and not isinstance(self.target, UnlabelledDomain):
            raise TypeError(
                f"the target of training must be an UnlabelledDomain, got {type(self.target).__name__}: "
                "target labels are for evaluation only; pass domain.without_labels()"
            )

    @property
    def num_labelled(self) -> int:
        """Source rows and pseudo-labelled target rows."""
        return len(self.source) + (0 if self.pseudo_labels is None else len(self.pseudo_labels))


@dataclass(frozen=True)
class BatchPlan:
    """How batches are drawn."""

    batch_size: int
    """Of the global batch, over all processes."""
    target_multiple: int = 1
    """Target rows for each source row."""
    pseudo_labels_join_source: bool = True
    """Whether pseudo-labelled rows are drawn as if they were source rows, or stay with the target."""
    pseudo_batch_share: float | None = None
    """Of the labelled rows of a batch, how many are pseudo-labelled, where any are; None: drawn from all alike."""
    seed: int = 0
    rank: int = 0
    world_size: int = 1
    horizontal_flip: bool = True
    num_workers: int = 0

    def __post_init__(self) -> None:
        if self.batch_size % self.world_size:
            raise InvalidInputError(
                f"batch_size {self.batch_size} can't be shared by {self.world_size} processes; choose a multiple"
            )


class Batch(NamedTuple):
    """What a method sees in one step."""

    source_inputs: Tensor
    """(B, ...) of source rows and, in self-training, behind them of pseudo-labelled target rows."""
    source_labels: Tensor
    """(B,) class numbers."""
    soft_labels: Tensor | None
    """(B, C): one-hot for source rows, what the method chose for pseudo-labelled ones; None if it chose classes."""
    is_pseudo: Tensor
    """(B,) whether a row is a pseudo-labelled row of the target."""
    target_inputs: Tensor | None
    target_rows: Tensor | None
    """Row numbers in the target domain, for methods that keep something per row."""
    views: ViewMaker
    """Makes weak and strong views of inputs on demand."""
    progress: float
    """The share of training that lies behind, from 0 to below 1, for weights that grow or fall."""
    target_soft_labels: Tensor | None = None
    """(B, C) what the method chose for the target rows, 0 where it chose nothing: for methods whose pseudo-labels do
    not join the source, and None for these too in epochs without any."""

    def with_target_rows(self, chosen: Tensor) -> Batch:
        """The batch with some of its target rows, by a mask (B,)."""
        # By their numbers: a mask would be looked through anew for each part, and takes rows number by number.
        numbers = chosen.nonzero().squeeze(-1)
        inputs, rows, labels = (
            None if part is None else part.index_select(0, numbers)
            for part in (self.target_inputs, self.target_rows, self.target_soft_labels)
        )
        return self._replace(target_inputs=inputs, target_rows=rows, target_soft_labels=labels)


class _RawBatch(NamedTuple):
    """The part of a batch that worker processes prepare."""

    step: int
    source_inputs: Tensor
    source_labels: Tensor
    soft_labels: Tensor | None
    is_pseudo: Tensor
    target_inputs: Tensor | None
    target_rows: Tensor | None
    target_soft_labels: Tensor | None


def iterate_batches(
    problem: ShiftProblem,
    plan: BatchPlan,
    *,
    epoch: int,
    num_epochs: int,
    first_step: int,
    num_steps: int,
    device: torch.device,
) -> Iterator[Batch]:
    """Batches `first_step` to `num_steps` - 1 of an epoch, on the device.

    Raises:
        InvalidInputError: the inputs of a batch would take more memory than the limit.
    """
    num_rows = plan.batch_size // plan.world_size * (1 if problem.target is None else 1 + plan.target_multiple)
    num_bytes = 4 * num_rows * math.prod(problem.source.inputs.shape)
    BATCH_BYTES.check(num_bytes, f"a batch of {num_rows:,} inputs of shape {problem.source.inputs.shape}")
    batch_of_step = _EpochBatches(problem, plan, epoch).__getitem__
    steps = range(first_step, num_steps)
    is_slow = any(
        part is not None and part.inputs.is_worth_loading_ahead for part in (problem.source, problem.target)
    )
    batches = (
        load_ahead(batch_of_step, steps, num_workers=plan.num_workers, pin_memory=device.type == "cuda")
        if is_slow or plan.num_workers
        else map(batch_of_step, steps)
    )
    for raw in batches:
        position = epoch * num_steps + raw.step
        views = ViewMaker(plan.seed, position, plan.rank, plan.world_size, plan.horizontal_flip)
        source_inputs, source_labels, soft_labels, is_pseudo, target_inputs, target_rows, target_soft_labels = (
            None if part is None else part.to(device, non_blocking=True) for part in raw[1:]
        )
        assert source_inputs is not None
        assert source_labels is not None
        assert is_pseudo is not None
        yield Batch(
            source_inputs,
            source_labels,
            soft_labels,
            is_pseudo,
            target_inputs,
            target_rows,
            views,
            position / (num_epochs * num_steps),
            target_soft_labels,
        )


class _EpochBatches:
    """Item k is the whole batch of step k, so that the order of worker processes can't matter."""

    def __init__(self, problem: ShiftProblem, plan: BatchPlan, epoch: int) -> None:
        self.problem = problem
        self.plan = plan
        self.epoch = epoch
        self._last_permutation: dict[int, tuple[int, Rows]] = {}

    def __getitem__(self, step: int) -> _RawBatch:
        joined = self.plan.pseudo_labels_join_source
        share = self.plan.batch_size // self.plan.world_size
        rows, pseudo_rows = (
            self._labelled_rows(step, share)
            if joined
            else (self._rows(_SOURCE, len(self.problem.source), step, share), _NO_ROWS)
        )
        is_pseudo = torch.zeros(share, dtype=torch.bool)
        is_pseudo[len(rows) :] = True
        labelled = (self._inputs(rows, pseudo_rows), *self._labels(rows, pseudo_rows), is_pseudo)
        target = self.problem.target
        if target is None:
            return _RawBatch(step, *labelled, None, None, None)
        target_rows = self._rows(_TARGET, len(target), step, share * self.plan.target_multiple)
        chosen = None if joined else self._chosen_for(target_rows)
        return _RawBatch(step, *labelled, target.inputs.fetch(target_rows), torch.from_numpy(target_rows), chosen)

    def _inputs(self, rows: Rows, pseudo_rows: Rows) -> Tensor:
        """Inputs of source rows, and of rows among the pseudo-labelled ones."""
        source, target, pseudo = self.problem.source, self.problem.target, self.problem.pseudo_labels
        if len(pseudo_rows) == 0:
            return source.inputs.fetch(rows)
        assert target is not None
        assert pseudo is not None
        inputs = target.inputs.fetch(pseudo.rows[pseudo_rows])
        return torch.cat([source.inputs.fetch(rows), inputs]) if len(rows) else inputs

    def _labels(self, rows: Rows, pseudo_rows: Rows) -> tuple[Tensor, Tensor | None]:
        """Labels of the same rows, as class numbers and, if there are such, as distributions."""
        source, pseudo = self.problem.source, self.problem.pseudo_labels
        labels = torch.from_numpy(source.labels[rows])
        if len(pseudo_rows) > 0:
            assert pseudo is not None
            labels = torch.cat([labels, torch.from_numpy(pseudo.labels[pseudo_rows])])
        if pseudo is None or pseudo.soft_labels is None:
            return labels, None
        soft_labels = one_hot(labels, len(source.classes)).float()
        soft_labels[len(rows) :] = torch.from_numpy(pseudo.soft_labels[pseudo_rows])
        return labels, soft_labels

    def _chosen_for(self, target_rows: Rows) -> Tensor | None:
        """What was chosen as labels of target rows, as distributions; 0 where nothing was."""
        source, target, pseudo = self.problem.source, self.problem.target, self.problem.pseudo_labels
        if pseudo is None:
            return None
        assert target is not None
        positions = np.full(len(target), -1, dtype=np.int64)
        positions[pseudo.rows] = np.arange(len(pseudo))
        drawn = positions[target_rows]
        known = drawn >= 0
        chosen = np.zeros((len(target_rows), len(source.classes)), dtype=np.float32)
        if pseudo.soft_labels is None:
            chosen[known, pseudo.labels[drawn[known]]] = 1
        else:
            chosen[known] = pseudo.soft_labels[drawn[known]]
        return torch.from_numpy(chosen)

    def _labelled_rows(self, step: int, count: int) -> tuple[Rows, Rows]:
        """Source rows, and rows among the pseudo-labelled ones."""
        num_source, pseudo = len(self.problem.source), self.problem.pseudo_labels
        if pseudo is None:
            return self._rows(_SOURCE, num_source, step, count), _NO_ROWS
        if self.plan.pseudo_batch_share is None:
            rows = self._rows(_SOURCE, self.problem.num_labelled, step, count)
            return rows[rows < num_source], rows[rows >= num_source] - num_source
        num_pseudo = min(max(round(self.plan.pseudo_batch_share * count), 1), count - 1)
        from_source = self._rows(_SOURCE, num_source, step, count - num_pseudo)
        return from_source, self._rows(_PSEUDO, len(pseudo), step, num_pseudo)

    def _rows(self, domain: int, num_rows: int, step: int, count: int) -> Rows:
        """This process's `count` of the rows of a step: one permutation after the other, cut into batches."""
        first = (step * self.plan.world_size + self.plan.rank) * count
        number, start = divmod(first, num_rows)
        if start + count <= num_rows:
            return self._permutation(domain, number, num_rows)[start : start + count]
        positions = np.arange(first, first + count, dtype=np.int64)
        rounds = positions // num_rows
        rows = np.empty(count, dtype=np.int64)
        for number in np.unique(rounds):
            inside = rounds == number
            rows[inside] = self._permutation(domain, int(number), num_rows)[positions[inside] % num_rows]
        return rows

    def _permutation(self, domain: int, number: int, num_rows: int) -> Rows:
        known, permutation = self._last_permutation.get(domain, (-1, None))
        if permutation is None or known != number:
            generator = np.random.default_rng([self.plan.seed, domain, self.epoch, number])
            permutation = generator.permutation(num_rows)
            if domain == _SOURCE and self.problem.source.weights is not None:
                permutation = weighted_rows(self.problem.source.weights, num_rows, generator)[permutation]
            self._last_permutation[domain] = (number, permutation)
        return permutation
