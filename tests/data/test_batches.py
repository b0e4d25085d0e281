from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.batches import Batch, BatchPlan, PseudoLabels, ShiftProblem, iterate_batches
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import ArrayInputs, FileInputs, ImageFormat

CPU = torch.device("cpu")
TARGET_START = 1000


def make_problem(num_source: int = 12, num_target: int = 20, pseudo: PseudoLabels | None = None) -> ShiftProblem:
    """The only feature of a source row is its number, of a target row 1000 more; source labels are row mod 3."""
    source = torch.arange(float(num_source)).view(-1, 1)
    target = TARGET_START + torch.arange(float(num_target)).view(-1, 1)
    labels = np.arange(num_source, dtype=np.int64) % 3
    return ShiftProblem(
        LabelledDomain("source", ArrayInputs(source), labels, ("a", "b", "c")),
        UnlabelledDomain("target", ArrayInputs(target)),
        pseudo,
    )


def draw(
    problem: ShiftProblem, plan: BatchPlan, *, epoch: int = 0, first_step: int = 0, num_steps: int = 3
) -> list[Batch]:
    return list(
        iterate_batches(
            problem, plan, epoch=epoch, num_epochs=4, first_step=first_step, num_steps=num_steps, device=CPU
        )
    )


def tensors(batch: Batch) -> list[Tensor]:
    parts = (batch.source_inputs, batch.source_labels, batch.target_inputs, batch.target_rows)
    # Views of some images stand for the randomness that the view maker would draw.
    return [part for part in parts if part is not None] + [
        batch.views.weak(torch.rand(4, 1, 8, 8, generator=seeded()))
    ]


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def equal(left: list[Batch], right: list[Batch]) -> bool:
    return len(left) == len(right) and all(
        torch.equal(a, b)
        for one, other in zip(left, right, strict=True)
        for a, b in zip(tensors(one), tensors(other), strict=True)
    )


def source_rows(batches: list[Batch]) -> list[int]:
    return [int(row) for batch in batches for row in batch.source_inputs.flatten()]


def target_rows(batches: list[Batch]) -> list[int]:
    return [int(row) for batch in batches if batch.target_rows is not None for row in batch.target_rows]


def test_batches_have_equal_sizes_even_if_they_do_not_divide_the_data() -> None:
    for batch in draw(make_problem(num_source=13, num_target=5), BatchPlan(batch_size=4), num_steps=4):
        assert batch.source_inputs.shape == (4, 1)
        assert batch.source_labels.shape == (4,)
        assert batch.target_inputs is not None
        assert batch.target_inputs.shape == (4, 1)


def test_every_row_comes_with_its_own_label_and_number() -> None:
    for batch in draw(make_problem(), BatchPlan(batch_size=4)):
        assert batch.source_labels.tolist() == [row % 3 for row in source_rows([batch])]
        assert batch.target_inputs is not None
        assert batch.target_rows is not None
        assert torch.equal(batch.target_inputs.flatten() - TARGET_START, batch.target_rows.float())


def test_each_pass_has_every_row_exactly_once() -> None:
    batches = draw(make_problem(num_source=10, num_target=7), BatchPlan(batch_size=4), num_steps=35)
    for rows, num_rows in ((source_rows(batches), 10), (target_rows(batches), 7)):
        passes = [rows[start : start + num_rows] for start in range(0, 140, num_rows)]
        assert all(sorted(one) == list(range(num_rows)) for one in passes)
        assert len({tuple(one) for one in passes}) == len(passes)


def test_batches_may_be_larger_than_the_data() -> None:
    (batch,) = draw(make_problem(num_source=3, num_target=2), BatchPlan(batch_size=8), num_steps=1)
    rows = source_rows([batch])
    assert sorted(rows[:3]) == sorted(rows[3:6]) == [0, 1, 2]
    assert sorted(target_rows([batch])) == [0, 0, 0, 0, 1, 1, 1, 1]


def test_seed_and_epoch_decide() -> None:
    problem, plan = make_problem(), BatchPlan(batch_size=4, seed=5)
    first = draw(problem, plan)
    assert equal(first, draw(problem, plan))
    assert source_rows(first) != source_rows(draw(problem, dataclasses.replace(plan, seed=6)))
    assert source_rows(first) != source_rows(draw(problem, plan, epoch=1))
    assert target_rows(first) != target_rows(draw(problem, plan, epoch=1))


# A machine with one core is warned of two workers.
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("num_workers", [1, 2])
def test_workers_change_nothing(num_workers: int) -> None:
    problem, plan = make_problem(), BatchPlan(batch_size=5, seed=1)
    with_workers = draw(problem, dataclasses.replace(plan, num_workers=num_workers), num_steps=4)
    assert equal(with_workers, draw(problem, plan, num_steps=4))


