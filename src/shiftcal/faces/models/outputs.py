"""What models of any make give, as logits: arrays, tensors, single scores, mappings, label and score pairs.

What a model gives, logits or probabilities, is found out once, on all rows of `fit`, and stays: a row alone is
understood as the same row in a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.row_batches import RowNumbers

OutputKind = Literal["auto", "logits", "probabilities"]
FixedKind = Literal["logits", "probabilities"]

# Probabilities of zero, as trees give them, have no logarithm: they count as this.
LEAST_PROBABILITY = 1e-6
# Names under which mappings and model outputs hold what is wanted.
_OUTPUT_NAMES = ("logits", "probabilities", "probability", "probs", "scores")
_LARGEST_ROUNDING = 0.05


def plain_outputs(outputs: Any, num_rows: int) -> NDArray[np.float64]:
    """Outputs (N, C) of a batch as they were given; a single score of two classes is (N, 1).

    Raises:
        InvalidInputError: they are no such numbers.
    """
    values = _numbers(_unpacked(outputs))
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] == 0 or len(values) != num_rows:
        raise InvalidInputError(
            f"model: expected outputs of shape ({num_rows}, classes), or ({num_rows},) for the score of the second "
            f"of two classes, got {values.shape}"
        )
    return values


def named_columns(outputs: Any) -> tuple[str, ...] | None:
    """The classes of columns, where outputs name them: [{"label": "a", "score": 0.9}, ...] for each row."""
    return tuple(sorted(str(pair["label"]) for pair in outputs[0])) if _are_label_scores(outputs) else None


def _unpacked(outputs: Any) -> Any:
    if isinstance(outputs, Mapping) or hasattr(outputs, "logits"):
        known = outputs if isinstance(outputs, Mapping) else vars(outputs)
        for name in _OUTPUT_NAMES:
            if known.get(name) is not None:
                return known[name]
        raise InvalidInputError(
            f"model: expected outputs with one of {', '.join(_OUTPUT_NAMES)}, got {sorted(map(str, known))}; wrap "
            "the model in a function that picks them"
        )
    if _are_label_scores(outputs):
        rows = [{str(pair["label"]): pair["score"] for pair in row} for row in outputs]
        names = sorted(rows[0])
        if any(sorted(row) != names for row in rows):
            raise InvalidInputError(
                "model: expected the score of every class for each row, got others for some rows; with a pipeline of "
                "transformers give lambda texts: pipeline(texts, top_k=None)"
            )
        return [[row[name] for name in names] for row in rows]
    if isinstance(outputs, tuple):
        raise InvalidInputError(
            "model: expected a tensor or array of logits or probabilities, got tuple; wrap the model in a function "
            "that picks them"
        )
    return outputs


def _are_label_scores(outputs: Any) -> bool:
    return (
        isinstance(outputs, list)
        and bool(outputs)
        and isinstance(outputs[0], list)
        and all(isinstance(pair, Mapping) and {"label", "score"} <= set(pair) for pair in outputs[0])
    )


def _numbers(outputs: Any) -> NDArray[np.float64]:
    if isinstance(outputs, Tensor):
        return np.asarray(outputs.detach().cpu().double().numpy())
    try:
        values = np.asarray(outputs)
        if values.dtype.kind not in "fiubO":
            raise TypeError(f"values of {values.dtype}")
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"model: expected a tensor or array of logits or probabilities, got {type(outputs).__name__}: {error}"
        ) from error


def kind_of_outputs(outputs: NDArray[np.float64], given: OutputKind) -> FixedKind:
    """What outputs (N, C) are, by all rows that there are.

    Raises:
        InvalidInputError: they could be either.
    """
    if given != "auto":
        return given
    in_unit = bool(((outputs >= 0) & (outputs <= 1)).all())
    if outputs.shape[1] == 1:
        if in_unit and len(outputs) > 1 and np.isin(outputs, (0, 1)).all():
            raise InvalidInputError(
                "model: expected scores, got zeros and ones alone, which look like predicted labels; give "
                "probabilities, or say outputs='probabilities'"
            )
        return "probabilities" if in_unit else "logits"
    if in_unit and not _sums_to_one(outputs).all():
        raise InvalidInputError(
            "model: outputs lie between 0 and 1 and do not sum to 1 in each row: probabilities of labels that do not "
            "exclude each other, or logits? Say outputs='logits', or divide each row by its sum"
        )
    return "probabilities" if in_unit else "logits"


def as_logits(outputs: NDArray[np.float64], kind: FixedKind, rows: RowNumbers) -> Tensor:
    """Logits (N, C) in float64, with two columns for a single score.

    Probabilities that were rounded to a few digits are divided by their sum.

    Args:
        outputs: (N, C) or (N, 1).
        kind: as `kind_of_outputs` found it.
        rows: their numbers in the data, for messages.

    Raises:
        InvalidInputError: outputs that are not finite, or no probabilities.
    """
    wrong = ~np.isfinite(outputs).all(axis=1)
    if wrong.any():
        raise InvalidInputError(f"model: expected finite outputs, got NaN or infinity in {_named(rows[wrong])}")
    if kind == "logits":
        return torch.from_numpy(np.hstack([0 * outputs, outputs]) if outputs.shape[1] == 1 else outputs)
    values = np.hstack([1 - outputs, outputs]) if outputs.shape[1] == 1 else outputs
    wrong = ~((values >= 0).all(axis=1) & _sums_to_one(values))
    if wrong.any():
        raise InvalidInputError(
            "model: expected probabilities, rows of numbers in [0, 1] that sum to 1, as in most rows; got "
            f"{values[wrong][0]} in {_named(rows[wrong])}"
        )
    values = values / values.sum(axis=1, keepdims=True)
    return torch.from_numpy(np.log(values.clip(LEAST_PROBABILITY)))


def _sums_to_one(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Up to a rounding to two digits."""
    rounding = min(1e-3 + 0.005 * values.shape[1], _LARGEST_ROUNDING)
    return np.asarray(np.abs(values.sum(axis=1) - 1) <= rounding)


def _named(rows: RowNumbers) -> str:
    some = ", ".join(str(row) for row in rows[:5])
    return f"row {some}" if len(rows) == 1 else f"{len(rows)} rows: {some}{', ...' if len(rows) > 5 else ''}"
