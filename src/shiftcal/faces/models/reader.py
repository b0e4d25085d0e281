"""A model asked about data of any kind and size: once, batch by batch, keeping a sample of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from shiftcal.core.errors import InvalidInputError
from shiftcal.core.progress import progress_bar
from shiftcal.data.arrays import plain_labels
from shiftcal.data.row_batches import RowNumbers, known_num_rows, row_batches
from shiftcal.faces.models.features import Features, features_seen, numeric_columns
from shiftcal.faces.models.foreign_models import ForeignModel, check_known_columns, foreign_model
from shiftcal.faces.models.outputs import named_columns, plain_outputs
from shiftcal.target.feature_map import FeatureTable
from shiftcal.target.sampling import RowSample, sampled_rows


class Answer(NamedTuple):
    """What a model says of a batch of rows, and what is seen in them."""

    outputs: NDArray[np.float64]
    """(N, C) as the model gives them."""
    features: FeatureTable | None
    inputs: NDArray[np.float64] | None
    """Their columns of numbers, where they are a table."""
    labels: Any | None
    rows: RowNumbers


@dataclass(frozen=True)
class SeenRows:
    """The same for a data set: all of its rows, or an even sample of many."""

    outputs: NDArray[np.float64]
    features: FeatureTable | None
    inputs: NDArray[np.float64] | None
    rows: RowNumbers
    labels: list[Any] | None
    """That came with the data."""
    num_rows: int
    """Of all."""
    looked_at: str | None
    """What the features are, in words."""
    column_names: tuple[str, ...] | None
    """Of the inputs, where they have names."""
    class_names: tuple[str, ...] | None
    """Of the outputs, where they have names."""


class ModelReader:
    """Asks one model."""

    def __init__(self, model: Any, features: Features) -> None:
        self._given = model
        self.model: ForeignModel = foreign_model(model)
        self._features = features
        self._looked_at: str | None = None
        self._column_names: tuple[str, ...] | None = None
        self._class_names: tuple[str, ...] | None = None
        self._num_outputs: int | None = None

    def answers(self, values: Any, name: str, chosen: RowNumbers | None = None) -> Iterator[Answer]:
        """What the model says, batch by batch.

        Raises:
            InvalidInputError: no rows, outputs that are none, or columns that the model does not know. What else the
                model raises is not held back.
        """
        total = known_num_rows(values) if chosen is None else len(chosen)
        if total == 0:
            raise InvalidInputError(f"{name}: expected at least one row, got none")
        num_seen = 0
        with progress_bar(description="asking the model", total=total, unit="rows") as bar:
            for batch in row_batches(values, self.model.rows_at_once, chosen):
                asked = "the model"
                try:
                    outputs, seen = self.model.ask(batch.inputs)
                    asked = "the function of features"
                    features, self._looked_at = features_seen(self.model, batch.inputs, seen, self._features)
                except InvalidInputError:
                    raise
                except Exception as error:
                    check_known_columns(self._given, batch.inputs, name)
                    error.add_note(f"{name}: so {asked} failed when asked about {_span(batch.rows)}")
                    raise
                self._class_names = self._class_names or named_columns(outputs)
                plain = self._checked(plain_outputs(outputs, len(batch.rows)), name)
                yield Answer(plain, features, self._input_columns(batch.inputs), batch.labels, batch.rows)
                num_seen += len(batch.rows)
                bar.update(len(batch.rows))
        if not num_seen:
            raise InvalidInputError(f"{name}: expected at least one row, got none")

    def read(self, values: Any, name: str, *, with_labels: bool = False) -> SeenRows:
        """Ask about a data set; of more than 20,000 rows, a sample is asked about or kept.

        Labels that come with the data are looked at only where they are wanted.
        """
        known = known_num_rows(values)
        chosen = None if known is None else sampled_rows(known)
        if known is not None and chosen is not None and len(chosen) == known:
            chosen = None
        sample = RowSample()
        for answer in self.answers(values, name, chosen):
            labels = None
            if with_labels and answer.labels is not None:
                given = plain_labels(answer.labels, f"{name}: labels")
                labels = np.empty(len(given), dtype=object)
                labels[:] = given
            sample.add(answer.outputs, answer.features, answer.inputs, labels, answer.rows)
        outputs, features, inputs, labels, rows = sample.columns()
        return SeenRows(
            outputs,
            features,
            inputs,
            rows,
            None if labels is None else labels.tolist(),
            sample.num_rows if known is None else known,
            self._looked_at,
            self._column_names,
            self._class_names,
        )

    def _checked(self, outputs: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        self._num_outputs = self._num_outputs or outputs.shape[1]
        if outputs.shape[1] != self._num_outputs:
            raise InvalidInputError(
                f"{name}: expected the model to give {self._num_outputs} columns, as for rows before, got "
                f"{outputs.shape[1]}"
            )
        return outputs

    def _input_columns(self, inputs: Any) -> NDArray[np.float64] | None:
        # Pixels and embeddings of texts have no columns that could be named.
        if getattr(inputs, "ndim", 2) > 2 or sparse.issparse(inputs):
            return None
        names = getattr(inputs, "select_dtypes", None)
        if names is not None:
            self._column_names = tuple(map(str, names(["number", "bool"]).columns))
        columns = numeric_columns(inputs)
        assert not sparse.issparse(columns)
        return columns


def _span(rows: RowNumbers) -> str:
    return f"row {rows[0]}" if len(rows) == 1 else f"rows {rows[0]} to {rows[-1]}"
