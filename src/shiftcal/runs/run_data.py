"""The domains of a run, from the specs of its configuration, brought to one format."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.fingerprints import fingerprint
from shiftcal.data.inputs import ImageFormat
from shiftcal.data.specs import load_domain, load_pair
from shiftcal.data.table_encoder import TableColumns
from shiftcal.methods.networks.backbones import default_image_size
from shiftcal.runs.config import RunConfig
from shiftcal.training.fitted_model import FittedModel, source_split


@dataclass(frozen=True)
class LoadedData:
    """The domains of a run, brought to one format."""

    problem: ShiftProblem
    test: LabelledDomain | UnlabelledDomain
    """What is predicted and, if it has labels, evaluated after training; training never sees it."""
    labelled_target: LabelledDomain | None = None
    """The target of the problem with its labels, where it has any: for judging pseudo-labels after training."""
    source_test: LabelledDomain | UnlabelledDomain | None = None
    """What stands for the source in evaluation; None: the part of it that training holds out."""

    @cached_property
    def fingerprints(self) -> dict[str, str | None]:
        """Of the content of each part, by the key that names it in a configuration; None for what is not there."""
        target = self.labelled_target or self.problem.target
        parts = {"source": self.problem.source, "target": target, "test": self.test, "source_test": self.source_test}
        found = {id(part): fingerprint(part) for part in {id(part): part for part in parts.values()}.values() if part}
        return {name: found.get(id(part)) for name, part in parts.items()}

    def resolved(self, config: RunConfig) -> RunConfig:
        """The configuration with the image size that the data was brought to."""
        inputs = self.problem.source.inputs
        return replace(config, image_size=inputs.shape[1]) if inputs.kind == "images" else config


def load_data(config: RunConfig, *, download: bool) -> LoadedData:
    """Source, target and test data; the labels of a labelled target stay out of the problem."""
    target_spec = config.source if config.target is None else config.target
    source, target = load_pair(
        config.source,
        target_spec,
        image_size=config.image_size,
        default_image_size=default_image_size(config.backbone),
        table=config.table(),
        download=download,
    )
    unlabelled = target.without_labels() if isinstance(target, LabelledDomain) else target
    problem = ShiftProblem(source, None if config.target is None else unlabelled)
    labelled_target = target if config.target is not None and isinstance(target, LabelledDomain) else None
    source_test = None
    if config.source_test is not None:
        source_test = _test_domain(config.source_test, source, "source test data", download=download)
    return LoadedData(problem, _test_data(config, source, target, download=download), labelled_target, source_test)


def load_domain_for(
    model: FittedModel, spec: str, *, table: TableColumns | None = None, download: bool = False
) -> LabelledDomain | UnlabelledDomain:
    """Data for an existing model, brought to the format that it takes.

    Raises:
        InvalidInputError: it can't be; a table for a model of something else, say.
    """
    is_image = len(model.input_shape) == 3
    image_format = ImageFormat(size=model.input_shape[1], channels=model.input_shape[0]) if is_image else None
    return load_domain(spec, image_format=image_format, table=table, encoder=model.encoder, download=download)


def _test_data(
    config: RunConfig,
    source: LabelledDomain,
    target: LabelledDomain | UnlabelledDomain,
    *,
    download: bool,
) -> LabelledDomain | UnlabelledDomain:
    if config.test is not None:
        return _test_domain(config.test, source, "test data", download=download)
    if config.target is not None:
        return target
    # Without a target the honest test data is the part of the source that training does not see.
    training = config.recipe().training
    _, validation = source_split(source, training)
    return validation or source


def _test_domain(
    spec: str, source: LabelledDomain, what: str, *, download: bool
) -> LabelledDomain | UnlabelledDomain:
    """Data in the source's format, with classes that the source has too."""
    shape = source.inputs.shape
    image_format = ImageFormat(size=shape[1], channels=shape[0]) if source.inputs.kind == "images" else None
    test = load_domain(spec, image_format=image_format, encoder=source.inputs.encoder, download=download)
    if test.inputs.shape != shape:
        raise InvalidInputError(
            f"{what}: expected {source.inputs.kind} of the source's shape {shape}, got {test.inputs.shape} "
            f"({test.name!r})"
        )
    if isinstance(test, LabelledDomain):
        test.labels_among(source.classes)
    return test