@pytest.mark.parametrize("target_multiple", [1, 3])
def test_slices_of_the_processes_make_up_the_global_batch(target_multiple: int) -> None:
    problem, plan = make_problem(), BatchPlan(batch_size=6, target_multiple=target_multiple)
    parts = [draw(problem, dataclasses.replace(plan, rank=rank, world_size=2)) for rank in (0, 1)]
    for whole, left, right in zip(draw(problem, plan), *parts, strict=True):
        for name in ("source_inputs", "source_labels", "target_inputs", "target_rows"):
            assert torch.equal(torch.cat([getattr(left, name), getattr(right, name)]), getattr(whole, name))
        images = torch.rand(6, 1, 8, 8, generator=seeded())
        joined = torch.cat([left.views.weak(images[:3]), right.views.weak(images[3:])])
        assert torch.equal(joined, whole.views.weak(images))


@pytest.mark.parametrize("first_step", [0, 1, 4, 5])
def test_a_resumed_epoch_is_the_tail_of_the_whole_one(first_step: int) -> None:
    problem, plan = make_problem(), BatchPlan(batch_size=5)
    whole = draw(problem, plan, epoch=2, num_steps=5)
    assert equal(draw(problem, plan, epoch=2, first_step=first_step, num_steps=5), whole[first_step:])


def test_target_rows_come_in_the_wanted_multiple() -> None:
    batches = draw(make_problem(num_target=24), BatchPlan(batch_size=4, target_multiple=2))
    assert [len(batch.source_labels) for batch in batches] == [4, 4, 4]
    assert sorted(target_rows(batches)) == list(range(24))


def test_without_a_target_there_are_source_rows_only() -> None:
    problem = dataclasses.replace(make_problem(), target=None)
    batches = draw(problem, BatchPlan(batch_size=4))
    assert source_rows(batches) == source_rows(draw(make_problem(), BatchPlan(batch_size=4)))
    assert all(batch.target_inputs is None and batch.target_rows is None for batch in batches)


def test_pseudo_labelled_rows_join_the_source_with_their_own_inputs() -> None:
    pseudo = PseudoLabels(rows=np.array([19, 4]), labels=np.array([2, 1]))
    problem = make_problem(pseudo=pseudo)
    assert problem.num_labelled == 14
    batches = draw(problem, BatchPlan(batch_size=7), num_steps=2)
    labelled = {
        row: label
        for batch in batches
        for row, label in zip(source_rows([batch]), batch.source_labels.tolist(), strict=True)
    }
    assert labelled == {row: row % 3 for row in range(12)} | {TARGET_START + 19: 2, TARGET_START + 4: 1}


@pytest.mark.parametrize(("batch_size", "share", "expected"), [(8, 0.5, 4), (7, 0.5, 4), (8, 0.75, 6), (8, 0.1, 1)])
def test_pseudo_labelled_rows_can_have_a_share_of_each_batch(batch_size: int, share: float, expected: int) -> None:
    pseudo = PseudoLabels(rows=np.array([19, 4]), labels=np.array([2, 1]))
    batches = draw(make_problem(pseudo=pseudo), BatchPlan(batch_size=batch_size, pseudo_batch_share=share))
    assert [int(batch.is_pseudo.sum()) for batch in batches] == [expected] * 3
    assert {len(batch.source_inputs) for batch in batches} == {batch_size}
    drawn = [row for row in source_rows(batches) if row < TARGET_START]
    assert len(set(drawn[:12])) == min(len(drawn), 12), "the source is gone through once before any row comes again"
    without = draw(make_problem(), BatchPlan(batch_size=batch_size, pseudo_batch_share=share))
    assert not any(batch.is_pseudo.any() for batch in without)


def test_soft_labels_are_one_hot_for_the_source_and_as_chosen_for_pseudo_labelled_rows() -> None:
    soft = np.array([[0.1, 0.2, 0.7], [0.0, 0.5, 0.0]], dtype=np.float32)
    pseudo = PseudoLabels(rows=np.array([19, 4]), labels=np.array([2, 1]), soft_labels=soft)
    (batch,) = draw(make_problem(pseudo=pseudo), BatchPlan(batch_size=14), num_steps=1)
    assert batch.is_pseudo.tolist() == [row >= TARGET_START for row in source_rows([batch])]
    assert batch.soft_labels is not None
    for row, label, distribution, is_pseudo in zip(
        source_rows([batch]), batch.source_labels, batch.soft_labels, batch.is_pseudo, strict=True
    ):
        expected = torch.from_numpy(soft[0 if row == TARGET_START + 19 else 1]) if is_pseudo else torch.eye(3)[label]
        assert torch.equal(distribution, expected)


