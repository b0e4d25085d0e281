"""The training loop: read it from top to bottom.

It knows nothing of any method beyond `Method`: it draws batches, carries out the updates that the method yields,
and keeps everything that a resumed run needs to end up exactly where an uninterrupted one does.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from shiftcal.core.errors import InvalidInputError, TrainingInterrupted
from shiftcal.core.progress import progress_bar
from shiftcal.data.batches import Batch, BatchPlan, PseudoLabels, ShiftProblem, iterate_batches
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.inputs import Inputs
from shiftcal.data.pseudo_label_rounds import LabelsOfEpoch
from shiftcal.data.randomness import derived_seeds
from shiftcal.methods.base import Method, Outputs, TrainingView
from shiftcal.methods.networks.backbones import Backbone
from shiftcal.training.fabric import (
    any_process,
    average_gradients,
    of_surest_process,
    own_random_state,
    seed_device,
)
from shiftcal.training.inference import observe_rows, predict_inputs
from shiftcal.training.interruption import Interruption
from shiftcal.training.moving_average import moving_average
from shiftcal.training.optimizers import StepSizes, build_optimizer
from shiftcal.training.options import TrainingOptions
from shiftcal.training.sharding import (
    clip_gradients,
    gathered_weights,
    load_whole,
    load_whole_moments,
    own_part,
    shard_backbones,
    whole,
    whole_copy,
)
from shiftcal.training.step_log import divergence
from shiftcal.training.training_progress import EpochRecord, Progress

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Validate = Callable[[Outputs], Mapping[str, float]]
SaveState = Callable[[dict[str, Any]], None]
Predict = Callable[[Inputs], Outputs]
Watch = Callable[[int, Predict], None]


class Trainer:
    """Trains one network by one method on one problem."""

    def __init__(
        self,
        method: Method[Any],
        network: nn.Module,
        problem: ShiftProblem,
        held_out: LabelledDomain | None,
        options: TrainingOptions,
        fabric: Fabric,
    ) -> None:
        if method.needs_target and problem.target is None:
            raise InvalidInputError("this method adapts to a target and none was given; pass X_target")
        self.method = method
        self.problem = problem
        self.held_out = held_out
        self.options = options
        self.fabric = fabric
        self.num_epochs = options.resolved_epochs(len(problem.source))
        self.num_steps = options.steps_per_epoch(len(problem.source))
        self.network = fabric.to_device(network)
        self.average = moving_average(self.network, method.ema_decay)
        self._whole_form = self._shard() if options.strategy == "fsdp" and fabric.world_size > 1 else None
        plans = method.optimizers(self.network)
        self.optimizers = {
            name: build_optimizer(plan, fused=self._whole_form is None) for name, plan in plans.items()
        }
        if options.compile:
            self._compile_backbones()
        self._all_parameters = list(self.network.parameters())
        self._parameters = {
            name: [parameter for group in optimizer.param_groups for parameter in group["params"]]
            for name, optimizer in self.optimizers.items()
        }
        total_steps = self.num_epochs * self.num_steps
        self.step_sizes = {name: StepSizes(plans[name], self.optimizers[name], total_steps) for name in plans}
        num_target_rows = 0 if problem.target is None else len(problem.target)
        self.progress = Progress(self.num_epochs, len(problem.source.classes), num_target_rows)
        self._interruption = Interruption(enabled=False)
        self._stopping = False
        self._seeds: list[int] = []
        # Of the data alone, so no part of the state: a resumed run finds the same again.
        self._found_in_data: dict[str, Any] = {}
        self.plan = BatchPlan(
            batch_size=options.batch_size,
            target_multiple=method.target_multiple,
            pseudo_labels_join_source=method.pseudo_labels_join_source,
            pseudo_batch_share=method.pseudo_batch_share,
            seed=options.random_state,
            rank=fabric.global_rank,
            world_size=fabric.world_size,
            horizontal_flip=options.mirrors(problem.source.classes),
            num_workers=options.num_workers,
        )

    @property
    def predictor(self) -> nn.Module:
        """The network to predict with: the moving average where there is one."""
        return self.network if self.average is None else self.average.module

    def _shard(self) -> nn.Module:
        """Leave to this process its part of the weights; gives the network as it was, on the CPU, for its form."""
        form = copy.deepcopy(self.network).cpu()
        for network in {self.network, self.predictor}:
            shard_backbones(self.fabric, network)
        return form

    def _compile_backbones(self) -> None:
        for network in {self.network, self.predictor}:
            for module in network.modules():
                if isinstance(module, Backbone):
                    module.compile_body()

    def whole_predictor(self) -> nn.Module:
        """The same with whole weights; all processes must call it at the same point."""
        return self.predictor if self._whole_form is None else whole_copy(self.predictor, self._whole_form)

    def predict(self, inputs: Inputs) -> Outputs:
        """Outputs for all inputs by the network as it stands."""
        with gathered_weights(self.predictor):
            return predict_inputs(
                self.method,
                self.predictor,
                inputs,
                device=self.fabric.device,
                fabric=self.fabric,
                flip_average=self.options.flip_average,
            )

    def _observe(self, function: Callable[[Tensor], tuple[Tensor, ...]], inputs: Inputs) -> tuple[Tensor, ...]:
        with gathered_weights(self.predictor):
            return observe_rows(function, self.predictor, inputs, self.fabric.device, self.fabric)

    def run(
        self,
        *,
        validate: Validate,
        save: SaveState | None = None,
        after_epoch: Callable[[list[EpochRecord]], None] = lambda _: None,
        watch: Watch | None = None,
    ) -> None:
        """Train to the end, from wherever `progress` stands.

        Args:
            validate: turns outputs for the held-out source rows into numbers of the history, after each epoch.
            save: stores a state that `restore` takes; called at ends of epochs and on interruption.
            after_epoch: called in the main process with the history so far.
            watch: called in every process after each epoch with its number, from 1, and with `predict`, which all
                processes must call alike; whatever it finds stays outside of training.

        Raises:
            TrainingInterrupted: a signal came; the state was saved before.
        """
        last_saved = time.monotonic()
        self._interruption = Interruption(enabled=save is not None)
        with self._interruption, self._bar() as bar:
            while self.progress.epoch < self.num_epochs:
                started = time.monotonic()
                self._run_epoch(bar, save)
                self._check_weights()
                record = self._close_epoch(time.monotonic() - started)
                if self.held_out is not None:
                    record |= validate(self.predict(self.held_out.inputs))
                if watch is not None:
                    # Before the state is saved: what a resumed run does not repeat has been watched.
                    with own_random_state(self.options.random_state):
                        watch(self.progress.epoch, self.predict)
                after_epoch(self.progress.history)
                due = time.monotonic() - last_saved >= self.options.checkpoint_seconds
                if save is not None and any_process(self.fabric, due):
                    save(self.state())
                    last_saved = time.monotonic()

    def finish(self) -> None:
        """Let the method fit what follows from the data and the trained network."""
        view = self._view()
        if view is not None:
            self._fit_buffers(view)

    def _fit_buffers(self, view: TrainingView) -> None:
        for name, value in self.method.fit_buffers(self.predictor, view).items():
            for network in {self.network, self.predictor}:
                network.get_buffer(name).copy_(value)

    def _view(self) -> TrainingView | None:
        """The data and the network as it stands; None without a target."""
        if self.problem.target is None:
            return None
        return TrainingView(
            self.progress.epoch,
            self.num_epochs,
            self.problem.source,
            self.held_out,
            self.problem.target,
            self.predict,
            self._observe,
            self._found_in_data,
        )

    def _run_epoch(self, bar: Any, save: SaveState | None) -> None:
        progress = self.progress
        if progress.step == 0:
            view = self._view()
            if view is not None:
                self._fit_buffers(view)
            progress.pseudo_labels = None if view is None else self._choose_pseudo_labels(view)
        batches = iterate_batches(
            replace(self.problem, pseudo_labels=progress.pseudo_labels),
            self.plan,
            epoch=progress.epoch,
            num_epochs=self.num_epochs,
            first_step=progress.step,
            num_steps=self.num_steps,
            device=self.fabric.device,
        )
        self.network.train()
        self._seeds = derived_seeds(self.num_steps, self.plan.seed, progress.epoch, self.plan.rank)
        for batch in batches:
            progress.log.add(self._step(batch))
            progress.step += 1
            if progress.log.is_due:
                bar.set_postfix({name: f"{value:.3f}" for name, value in self._read_log().items()}, refresh=False)
            bar.update()
            if self._stopping:
                assert save is not None
                save(self.state())
                raise TrainingInterrupted(f"stopped in epoch {progress.epoch + 1} after {progress.step} steps")
        self._read_log()

    def _read_log(self) -> dict[str, float]:
        return self.progress.log.read(self.progress.epoch + 1, self.progress.step)

    def _step(self, batch: Batch) -> dict[str, Tensor]:
        """Carry out the updates of one step; the randomness within it is a function of the step's number."""
        seed_device(self._seeds[self.progress.step], self.fabric.device)
        logged: dict[str, Tensor] = {}
        updates = iter(self.method.training_step(self.network, batch))
        while True:
            with self.fabric.autocast():
                update = next(updates, None)
            if update is None:
                break
            self._apply({update.optimizer: update.loss, **update.beside})
            logged |= update.logged
            if update.accepted is not None:
                self.progress.note_accepted(update.accepted)
        for step_sizes in self.step_sizes.values():
            step_sizes.step()
        if self.average is not None:
            self.average.update_parameters(self.network)
        return logged

    def _apply(self, losses: Mapping[str, Tensor]) -> None:
        """A step of each optimiser by its loss."""
        for parameter in self._all_parameters:
            parameter.grad = None
        self.fabric.backward(reduce(torch.add, losses.values()))
        trained = [parameter for name in losses for parameter in self._parameters[name]]
        self._stopping |= average_gradients(self.fabric, trained, flag=self._interruption.requested)
        for name in losses:
            if self.options.gradient_clip is not None:
                clip_gradients(self._parameters[name], self.options.gradient_clip)
            self.optimizers[name].step()

    def _check_weights(self) -> None:
        """A step logs its loss before its update: what the last update of an epoch did shows in the weights only."""
        for name, value in self.network.named_parameters():
            if not bool(torch.isfinite(own_part(value)).all()):
                raise divergence(f"{name} is no longer finite", self.progress.epoch + 1, self.progress.step)

    def _choose_pseudo_labels(self, view: TrainingView) -> PseudoLabels | None:
        chosen = self.method.choose_pseudo_labels(self.predictor, view)
        if chosen is None or len(chosen) == 0:
            return None
        self.progress.note_round(chosen, lambda: view.target_outputs.logits)
        return chosen

    def _close_epoch(self, seconds: float) -> EpochRecord:
        accepted = self.progress.accepted
        if accepted is not None:
            accepted = LabelsOfEpoch(*of_surest_process(self.fabric, accepted.labels, accepted.confidence))
        return self.progress.close_epoch(seconds, accepted)

    def _bar(self) -> Any:
        return progress_bar(
            description="training",
            total=self.num_epochs * self.num_steps,
            initial=self.progress.epoch * self.num_steps + self.progress.step,
            unit="step",
            disable=not self.fabric.is_global_zero,
        )

    def state(self) -> dict[str, Any]:
        """Everything that `restore` needs, as plain values and tensors; all processes must call it together."""
        self._read_log()
        return {
            "network": whole(self.network.state_dict()),
            "average": None if self.average is None else whole(self.average.state_dict()),
            "optimizers": {name: whole(optimizer.state_dict()) for name, optimizer in self.optimizers.items()},
            **self.progress.as_plain(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that `state` gave."""
        load_whole(self.network, state["network"])
        if self.average is not None:
            load_whole(self.average, state["average"])
        for name, optimizer in self.optimizers.items():
            load_whole_moments(optimizer, state["optimizers"][name])
            self.step_sizes[name].move_to(state["epoch"] * self.num_steps + state["step"])
        self.progress = self.progress.restored(state)
