"""What `drst` and `drssl` train: a classifier with a ratio, a label model, and perhaps a source reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shiftcal.core.options import option
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.inputs import Inputs
from shiftcal.functional.density_ratio import RATIO_USES, RatioUse, bounded_domain_logit
from shiftcal.methods.base import OptimizerPlan, TrainingView
from shiftcal.methods.drl import DistributionallyRobust
from shiftcal.methods.networks.classifiers import Blueprint, Classifier, DomainOutputs
from shiftcal.methods.networks.density_ratio import ClassifierWithRatio, PlainRatioNet, RatioForm, SeenRows
from shiftcal.methods.shared.label_model import LabelBuffers, fit_label_model
from shiftcal.methods.shared.rounds import GrowingRounds
from shiftcal.methods.shared.source_reference import new_source_reference, reference_plan
from shiftcal.target.evidence import BeforeAdaptation, ObservedRows, ShiftEvidence
from shiftcal.target.sampling import sampled_rows
from shiftcal.target.shifted_part import ShiftedPart, shifted_probability
from shiftcal.target.structure import DomainStructure

# Of each domain, that a label model is fitted to before each epoch: an accuracy is known to a point by so many.
_MOST_ROWS = 2_000
# Of a large target, whose features need not fit into memory; those of so many rows fit into the processor's cache.
_ROWS_AT_A_TIME = 512

Labelling = Literal["auto", "clusters", "scaled", "confidence"]
RobustForm = Callable[[Tensor, Tensor], Tensor]
"""From logits (N, C) and log R (N,) to the logits of the predictive form."""


class SelfTrainingNetwork(ClassifierWithRatio):
    """A classifier with a ratio that labels the target itself.

    Where no ratio is learned beside the task, it is that of a domain classifier, which is fitted when all else is.
    """

    def __init__(self, blueprint: Blueprint, form: RatioForm, *, source_reference: bool) -> None:
        super().__init__(blueprint, form)
        self.labels = LabelBuffers(self.structure_dim, blueprint.num_classes, blueprint.num_target_rows)
        self.reference: Classifier | None = None
        if source_reference and self.task.backbone.takes_images:
            self.reference = new_source_reference(blueprint)

    def seen_by_ratio(self, inputs: Tensor, outputs: DomainOutputs) -> SeenRows:
        """What the ratio sees of rows (N, ...): without one that is learned, what clusters are looked for in."""
        if self.ratio is not None:
            return super().seen_by_ratio(inputs, outputs)
        return SeenRows(self.structure(inputs, outputs.features).detach())

    def log_ratio(self, seen: SeenRows) -> Tensor:
        """log R (N,), within its bound."""
        if self.ratio is not None:
            return super().log_ratio(seen)
        return bounded_domain_logit(seen.values @ self.labels.ratio_slope + self.labels.ratio_intercept, self.bound)

    def acting_log_ratio(self, inputs: Tensor, outputs: DomainOutputs) -> Tensor:
        """log R (N,) as it acts on predictions: 0 where none is learned."""
        if self.ratio is None:
            return torch.zeros_like(outputs.logits[:, 0])
        return self.log_ratio(self.seen_by_ratio(inputs, outputs))

    def uses_clusters(self, labelling: Labelling) -> bool:
        """Whether clusters take part in labelling; with "auto" unless the network learns what is clustered."""
        return labelling == "clusters" or (labelling == "auto" and not self.task.backbone.takes_images)

    def fit_labels(
        self,
        view: TrainingView,
        robust: RobustForm,
        *,
        labelling: Labelling,
        correct_prior: bool,
        for_threshold: bool,
    ) -> dict[str, Tensor]:
        """Values of the buffers of this network for a label model of the target as it stands.

        Which rows have shifted is found before the first labels and stays: of an adapted network they look alike.
        """
        evidence = self._evidence(view, robust)
        shifted = None
        if self.labels.known_before is None:
            shifted = self._shifted_probability(view, evidence.structure)
            of_chosen = shifted[torch.from_numpy(_chosen_rows(view))]
            evidence = replace(
                evidence,
                target=replace(evidence.target, target_probability=of_chosen),
                known_structure=evidence.structure,
            )
        model, found = fit_label_model(
            evidence,
            by_clusters=self.uses_clusters(labelling),
            correct_prior=correct_prior and view.held_out is not None,
            for_threshold=for_threshold and view.held_out is not None,
        )
        values: dict[str, Tensor] = self.labels.values(model, found)
        if shifted is not None:
            values["shifted_probability"] = shifted
            values["shifted_share"] = torch.tensor(evidence.structure.shifted.share)
        if view.epoch == view.num_epochs and self.ratio is None:
            values |= _ratio_in_features(evidence)
        return {f"labels.{name}": value for name, value in values.items()}

    def label_scores(self, view: TrainingView, robust: RobustForm) -> tuple[Tensor, Tensor]:
        """log p and the log-probabilities of f b (N, C) of all target rows, in double precision."""
        model, target = self.labels.model, self._target(view, robust)
        found = []
        for start in range(0, len(view.target), _ROWS_AT_A_TIME):
            part = range(start, min(start + _ROWS_AT_A_TIME, len(view.target)))
            rows = target.taken(np.asarray(part, dtype=np.int64))
            if rows.features is None:
                rows = replace(rows, features=view.target.inputs.fetch_span(part))
            rows = rows.to(self.labels.units.device)
            found.append([scores.cpu() for scores in model.scores(rows)])
        joint, without_clusters = (torch.cat(parts).double() for parts in zip(*found, strict=True))
        return joint, torch.log_softmax(without_clusters, dim=-1)

    def _shifted_probability(self, view: TrainingView, structure: DomainStructure) -> Tensor:
        """P(new | x) (M,) of all target rows, of each by a domain classifier that was fitted without it."""
        domains = structure.domains
        if domains is None:
            return torch.ones(len(view.target), dtype=torch.float64)
        judge = self.task if self.reference is None else self.reference

        def observe_batch(batch: Tensor) -> tuple[Tensor, ...]:
            seen = judge(batch)[1] if self.task.backbone.takes_images else batch
            return (seen.cpu().double() @ domains.slope + domains.intercept,)

        (log_odds,) = view.observe(observe_batch, view.target.inputs)
        log_odds[torch.from_numpy(_chosen_rows(view))] = domains.target_log_odds.to(log_odds)
        return shifted_probability(log_odds, structure.shifted.share)

    def _target(self, view: TrainingView, robust: RobustForm) -> ObservedRows:
        """All of it, each row as far of the target as it has shifted."""
        rows = view.once("target", lambda: self._observe(view, view.target.inputs, robust))
        return replace(rows, target_probability=self.labels.shifted_probability.to(rows.logits.device))

    def _labelled(self, view: TrainingView, rows: _Rows, robust: RobustForm) -> ObservedRows:
        return self._with_reference(view, rows.inputs, self._observe(view, rows.inputs, robust)).double()

    def _observe(self, view: TrainingView, inputs: Inputs, robust: RobustForm) -> ObservedRows:
        """What this network says of all rows, as of the source; their structure too where the network makes it."""

        def observe_batch(batch: Tensor) -> tuple[Tensor, ...]:
            outputs = DomainOutputs(*self.task(batch))
            logits = robust(outputs.logits, self.acting_log_ratio(batch, outputs))
            of_task = (outputs.features,) if self.task.backbone.takes_images else ()
            return logits, torch.zeros_like(logits[:, 0]), *of_task

        return ObservedRows(*view.observe(observe_batch, inputs))

    def _with_reference(self, view: TrainingView, inputs: Inputs, rows: ObservedRows) -> ObservedRows:
        if self.reference is None:
            return rows
        reference = self.reference
        (features,) = view.observe(lambda batch: (reference(batch)[1],), inputs)
        return replace(rows, reference_features=features)

    def _evidence(self, view: TrainingView, robust: RobustForm) -> ShiftEvidence:
        source = _Rows.of(view.source)
        held_out = None if view.held_out is None else _Rows.of(view.held_out)
        chosen = _chosen_rows(view)
        target_inputs = view.target.inputs.subset(chosen)
        target = self._with_reference(view, target_inputs, self._target(view, robust).taken(chosen)).double()
        # Where no rows were held out, those of training stand for them.
        others = source if held_out is None else held_out
        known = self.labels.known_before
        if known is not None and self.task.backbone.takes_images and view.clusters_are_due:
            known = replace(known, cluster_purity=None)
        # They are asked for the purity of their clusters alone.
        asks_source = held_out is not None and (known is None or known.cluster_purity is None)
        evidence = ShiftEvidence(
            self._labelled(view, others, robust),
            others.labels,
            target,
            self._labelled(view, source, robust) if asks_source else None,
            None if held_out is None else source.labels,
            known,
        )
        if self.task.backbone.takes_images:
            if known is None:
                return evidence
            part = ShiftedPart(float(self.labels.shifted_share), target.target_probability)
            return replace(evidence, known_structure=replace(evidence.structure, known_shifted=part))
        # Inputs stay as they are while the network learns: their structure is found once in a training.
        structure = view.once(
            "structure", lambda: _structure_of_inputs(source, held_out, target_inputs), by_data_alone=True
        )
        return replace(
            evidence,
            held_out=replace(evidence.held_out, features=structure.held_out),
            target=replace(target, features=structure.target),
            training=None if evidence.training is None else replace(evidence.training, features=structure.training),
            known_structure=structure,
        )


def _chosen_rows(view: TrainingView) -> NDArray[np.int64]:
    return sampled_rows(len(view.target), _MOST_ROWS)


def _ratio_in_features(evidence: ShiftEvidence) -> dict[str, Tensor]:
    """log R as a linear function of the classifier's own features; none of few rows."""
    structure = evidence.structure
    if evidence.target.reference_features is not None:
        own, held_out, target = evidence.training, evidence.held_out.features, evidence.target.features
        assert held_out is not None
        assert target is not None
        structure = DomainStructure(None if own is None else own.features, held_out, target)
    domains = structure.domains
    return {} if domains is None else {"ratio_slope": -domains.slope, "ratio_intercept": -domains.intercept}