@pytest.mark.parametrize("soft", [None, np.array([[0.1, 0.2, 0.7], [0.0, 0.5, 0.0]], dtype=np.float32)])
def test_pseudo_labels_may_stay_with_the_target(soft: NDArray[np.float32] | None) -> None:
    pseudo = PseudoLabels(rows=np.array([19, 4]), labels=np.array([2, 1]), soft_labels=soft)
    plan = BatchPlan(batch_size=4, target_multiple=2, pseudo_labels_join_source=False)
    batches = draw(make_problem(pseudo=pseudo), plan)
    assert equal(batches, draw(make_problem(), plan))
    assert not any(batch.is_pseudo.any() for batch in batches)
    given = {19: torch.tensor([0.0, 0.0, 1.0]), 4: torch.tensor([0.0, 1.0, 0.0])}
    if soft is not None:
        given = {19: torch.from_numpy(soft[0]), 4: torch.from_numpy(soft[1])}
    for batch in batches:
        assert batch.target_rows is not None
        assert batch.target_soft_labels is not None
        for row, distribution in zip(batch.target_rows.tolist(), batch.target_soft_labels, strict=True):
            assert torch.equal(distribution, given.get(row, torch.zeros(3)))


def test_target_rows_have_labels_only_where_a_method_keeps_them_there() -> None:
    pseudo = PseudoLabels(rows=np.array([19, 4]), labels=np.array([2, 1]))
    joined = draw(make_problem(pseudo=pseudo), BatchPlan(batch_size=4))
    none_yet = draw(make_problem(), BatchPlan(batch_size=4, pseudo_labels_join_source=False))
    assert all(batch.target_soft_labels is None for batch in (*joined, *none_yet))


def test_progress_goes_from_zero_to_one_over_all_epochs() -> None:
    batches = [batch for epoch in range(4) for batch in draw(make_problem(), BatchPlan(batch_size=4), epoch=epoch)]
    assert [batch.progress for batch in batches] == [step / 12 for step in range(12)]


def test_no_pseudo_labels_at_all_are_as_none() -> None:
    empty = PseudoLabels(rows=np.empty(0, dtype=np.int64), labels=np.empty(0, dtype=np.int64))
    plan = BatchPlan(batch_size=4)
    assert equal(draw(make_problem(pseudo=empty), plan), draw(make_problem(), plan))


def test_a_batch_of_files_may_be_all_source_or_all_pseudo_labelled(tmp_path: Path) -> None:
    for name, grey in (("source", 0), ("target", 255)):
        Image.fromarray(np.full((4, 4), grey, dtype=np.uint8)).save(tmp_path / f"{name}.png")
    source, target = (
        FileInputs([tmp_path / f"{name}.png"] * 4, ImageFormat(4, 1), root=tmp_path) for name in ("source", "target")
    )
    problem = ShiftProblem(
        LabelledDomain("source", source, np.zeros(4, dtype=np.int64), ("a", "b")),
        UnlabelledDomain("target", target),
        PseudoLabels(np.array([3]), np.array([1])),
    )
    batches = draw(problem, BatchPlan(batch_size=1), num_steps=5)
    assert sorted(int(batch.source_labels) for batch in batches) == [0, 0, 0, 0, 1]
    assert all(batch.source_inputs.mean() == batch.source_labels for batch in batches)


def test_views_differ_from_step_to_step_and_epoch_to_epoch() -> None:
    problem, plan = make_problem(), BatchPlan(batch_size=4)
    images = torch.rand(64, 1, 16, 16, generator=seeded())
    batches = draw(problem, plan, num_steps=2) + draw(problem, plan, epoch=1, num_steps=2)
    views = [batch.views.weak(images) for batch in batches]
    assert not any(torch.equal(views[i], views[j]) for i in range(4) for j in range(i))


def test_views_are_not_mirrored_where_that_is_not_wanted() -> None:
    ramp = torch.arange(16.0).div(16).expand(64, 1, 16, 16)
    for flip, falls in ((True, True), (False, False)):
        (batch,) = draw(make_problem(), BatchPlan(batch_size=4, horizontal_flip=flip), num_steps=1)
        middle = batch.views.weak(ramp)[:, 0, 8, 4:12]
        assert bool((middle.diff(dim=1) < 0).any()) is falls


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("num_workers", [0, 1])
def test_the_global_random_state_is_untouched(num_workers: int) -> None:
    def state() -> tuple[object, ...]:
        return (torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate())

    before = state()
    draw(make_problem(), BatchPlan(batch_size=4, num_workers=num_workers))
    assert state() == before


def test_target_labels_are_refused() -> None:
    problem = make_problem()
    with pytest.raises(
        TypeError, match=r"must be an UnlabelledDomain, got LabelledDomain.*domain\.without_labels\(\)"
    ):
        ShiftProblem(problem.source, problem.source)  # type: ignore[arg-type]
    assert ShiftProblem(problem.source, problem.source.without_labels()).num_labelled == 12


def test_a_batch_must_be_divisible_among_the_processes() -> None:
    with pytest.raises(InvalidInputError, match="batch_size 7 can't be shared by 2 processes; choose a multiple"):
        BatchPlan(batch_size=7, world_size=2)
