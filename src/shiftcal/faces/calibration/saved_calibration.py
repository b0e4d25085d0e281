"""A fitted calibration as one file of plain arrays (npz): nothing in it can run when it is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shiftcal.calibrators.target_scaling import TargetScaling
from shiftcal.core import options
from shiftcal.core.array_reading import ArrayFile, open_own_file, write_own_file
from shiftcal.core.errors import InvalidInputError
from shiftcal.faces.calibration.fitted_calibration import Calibrated, FittedCalibration
from shiftcal.methods.base import Outputs
from shiftcal.target.feature_map import FeatureMap
from shiftcal.target.findings import TargetFindings
from shiftcal.target.input_checks import InputReference
from shiftcal.target.prediction_sets import STEPS, Conformity

_FORMAT = 1
_MAP_ARRAYS = ("medians", "kept", "components")
_STATE = "state_"


def save_calibration(fitted: FittedCalibration, path: Path) -> None:
    """Write it to a file that `load_calibration` reads.

    Raises:
        InvalidInputError: classes that JSON can't hold.
        OutputError: the file can't be written.
    """
    strange = [label for label in fitted.classes if not isinstance(label, (str, int, float, bool))]
    if strange:
        raise InvalidInputError(
            f"a calibration with class labels such as {strange[0]!r} can't be saved; expected text or numbers"
        )
    inputs, features = fitted.source_inputs, fitted.feature_map
    about = {
        "format": _FORMAT,
        "classes": list(fitted.classes),
        "kind": fitted.kind,
        "num_target_rows": fitted.num_target_rows,
        "scaling": options.as_dict(fitted.scaling),
        "findings": TargetFindings(fitted.diagnosis).as_plain(),
        "column_names": None if inputs is None else inputs.names,
        "features": None if features is None else {"num_columns": features.num_columns, "scale": features.scale},
    }
    arrays: dict[str, NDArray[Any] | None] = {
        "about": np.array(json.dumps(about)),
        "source_logits": fitted.source.logits.numpy(),
        "source_features": fitted.source.features.numpy(),
        "source_labels": fitted.source_labels.numpy(),
        "source_inputs": None if inputs is None else inputs.values,
        "conformity_scores": fitted.conformity.scores.numpy(),
        "conformity_weights": fitted.conformity.weights.numpy(),
        "conformity_expected": None if fitted.conformity.expected is None else fitted.conformity.expected.numpy(),
        "shown_given": fitted.shown_given,
        "shown_probabilities": fitted.shown.probabilities,
        "shown_density_ratio": fitted.shown.density_ratio,
        **{name: None if features is None else getattr(features, name) for name in _MAP_ARRAYS},
        **{f"{_STATE}{name}": value.numpy() for name, value in fitted.state.items()},
    }
    write_own_file(path, {name: values for name, values in arrays.items() if values is not None})


def load_calibration(path: Path) -> FittedCalibration:
    """Read what `save_calibration` wrote.

    Raises:
        DataUnavailableError: there is no such file.
        InvalidInputError: it is damaged, of another version or something else.
    """
    with open_own_file(path, "calibration") as file:
        about = file.read_json("about")
        if about["format"] != _FORMAT:
            raise InvalidInputError(f"it has format {about['format']!r}, this version reads {_FORMAT}")
        fitted = _fitted(about, file)
        # Values that do not go together are found by asking for what they are there for.
        known = fitted.scaling.calibrate(fitted.source, fitted.state)
        if known.shape != fitted.source.logits.shape or not torch.isfinite(known).all():
            raise InvalidInputError("expected finite logits of its own source rows")
        fitted.target_estimate()
        fitted.verdict()
        return fitted


def _fitted(about: dict[str, Any], file: ArrayFile) -> FittedCalibration:
    diagnosis = TargetFindings.from_plain(about["findings"]).diagnosis
    if diagnosis is None or about["kind"] not in ("logits", "probabilities"):
        raise InvalidInputError(f"expected an estimate, and logits or probabilities, got {about['kind']!r}")
    classes = tuple(about["classes"])
    logits = _finite(file, "source_logits", None, len(classes))
    num_rows = len(logits)
    labels = file.read("source_labels", "i", num_rows)
    if not ((labels >= 0) & (labels < len(classes))).all():
        raise InvalidInputError(f"expected labels from 0 to {len(classes) - 1}, got others")
    shown = _finite(file, "shown_probabilities", None, len(classes))
    return FittedCalibration(
        classes=classes,
        kind=about["kind"],
        feature_map=None if about["features"] is None else _feature_map(about["features"], file),
        scaling=options.build(TargetScaling, about["scaling"], owner="a saved calibration"),
        state={
            name.removeprefix(_STATE): torch.from_numpy(file[name]) for name in file.names if name.startswith(_STATE)
        },
        source=Outputs(
            torch.from_numpy(logits),
            torch.ones(num_rows, dtype=torch.float64),
            torch.from_numpy(_finite(file, "source_features", num_rows, None)),
        ),
        source_labels=torch.from_numpy(labels),
        source_inputs=_inputs(about["column_names"], file) if "source_inputs" in file else None,
        conformity=Conformity(
            torch.from_numpy(_finite(file, "conformity_scores", num_rows)),
            torch.from_numpy(_finite(file, "conformity_weights", num_rows)),
            torch.from_numpy(_finite(file, "conformity_expected", STEPS + 1))
            if "conformity_expected" in file
            else None,
        ),
        diagnosis=diagnosis,
        shown_given=_finite(file, "shown_given", len(shown), len(classes)),
        shown=Calibrated(shown, _finite(file, "shown_density_ratio", len(shown))),
        num_target_rows=int(about["num_target_rows"]),
    )


def _finite(file: ArrayFile, name: str, *shape: int | None) -> NDArray[np.float64]:
    values = file.read(name, "f", *shape)
    if not np.isfinite(values).all():
        raise InvalidInputError(f"expected finite numbers in {name!r}")
    return values


def _inputs(names: Sequence[str] | None, file: ArrayFile) -> InputReference:
    values = file.read("source_inputs", "f", None, None if names is None else len(names))
    return InputReference(values, None if names is None else tuple(names))


def _feature_map(about: dict[str, Any], file: ArrayFile) -> FeatureMap:
    num_columns, scale = int(about["num_columns"]), float(about["scale"])
    if "kept" not in file:
        return FeatureMap(num_columns, scale, medians=_finite(file, "medians", num_columns))
    kept = file.read("kept", "i", None)
    if not ((kept >= 0) & (kept < num_columns)).all():
        raise InvalidInputError(f"expected columns from 0 to {num_columns - 1}, got others")
    return FeatureMap(num_columns, scale, kept=kept, components=_finite(file, "components", None, len(kept)))
