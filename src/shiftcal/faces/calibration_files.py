"""A fitted calibration as one file of plain arrays (npz): nothing in it can run when it is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shiftcal.calibrators.target_scaling import TargetScaling
from shiftcal.core import options
from shiftcal.core.errors import DataUnavailableError, InvalidInputError
from shiftcal.core.files import DAMAGED_ARCHIVE, written_whole
from shiftcal.faces.fitted_calibration import Calibrated, FittedCalibration
from shiftcal.methods.base import Outputs
from shiftcal.target.diagnosis import TargetFindings
from shiftcal.target.feature_map import FeatureMap
from shiftcal.target.input_checks import InputReference
from shiftcal.target.prediction_sets import Conformity

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
    present = {name: values for name, values in arrays.items() if values is not None}
    with written_whole(path) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **present)


def load_calibration(path: Path) -> FittedCalibration:
    """Read what `save_calibration` wrote.

    Raises:
        DataUnavailableError: there is no such file.
        InvalidInputError: it is damaged, of another version or something else.
    """
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        about = json.loads(str(arrays["about"]))
        if about["format"] != _FORMAT:
            raise InvalidInputError(f"{str(path)!r} has format {about['format']}, this version reads {_FORMAT}")
        return _fitted(about, arrays)
    except FileNotFoundError:
        raise DataUnavailableError(f"no calibration at {str(path)!r}; expected a file that `save` wrote") from None
    except InvalidInputError:
        raise
    except DAMAGED_ARCHIVE as error:
        raise InvalidInputError(f"{str(path)!r} is not a calibration of shiftcal: {error}") from error


def _fitted(about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> FittedCalibration:
    diagnosis = TargetFindings.from_plain(about["findings"]).diagnosis
    assert diagnosis is not None
    names, features = about["column_names"], about["features"]
    inputs = None
    if "source_inputs" in arrays:
        inputs = InputReference(arrays["source_inputs"], None if names is None else tuple(names))
    logits = torch.from_numpy(arrays["source_logits"])
    expected = arrays.get("conformity_expected")
    return FittedCalibration(
        classes=tuple(about["classes"]),
        kind=about["kind"],
        feature_map=None if features is None else _feature_map(features, arrays),
        scaling=options.build(TargetScaling, about["scaling"], owner="a saved calibration"),
        state={
            name.removeprefix(_STATE): torch.from_numpy(values)
            for name, values in arrays.items()
            if name.startswith(_STATE)
        },
        source=Outputs(
            logits, torch.ones(len(logits), dtype=torch.float64), torch.from_numpy(arrays["source_features"])
        ),
        source_labels=torch.from_numpy(arrays["source_labels"]),
        source_inputs=inputs,
        conformity=Conformity(
            torch.from_numpy(arrays["conformity_scores"]),
            torch.from_numpy(arrays["conformity_weights"]),
            None if expected is None else torch.from_numpy(expected),
        ),
        diagnosis=diagnosis,
        shown_given=arrays["shown_given"],
        shown=Calibrated(arrays["shown_probabilities"], arrays["shown_density_ratio"]),
        num_target_rows=about["num_target_rows"],
    )


def _feature_map(about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> FeatureMap:
    medians, kept, components = (arrays.get(name) for name in _MAP_ARRAYS)
    return FeatureMap(about["num_columns"], about["scale"], medians, kept, components)
