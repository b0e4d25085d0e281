"""Names of files and folders that are not UTF-8, as old disks and archives have them."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.specs import load_domain


def test_names_of_any_bytes_can_be_written(tmp_path: Path) -> None:
    for name in (b"caf\xe9", b"dog"):
        folder = os.fsencode(tmp_path) + b"/data/" + name
        os.makedirs(folder)  # noqa: PTH103 - bytes
        Image.new("L", (9, 9)).save(Path(os.fsdecode(folder + b"/\xff.png")))
    domain = load_domain(tmp_path / "data")
    assert isinstance(domain, LabelledDomain)
    assert domain.classes == ("caf\\xe9", "dog")
    assert domain.inputs.identify(0) == "caf\\xe9/\\xff.png"
    assert domain.inputs.fetch(np.array([0, 1])).shape == (2, 1, 32, 32)
    with pytest.raises(InvalidInputError, match=r"can't look for data at .*encode"):
        load_domain(os.fsdecode(os.fsencode(tmp_path) + b"/data/caf\xe9"))
