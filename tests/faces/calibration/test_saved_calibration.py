"""Saved calibrations that somebody else has made, with a checksum that is right: one clear error, or they work."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from shiftcal import ShiftCalibrator
from shiftcal.core.array_reading import open_own_file, write_own_file
from shiftcal.core.errors import InvalidInputError

pytestmark = pytest.mark.usefixtures("coarse_estimate")
GENERATOR = np.random.default_rng(0)
LABELS = np.arange(60) % 3
ROWS = 3 * np.eye(3, 5)[LABELS] + GENERATOR.normal(size=(60, 5))
MODEL = LogisticRegression().fit(ROWS, LABELS)
# Not every calibration has these; and fewer source rows to compare inputs with are no damage.
MAY_LACK = ("source_inputs", "conformity_expected", "state_")
MAY_BE_CUT = {"source_inputs"}


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("calibration") / "c.npz"
    ShiftCalibrator(MODEL).fit(ROWS, LABELS, ROWS + 1).save(path)
    with open_own_file(path, "calibration") as file:
        return {name: file[name] for name in file.names}


def refused(path: Path, arrays: dict[str, Any], case: object) -> None:
    write_own_file(path, arrays)
    with pytest.raises(InvalidInputError, match=r"c\.npz' is not a calibration file of shiftcal: \w+"):
        pytest.fail(f"{case}: {ShiftCalibrator.load(path, MODEL)}")


def test_arrays_of_other_shapes_kinds_and_values(arrays: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    for name, values in arrays.items():
        if not name.startswith(MAY_LACK):
            refused(path, {key: array for key, array in arrays.items() if key != name}, f"without {name}")
        refused(path, arrays | {name: np.array(["text"])}, f"text as {name}")
        if not name.startswith("state_"):
            refused(path, arrays | {name: values[..., None]}, f"{name} of another dimension")
        if values.ndim and name not in MAY_BE_CUT:
            refused(path, arrays | {name: values[:-1]}, f"{name} cut")
        if values.dtype.kind == "f" and name not in MAY_BE_CUT:
            refused(path, arrays | {name: np.full_like(values, np.nan)}, f"{name} not finite")
    refused(path, arrays | {"source_labels": np.full(60, 3)}, "labels of no class")


def test_other_values_beside_the_arrays(arrays: dict[str, Any], tmp_path: Path) -> None:
    about = json.loads(str(arrays["about"]))
    for name in about:
        for other in ({key: about[key] for key in about if key != name}, about | {name: {"a": [1]}}):
            refused(tmp_path / "c.npz", arrays | {"about": np.array(json.dumps(other))}, f"other {name}")
    refused(tmp_path / "c.npz", arrays | {"about": np.array("[" * 100_000)}, "deep")
    refused(tmp_path / "c.npz", arrays | {"about": np.array("[]")}, "a list")
