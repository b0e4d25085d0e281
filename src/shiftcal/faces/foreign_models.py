"""Models that are already trained, whatever they are made with: what they say of inputs, and what they see in them.

A model is a fitted scikit-learn classifier, an `nn.Module`, or a function from inputs to logits or probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import torch
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from shiftcal.core.errors import InvalidInputError
from shiftcal.core.progress import progress_bar

OutputKind = Literal["auto", "logits", "probabilities"]
Features = Literal["auto", "input", "model", "none"] | Callable[[Any], Any]

# Probabilities of zero, as trees give them, have no logarithm: they count as this.
LEAST_PROBABILITY = 1e-6
_ROWS_AT_ONCE = 256


def logits_of(model: Any, inputs: Any, kind: OutputKind = "auto") -> Tensor:
    """What a model says of inputs, as logits (N, C) in float64.

    Args:
        model: see the module.
        inputs: whatever the model takes.
        kind: what a module or function gives; "auto" takes rows of numbers in [0, 1] that sum to 1 as probabilities.

    Raises:
        InvalidInputError: the model is none of these, is not fitted, or gives something else.
    """
    if isinstance(model, nn.Module):
        return _as_logits(_module_outputs(model, inputs), kind, len(inputs))
    if isinstance(model, BaseEstimator):
        _check_fitted(model)
    if hasattr(model, "predict_proba"):
        return _as_logits(model.predict_proba(inputs), "probabilities", _num_rows(inputs))
    if hasattr(model, "decision_function"):
        scores = np.asarray(model.decision_function(inputs), dtype=np.float64)
        # Of two classes scikit-learn gives one score, for the second.
        return _as_logits(np.stack([0 * scores, scores], axis=1) if scores.ndim == 1 else scores, "logits", None)
    if callable(model):
        return _as_logits(model(inputs), kind, _num_rows(inputs))
    raise InvalidInputError(
        "model: expected a fitted scikit-learn classifier with predict_proba or decision_function, an nn.Module or a "
        f"function that gives logits or probabilities. Got {type(model).__name__} instead."
    )


def classes_of(model: Any, num_columns: int, labels: Sequence[Any]) -> np.ndarray:
    """The labels that the columns of a model's outputs stand for.

    Raises:
        InvalidInputError: the labels do not say.
    """
    known = getattr(model, "classes_", None)
    if known is not None:
        return np.asarray(known)
    occurring = np.unique(np.asarray(labels))
    if len(occurring) == num_columns:
        return occurring
    if np.issubdtype(occurring.dtype, np.integer) and occurring.min() >= 0 and occurring.max() < num_columns:
        return np.arange(num_columns)
    raise InvalidInputError(
        f"y_source: the model gives {num_columns} columns, and {len(occurring)} different labels do not say which "
        f"column is which; expected column numbers from 0 to {num_columns - 1}, or labels of every class"
    )


def features_of(model: Any, inputs: Any, features: Features = "auto") -> np.ndarray | sparse.spmatrix | None:
    """Features (N, F) in which to look for the structure of the data; None if there are none to be had.

    Args:
        model: see the module.
        inputs: whatever the model takes.
        features: a function from inputs to features; "input" for the inputs themselves; "model" for what the model
            sees (the inputs of a module's last linear layer, of a pipeline's last step, the `features` of an
            `AdaptiveClassifier`); "none"; "auto": the inputs if they are vectors of numbers, else the model's.

    Raises:
        InvalidInputError: there are no such features.
    """
    if callable(features):
        return _as_table(features(inputs), "features: the function's result")
    if features == "none":
        return None
    is_vector = _is_numeric(inputs) and inputs.ndim == 2
    if features == "input" or (features == "auto" and is_vector):
        if not _is_numeric(inputs):
            raise InvalidInputError(
                f"features='input' needs arrays of numbers, got {type(inputs).__name__}; give a function instead"
            )
        return _as_table(inputs, "inputs")
    found = _features_of_model(model, inputs)
    if found is None and features == "model":
        raise InvalidInputError(
            "features='model': expected an nn.Module with a linear layer, a scikit-learn Pipeline or an "
            f"AdaptiveClassifier, got {type(model).__name__}; give a function from inputs to features"
        )
    if found is None and _is_numeric(inputs):
        return _as_table(inputs, "inputs")
    return found


def _features_of_model(model: Any, inputs: Any) -> np.ndarray | sparse.spmatrix | None:
    if isinstance(model, nn.Module):
        layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
        if not layers:
            return None
        seen: list[Tensor] = []
        handle = layers[-1].register_forward_hook(lambda _, given, __: seen.append(given[0].flatten(1).cpu()))
        try:
            _module_outputs(model, inputs)
        finally:
            handle.remove()
        return torch.cat(seen).double().numpy()
    if isinstance(model, Pipeline) and len(model) > 1:
        return _as_table(model[:-1].transform(inputs), "features of the pipeline")
    if hasattr(model, "features") and callable(model.features):
        return _as_table(model.features(inputs), "features of the model")
    return None


def _module_outputs(module: nn.Module, inputs: Any) -> Tensor:
    """Outputs in batches, in evaluation mode and without gradients; the module is left as it was."""
    values = torch.as_tensor(inputs)
    parameter = next(module.parameters(), None)
    parts = []
    with _evaluation_mode(module), torch.no_grad(), progress_bar(description="predicting", total=len(values)) as bar:
        for start in range(0, len(values), _ROWS_AT_ONCE):
            batch = values[start : start + _ROWS_AT_ONCE]
            if parameter is not None:
                is_real = batch.is_floating_point()
                batch = batch.to(parameter.device, parameter.dtype if is_real else batch.dtype)
            outputs = module(batch)
            if not isinstance(outputs, Tensor):
                raise InvalidInputError(
                    f"model: expected the module to give a tensor of logits, got {type(outputs).__name__}; "
                    "wrap it in a function that picks the logits"
                )
            parts.append(outputs.cpu())
            bar.update(len(batch))
    return torch.cat(parts)


@contextmanager
def _evaluation_mode(module: nn.Module) -> Iterator[None]:
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _as_logits(outputs: Any, kind: OutputKind, num_rows: int | None) -> Tensor:
    values = outputs.detach().cpu() if isinstance(outputs, Tensor) else torch.as_tensor(np.asarray(outputs))
    values = values.double()
    if values.ndim != 2 or values.shape[1] < 2 or (num_rows is not None and len(values) != num_rows):
        raise InvalidInputError(
            f"model: expected outputs of shape ({'rows' if num_rows is None else num_rows}, classes) with at least "
            f"two classes, got {tuple(values.shape)}"
        )
    if not bool(torch.isfinite(values).all()):
        raise InvalidInputError("model: expected finite outputs, got NaN or infinity")
    sums_to_one = bool((values >= 0).all()) and bool(((values.sum(dim=1) - 1).abs() < 1e-3).all())
    if kind == "probabilities" and not sums_to_one:
        raise InvalidInputError("model: expected probabilities, rows of numbers in [0, 1] that sum to 1")
    if kind == "probabilities" or (kind == "auto" and sums_to_one):
        return values.clamp_min(LEAST_PROBABILITY).log()
    return values


def _as_table(values: Any, what: str) -> np.ndarray | sparse.spmatrix:
    if sparse.issparse(values):
        return values.tocsr()
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.ndim < 2 or not np.issubdtype(array.dtype, np.number):
        raise InvalidInputError(f"{what}: expected numbers of shape (rows, ...), got {array.dtype} of {array.shape}")
    return array.reshape(len(array), -1).astype(np.float64)


def _is_numeric(inputs: Any) -> bool:
    if sparse.issparse(inputs) or isinstance(inputs, Tensor):
        return True
    if hasattr(inputs, "dtypes"):  # a frame: one type per column
        return all(isinstance(kind, np.dtype) and np.issubdtype(kind, np.number) for kind in inputs.dtypes)
    return isinstance(inputs, np.ndarray) and bool(np.issubdtype(inputs.dtype, np.number))


def _num_rows(inputs: Any) -> int:
    return int(inputs.shape[0]) if hasattr(inputs, "shape") else len(inputs)


def _check_fitted(model: BaseEstimator) -> None:
    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise InvalidInputError(f"model: {error}") from error
