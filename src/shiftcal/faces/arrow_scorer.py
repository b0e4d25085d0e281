"""Batches of an Arrow table scored by a saved run where the table lives: Spark, Ray Data, Dask, anything with Arrow.

spark_frame.mapInArrow(scorer.each, schema)                              # Spark
ray.data.read_parquet(path).map_batches(scorer, batch_format="pyarrow")  # Ray Data
dask_frame.map_partitions(scorer)                                        # Dask
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.domains import UnlabelledDomain
from shiftcal.data.frames import as_frame, import_pyarrow
from shiftcal.data.inputs import ArrayInputs, Inputs
from shiftcal.data.sparse_encoder import SparseEncoder
from shiftcal.data.table_encoder import TableEncoder, TableInputs
from shiftcal.runs.evaluation import predict_domain
from shiftcal.runs.folder import RunFolder
from shiftcal.runs.prediction_tables import prediction_columns
from shiftcal.runs.predictions import Predictions
from shiftcal.training.fitted_model import FittedModel
from shiftcal.training.saved_model import load_model


def arrow_scorer(run: str | Path, *, features: str = "features") -> ArrowScorer:
    """What scores batches by the run in a folder, which all machines that score must see.

    Args:
        run: folder of a finished run.
        features: of a model of features that are no columns of a table, the column of lists that holds them.

    Raises:
        CheckpointError: there is no finished run.
        InvalidInputError: the model takes images or sparse rows.
    """
    scorer = ArrowScorer(Path(run).absolute(), features)
    kind = "images" if len(scorer.model.input_shape) != 1 else "sparse rows"
    if kind == "images" or isinstance(scorer.model.encoder, SparseEncoder):
        raise InvalidInputError(
            f"{str(run)!r}: expected a model of a table or of features, got one of {kind}, which `shiftcal predict` "
            "and AdaptiveClassifier.load score"
        )
    return scorer


@dataclass(frozen=True)
class ArrowScorer:
    """Gives each batch back with the columns predicted_class, confidence, probability_<class> and density_ratio.

    A column of the batch that has such a name stays, and ours gets `shiftcal_` before it. The scorer is pickled as a
    path; a process that scores reads the model once.
    """

    run: Path
    features: str = "features"

    @property
    def model(self) -> FittedModel:
        """The model of the run."""
        return _model(self.run)

    def __call__(self, batch: Any) -> Any:
        """Score a pyarrow record batch, a pyarrow table or a pandas frame; the same kind comes back.

        Raises:
            InvalidInputError: it lacks columns that the model needs, or they hold something else.
        """
        pyarrow = import_pyarrow()
        if not isinstance(batch, (pyarrow.RecordBatch, pyarrow.Table)):
            if not hasattr(batch, "assign"):
                raise InvalidInputError(
                    f"expected a pyarrow record batch or table, or a pandas frame, got {type(batch).__name__}"
                )
            return batch.assign(**self._new_columns(batch, list(batch.columns)))
        rows = pyarrow.Table.from_batches([batch]) if isinstance(batch, pyarrow.RecordBatch) else batch
        new = {name: pyarrow.array(values) for name, values in self._new_columns(rows, batch.schema.names).items()}
        fields = [*batch.schema, *(pyarrow.field(name, values.type) for name, values in new.items())]
        schema = pyarrow.schema(fields, batch.schema.metadata)
        return type(batch).from_arrays([*batch.columns, *new.values()], schema=schema)

    def each(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Score one batch after the other, as Spark's `mapInArrow` asks for."""
        return map(self, batches)

    def schema(self, given: Any) -> Any:
        """The pyarrow schema of what comes back for batches of a given one."""
        empty = import_pyarrow().Table.from_batches([], schema=given)
        return self(empty).schema

    def _new_columns(self, rows: Any, taken: list[str]) -> dict[str, Any]:
        model = self.model
        if len(rows) == 0:  # Spark has such batches
            nothing = np.zeros((0, len(model.classes)))
            said = Predictions(np.array([], dtype=str), nothing, nothing.sum(axis=1), model.classes)
        else:
            said = predict_domain(model, UnlabelledDomain("batch", self._inputs(rows, model)))
        own = {name: values for name, values in prediction_columns(said) if name != "id"}
        return {f"shiftcal_{name}" if name in taken else name: values for name, values in own.items()}

    def _inputs(self, rows: Any, model: FittedModel) -> Inputs:
        frame, (width,) = as_frame(rows, "batch"), model.input_shape
        if isinstance(model.encoder, TableEncoder):
            # What else such a table has, keys and dates of loading, need not be said of every batch.
            return TableInputs(frame[[name for name in model.encoder.names if name in frame]], model.encoder, "batch")
        if self.features not in frame:
            raise InvalidInputError(
                f"expected a column {self.features!r} with lists of {width} numbers, got {list(frame.columns)}; name "
                "it by arrow_scorer(run, features=...)"
            )
        try:
            values = np.array(frame[self.features].tolist(), dtype=np.float32)
        except (ValueError, TypeError):
            values = np.zeros(0, dtype=np.float32)
        if values.shape != (len(frame), width) or not np.isfinite(values).all():
            raise InvalidInputError(
                f"column {self.features!r}: expected lists of {width} finite numbers in every row"
            )
        return ArrayInputs(torch.from_numpy(values))


@lru_cache(maxsize=4)
def _model(run: Path) -> FittedModel:
    return load_model(RunFolder(run).checkpoint)
