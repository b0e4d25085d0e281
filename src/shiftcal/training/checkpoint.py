"""Checkpoints: plain values and tensors in one file, written whole or not at all, and read only as it was written."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch

from shiftcal.core.errors import CheckpointError, InvalidInputError
from shiftcal.core.seals import opened_sealed, written_sealed

FORMAT_VERSION = 16
# State of training that has ended, in a run that goes on with other things.
WAITING = "waiting"
# In the folder of a run.
CHECKPOINT_FILE = "checkpoint.pt"


def save_checkpoint(content: dict[str, Any], path: Path) -> None:
    """Write a mapping of plain values and tensors."""
    with written_sealed(path) as stream:
        torch.save({"format_version": FORMAT_VERSION, **content}, stream)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read what `save_checkpoint` wrote, on the CPU and without running code from the file.

    Raises:
        CheckpointError: there is none, it is damaged, or it was written by an incompatible version.
    """
    if not path.is_file():
        raise CheckpointError(f"no checkpoint at {str(path)!r}; expected the folder of a run that was started")
    try:
        with opened_sealed(path) as stream:
            content: Any = torch.load(stream, map_location="cpu", weights_only=True)
    except InvalidInputError as error:
        raise CheckpointError(
            f"{str(path)!r} can't be read: {error}. Take a copy of it, use the version that wrote it (see card.json "
            f"beside it; this one reads format {FORMAT_VERSION}), or train again."
        ) from error
    except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError, KeyError, OSError) as error:
        # torch's own words are left out: they advise to load the file in an unsafe way.
        raise CheckpointError(
            f"{str(path)!r} is damaged or not a checkpoint of shiftcal; take a copy of it, or train again"
        ) from error
    if not isinstance(content, dict) or content.get("format_version") != FORMAT_VERSION:
        found = content.get("format_version") if isinstance(content, dict) else None
        raise CheckpointError(
            f"{str(path)!r} has checkpoint format {found!r}, this version of shiftcal reads format {FORMAT_VERSION}; "
            "use the version that wrote it (see card.json beside it), or train again"
        )
    if not content.keys() >= {"model", "training"} or not isinstance(content["model"], dict):
        raise CheckpointError(f"{str(path)!r} is not a checkpoint of shiftcal: it holds no model")
    return content
