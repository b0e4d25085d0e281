"""Data sets that are stored as one `.npz` file."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path

import numpy as np
import torch

from shiftcal.core.array_reading import open_array_file
from shiftcal.core.errors import InvalidInputError
from shiftcal.data.array_files import prefixed_domain
from shiftcal.data.catalog.entries import Selection, Source, parts_of
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.image_files import Domain
from shiftcal.data.inputs import ArrayInputs


class ArraySet(Source):
    """`FILE.npz` with `PREFIX_x` and `PREFIX_y`: PREFIX is the split, or the domain of a set without splits."""

    def __init__(self, file_name: str, *, classes: tuple[Hashable, ...] | None = None) -> None:
        self.file_name = file_name
        self.classes = classes

    def find(self, root: Path, selection: Selection) -> Path | None:  # noqa: ARG002 - one file has all parts
        """See `Source.find`."""
        path = root / self.file_name
        return path if path.is_file() else None

    def expected(self, root: Path, selection: Selection) -> str:
        """See `Source.expected`."""
        prefixes = " and ".join(f"{prefix}_x" for prefix in _prefixes(selection))
        return f"{root / self.file_name} (arrays {prefixes}, ...)"

    def load(self, place: Path, selection: Selection) -> Domain:
        """See `Source.load`."""
        with open_array_file(place) as file:
            parts = [prefixed_domain(file, prefix, selection.title, self.classes) for prefix in _prefixes(selection)]
        return parts[0] if len(parts) == 1 else joined([_labelled(part, place) for part in parts])


def joined(parts: Sequence[LabelledDomain]) -> LabelledDomain:
    """Several domains of equal classes, in memory, as one."""
    values = torch.cat([part.inputs.values for part in parts if isinstance(part.inputs, ArrayInputs)])
    labels = np.concatenate([part.labels for part in parts])
    return LabelledDomain(parts[0].name, ArrayInputs(values), labels, parts[0].classes)


def _prefixes(selection: Selection) -> tuple[str, ...]:
    return parts_of(selection) if selection.split else (selection.domain,)


def _labelled(part: Domain, place: Path) -> LabelledDomain:
    if not isinstance(part, LabelledDomain):
        raise InvalidInputError(f"{str(place)!r}: expected labels for {part.name!r}, got none")
    return part
