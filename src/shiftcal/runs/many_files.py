"""A result file for each of many input files, by an engine; what is done is on record and is not done again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from shiftcal.core.errors import DataUnavailableError, InvalidInputError, OutputError
from shiftcal.core.files import (
    as_output_error,
    check_not_an_input,
    check_writable_folder,
    is_temporary,
    written_whole,
)
from shiftcal.core.folder_lock import LOCK_FILE, folder_lock
from shiftcal.core.progress import progress_bar
from shiftcal.runs.engines import Engine

RECORD = "files.jsonl"
_COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")

Work = Callable[[Path, Path], int]
"""Makes a result file, whole or not at all, from an input file, and gives its number of rows."""


@dataclass(frozen=True)
class DoneFile:
    """A line of the record."""

    data: str
    """The input file."""
    result: str
    """Name of the result file."""
    num_rows: int
    content: str
    """Checksum of the input file."""
    made_by: str
    """Of the model and options that the result was made by."""


def for_each_file(
    work: Work, files: Sequence[Path], out: Path, *, suffix: str, made_by: str, engine: Engine
) -> list[DoneFile]:
    """Make the result of each file that is not there yet, or was made of other content or in another way.

    Args:
        work: what is done with a file; of a module, or a `partial` of one.
        files: the input files.
        out: folder of the results, `<name of the input><suffix>`, and of the record of what was made of what.
        suffix: of the results, such as `.csv`.
        made_by: a checksum of all that decides about a result beside the content of its file.
        engine: what does it, one file after the other or several at a time.

    Raises:
        DataUnavailableError: a file is not there.
        InvalidInputError: two files would have results of one name.
        OutputError: the folder holds other files, is in use or can't be written.
    """
    absent = [path for path in files if not path.is_file()]
    if absent:
        raise DataUnavailableError(f"no file at {str(absent[0])!r} ({len(absent)} of {len(files)} are not there)")
    results: dict[str, Path] = {}
    for path in files:
        name = _plain_name(path) + suffix
        if name in results:
            raise InvalidInputError(
                f"{str(results[name])!r} and {str(path)!r} would both have the result {name!r}: rename one of them, "
                "or give them in two commands with an --out each"
            )
        check_not_an_input(out / name, [path])
        results[name] = path
    check_writable_folder(out)
    _check_folder(out)
    with folder_lock(out):
        known = _read_record(out / RECORD)
        _write_record(out / RECORD, known)  # without what a killed process may have left of a line
        done = partial(_done, work, out=out, made_by=made_by)
        parts = [(path, name, known.get(name)) for name, path in results.items()]
        found = []
        with as_output_error(out), (out / RECORD).open("a", encoding="utf-8") as stream:
            for each in progress_bar(engine.results(done, parts), "files", total=len(parts), unit="file"):
                if each != known.get(each.result):
                    stream.write(json.dumps(asdict(each)) + "\n")
                    stream.flush()
                found.append(each)
        _write_record(out / RECORD, {**known, **{each.result: each for each in found}})
    return found


def _done(work: Work, part: tuple[Path, str, DoneFile | None], *, out: Path, made_by: str) -> DoneFile:
    path, name, before = part
    content = checksum(path)
    if before is not None and (before.content, before.made_by) == (content, made_by) and (out / name).is_file():
        return before
    return DoneFile(str(path), name, work(path, out / name), content, made_by)


def checksum(path: Path) -> str:
    """Of the content of a file.

    Raises:
        DataUnavailableError: it is not there.
    """
    if not path.is_file():
        raise DataUnavailableError(f"no file at {str(path)!r}")
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _plain_name(path: Path) -> str:
    return (path.with_suffix("") if path.suffix.lower() in _COMPRESSIONS else path).stem


def _check_folder(out: Path) -> None:
    if not out.is_dir() or (out / RECORD).is_file():
        return
    if any(path.name != LOCK_FILE and not is_temporary(path) for path in out.iterdir()):
        raise OutputError(f"{str(out)!r} holds other files than results of this kind; choose a new or empty folder")


def _read_record(path: Path) -> dict[str, DoneFile]:
    """Lines by the name of the result; one that is not whole, or is something else, counts as not there."""
    known = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ():
        try:
            each = DoneFile(**json.loads(line))
        except (ValueError, TypeError, RecursionError):
            continue
        if all(isinstance(value, int if name == "num_rows" else str) for name, value in asdict(each).items()):
            known[each.result] = each
    return known


def _write_record(path: Path, known: Mapping[str, DoneFile]) -> None:
    with written_whole(path) as temporary:
        temporary.write_text("".join(json.dumps(asdict(each)) + "\n" for each in known.values()), encoding="utf-8")
