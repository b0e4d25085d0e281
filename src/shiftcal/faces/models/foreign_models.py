"""Models that are already trained, whatever they are made with: what they say of inputs, and what they see in them.

A model is a fitted classifier with `predict_proba` or `decision_function` (scikit-learn, XGBoost, LightGBM,
CatBoost, skorch), an `nn.Module`, compiled or exported ones too, an ONNX Runtime session, or a function from inputs
to logits or probabilities. It is asked about each batch once; what it sees is caught on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.labels import class_numbers
from shiftcal.data.row_batches import as_frame
from shiftcal.faces.models.outputs import OutputKind

_ROWS_OF_A_MODULE = 256
_ROWS_OF_OTHERS = 32_768
# Where fitted models keep the names of their columns: scikit-learn and XGBoost, LightGBM, CatBoost.
_COLUMN_NAMES = ("feature_names_in_", "feature_name_", "feature_names_")


@dataclass(frozen=True)
class ForeignModel:
    """How a model is asked."""

    ask: Callable[[Any], tuple[Any, Any | None]]
    """From a batch of inputs to outputs as the model gives them, and what it sees in the inputs, if that is known."""
    sees: str | None = None
    """In words, what that is."""
    kind: OutputKind = "auto"
    """What it gives, where its make says so."""
    rows_at_once: int = _ROWS_OF_OTHERS
    sees_first: bool = False
    """Whether structure is looked for in what it sees even where inputs are vectors of numbers."""


def foreign_model(model: Any) -> ForeignModel:
    """How to ask a model.

    Raises:
        InvalidInputError: it is none that is known, or not fitted.
    """
    model = unwrapped(model)
    if isinstance(model, nn.Module):
        return _of_module(model)
    if isinstance(model, BaseEstimator):
        _check_fitted(model)
    if isinstance(model, Pipeline) and len(model) > 1:
        return _of_pipeline(model)
    ask_last, kind = _scoring(model)
    if ask_last is not None:
        return _of_classifier(model, ask_last, kind)
    if hasattr(model, "run") and hasattr(model, "get_inputs"):
        return ForeignModel(lambda inputs: (_onnx_outputs(model, inputs), None))
    if callable(model):
        return ForeignModel(lambda inputs: (model(inputs), None))
    hint = "; give the function that yields probabilities, such as model.predict" if hasattr(model, "predict") else ""
    raise InvalidInputError(
        "model: expected a fitted classifier with predict_proba or decision_function, an nn.Module, an ONNX Runtime "
        f"session or a function that gives logits or probabilities. Got {type(model).__name__} instead{hint}."
    )


def unwrapped(model: Any) -> Any:
    """The model itself, inside of what freezes, searches, compiles or exports it."""
    if isinstance(model, FrozenEstimator):
        return unwrapped(model.estimator)
    if isinstance(getattr(model, "best_estimator_", None), BaseEstimator):
        return unwrapped(model.best_estimator_)
    # Hooks of a compiled module are not called; uncompiled it gives the same.
    if isinstance(getattr(model, "_orig_mod", None), nn.Module):
        return model._orig_mod
    if isinstance(model, torch.export.ExportedProgram):
        return model.module()
    return model


def check_known_columns(model: Any, inputs: Any, name: str) -> None:
    """Name columns that a frame lacks, or has beyond those that the model was fitted with.

    To be asked once the model has failed: some need fewer columns than they know, and some do not mind others.

    Raises:
        InvalidInputError: there are such columns.
    """
    plain = unwrapped(model)
    fitted = next((getattr(plain, each) for each in _COLUMN_NAMES if getattr(plain, each, None) is not None), None)
    frame = as_frame(inputs)
    if fitted is None or not hasattr(frame, "columns"):
        return
    known, given = (list(map(str, names)) for names in (fitted, frame.columns))
    missing = [repr(each) for each in known if each not in given]
    further = [repr(each) for each in given if each not in known]
    if missing:
        raise InvalidInputError(
            f"{name}: columns are missing that the model was fitted with: {', '.join(missing)}. The table has "
            f"{', '.join(map(repr, given))}."
        )
    if further:
        raise InvalidInputError(f"{name}: leave out columns that the model was fitted without: {', '.join(further)}")


def classes_of(model: Any, num_columns: int, labels: Sequence[Any], named: Sequence[str] | None = None) -> np.ndarray:
    """The labels that the columns of a model's outputs stand for.

    Args:
        model: see the module.
        num_columns: of its outputs.
        labels: of source rows.
        named: names of the columns, where the outputs have them.

    Raises:
        InvalidInputError: the labels do not say.
    """
    known = getattr(unwrapped(model), "classes_", None)
    if known is not None and len(known) == num_columns:
        return np.asarray(known)
    _, occurring = class_numbers(labels)
    if named is not None:
        by_name = {str(label): label for label in occurring}
        return label_array([by_name.get(name, name) for name in named])
    if len(occurring) == num_columns:
        return label_array(occurring)
    if all(isinstance(label, int) for label in occurring) and 0 <= min(occurring) <= max(occurring) < num_columns:
        return np.arange(num_columns)
    raise InvalidInputError(
        f"y_source: the model gives {num_columns} columns, and {len(occurring)} different labels do not say which "
        f"column is which; expected column numbers from 0 to {num_columns - 1}, or labels of every class"
    )


def label_array(labels: Sequence[Any]) -> np.ndarray:
    """Labels (C,); of objects where they are of several types."""
    plain = np.empty(len(labels), dtype=object)
    plain[:] = labels
    return np.array(labels) if len({type(label) for label in labels}) == 1 else plain


def _scoring(model: Any) -> tuple[Callable[[Any], Any] | None, OutputKind]:
    if hasattr(model, "predict_proba"):
        return model.predict_proba, "probabilities"
    if hasattr(model, "decision_function"):
        return model.decision_function, "logits"
    return None, "auto"


def _of_pipeline(pipeline: Pipeline) -> ForeignModel:
    ask_last, kind = _scoring(pipeline[-1])
    if ask_last is None:
        raise InvalidInputError(
            "model: expected a pipeline whose last step has predict_proba or decision_function, got "
            f"{type(pipeline[-1]).__name__}"
        )

    def ask(inputs: Any) -> tuple[Any, Any]:
        seen = pipeline[:-1].transform(as_frame(inputs))
        return ask_last(seen), seen

    return ForeignModel(ask, "what the last step of the pipeline sees", kind, sees_first=True)


def _of_classifier(model: Any, ask_last: Callable[[Any], Any], kind: OutputKind) -> ForeignModel:
    inner = getattr(model, "module_", None)  # of skorch
    layer = _last_linear(inner) if isinstance(inner, nn.Module) else None
    if layer is not None:

        def ask(inputs: Any) -> tuple[Any, Any]:
            with _caught(layer) as seen:
                return ask_last(inputs), torch.cat(seen)

        return ForeignModel(ask, "what the last linear layer of the module sees", kind)
    if callable(getattr(model, "features", None)):
        return ForeignModel(lambda inputs: (ask_last(inputs), model.features(inputs)), "the model's features", kind)
    return ForeignModel(lambda inputs: (ask_last(as_frame(inputs)), None), None, kind)


def _of_module(module: nn.Module) -> ForeignModel:
    layer = _last_linear(module)
    if layer is None:
        return ForeignModel(lambda inputs: (_module_outputs(module, inputs), None), rows_at_once=_ROWS_OF_A_MODULE)

    def ask(inputs: Any) -> tuple[Any, Any]:
        with _caught(layer) as seen:
            return _module_outputs(module, inputs), torch.cat(seen) if seen else None

    return ForeignModel(ask, "what the last linear layer of the module sees", rows_at_once=_ROWS_OF_A_MODULE)


def _last_linear(module: nn.Module) -> nn.Linear | None:
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    return layers[-1] if layers else None


@contextmanager
def _caught(layer: nn.Module) -> Iterator[list[Tensor]]:
    """What a layer is given while the block runs."""
    seen: list[Tensor] = []
    handle = layer.register_forward_hook(lambda _, given, __: seen.append(given[0].detach().flatten(1).cpu()))
    try:
        yield seen
    finally:
        handle.remove()


def _module_outputs(module: nn.Module, inputs: Any) -> Any:
    """In evaluation mode and without gradients; the module is left as it was."""
    with _evaluation_mode(module), torch.no_grad():
        if isinstance(inputs, Mapping):
            return module(**{name: _as_tensor(values, module) for name, values in inputs.items()})
        return module(_as_tensor(inputs, module))


def _as_tensor(values: Any, module: nn.Module) -> Tensor:
    try:
        plain = values.to_numpy() if hasattr(values, "to_numpy") else values
        # Of a memory map torch would warn that its memory can't be written.
        is_locked = isinstance(plain, np.ndarray) and not plain.flags.writeable
        tensor = torch.as_tensor(plain.copy() if is_locked else plain)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInputError(
            f"inputs: expected what makes a tensor for the module, got {type(values).__name__}: {error}"
        ) from error
    parameter = next(module.parameters(), None)
    if parameter is None:
        return tensor
    return tensor.to(parameter.device, parameter.dtype if tensor.is_floating_point() else tensor.dtype)


@contextmanager
def _evaluation_mode(module: nn.Module) -> Iterator[None]:
    training = [part for part in module.modules() if part.training]
    if isinstance(module, torch.fx.GraphModule):  # an exported one has its mode fixed
        training = []
    else:
        module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _onnx_outputs(session: Any, inputs: Any) -> Any:
    """Probabilities or logits of an ONNX Runtime session: of its outputs, the last that is a table of numbers."""
    names = [entry.name for entry in session.get_inputs()]
    given = inputs if isinstance(inputs, Mapping) else {names[0]: inputs}
    feed = {name: np.asarray(given[name]) for name in names}
    feed = {
        name: values.astype(np.float32) if values.dtype == np.float64 else values for name, values in feed.items()
    }
    outputs = session.run(None, feed)
    for found in reversed(outputs):
        if isinstance(found, list) and found and isinstance(found[0], Mapping):  # class: probability, of skl2onnx
            return np.array([[row[name] for name in sorted(found[0])] for row in found])
        if isinstance(found, np.ndarray) and found.dtype.kind == "f":
            return found
    raise InvalidInputError(
        f"model: expected an ONNX session with a table of scores among its {len(outputs)} outputs"
    )


def _check_fitted(model: BaseEstimator) -> None:
    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise InvalidInputError(
            f"model: {error} `clone` and cross-validation make an unfitted copy of a model; "
            "sklearn.frozen.FrozenEstimator(model) keeps it as it is: ShiftCalibrator(FrozenEstimator(model))"
        ) from error