class _Rows(NamedTuple):
    """A sample of a labelled domain."""

    inputs: Inputs
    labels: Tensor
    """(N,)"""

    @classmethod
    def of(cls, domain: LabelledDomain) -> _Rows:
        """As many as a label model is fitted to."""
        rows = sampled_rows(len(domain), _MOST_ROWS)
        return cls(domain.inputs.subset(rows), torch.from_numpy(domain.labels[rows]))


def _structure_of_inputs(source: _Rows, held_out: _Rows | None, target: Inputs) -> DomainStructure:
    def values(inputs: Inputs) -> Tensor:
        return inputs.fetch(np.arange(len(inputs), dtype=np.int64)).double()

    if held_out is None:
        return DomainStructure(None, values(source.inputs), values(target))
    return DomainStructure(values(source.inputs), values(held_out.inputs), values(target))


@dataclass(frozen=True, kw_only=True)
class TargetAwareLabelling(GrowingRounds, DistributionallyRobust[SelfTrainingNetwork]):
    """Base of `drst` and `drssl`: a robust classifier that labels the target itself, in rounds that grow."""

    judges_apart: ClassVar[bool] = True
    labels_by_threshold: ClassVar[bool] = False
    """Whether labels are accepted by a threshold on confidence, see `fit_label_model`."""

    ratio_strength: float = option(
        0.0, "multiplies log R in training and prediction; 0: no ratio is learned; the paper: 1", at_least=0
    )
    ratio_use: RatioUse = option("paper", RATIO_USES)
    ratio_network: PlainRatioNet = option("shared", "a head on the task's features, or a network of its own")
    dual_weight: float = option(
        0.0, "weight of the published dual term, with ratio_use=paper; the paper: 1", at_least=0
    )
    labelling: Labelling = option(
        "auto",
        "by the scaled prediction, with the target's clusters or without; auto: with them unless the network learns "
        "what is clustered; confidence: by the prediction as it is, as in the paper",
    )
    prior_correction: bool = option(
        True, "label as if classes were as frequent as on the source, as far as there is a shift"
    )
    source_reference: bool = option(
        True, "train a second network on the source alone, to judge the accuracy on images"
    )

    @property
    def has_label_model(self) -> bool:
        """Whether labels are not by the prediction alone."""
        return self.labelling != "confidence"

    @property
    def has_reference(self) -> bool:
        """Whether networks for images get a source reference."""
        return self.source_reference and self.has_label_model

    def fit_buffers(self, network: SelfTrainingNetwork, view: TrainingView) -> Mapping[str, Tensor]:
        """The label model as the network stands; none during the warm-up."""
        if self.portion(view) is None or not self.has_label_model:
            return {}
        return network.fit_labels(
            view,
            self.robust_logits,
            labelling=self.labelling,
            correct_prior=self.prior_correction,
            for_threshold=self.labels_by_threshold,
        )

    def optimizers(self, network: SelfTrainingNetwork) -> dict[str, OptimizerPlan]:
        """As `drl`, and the reference."""
        return super().optimizers(network) | reference_plan(self, network.reference)

    def build(self, blueprint: Blueprint) -> SelfTrainingNetwork:
        """A classifier with a ratio, learned beside the task if it acts, and a source reference for images."""
        form = self.ratio_form._replace(is_learned=self.ratio_strength > 0)
        return SelfTrainingNetwork(blueprint, form, source_reference=self.has_reference)

    def judged_outputs(self, network: SelfTrainingNetwork, inputs: Tensor) -> tuple[Tensor, ...]:
        """The prediction, and features of the reference where there is one."""
        logits = self.predict(network, inputs).logits
        return (logits,) if network.reference is None else (logits, network.reference(inputs)[1])

    def before_adaptation(self, network: SelfTrainingNetwork) -> BeforeAdaptation | None:
        """As it was found before the first pseudo-labels."""
        return network.labels.known_before
