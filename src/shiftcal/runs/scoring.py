"""Predictions of data of any size as a table: in parts, in bounded memory, not in vain when the process is killed.

Data of more rows than a part has are predicted part by part. Each part is a whole file in the folder `<table>.parts`;
once all are there they are joined, and the folder goes. The same command, given again after a kill, finds the parts
of the same model and data and makes the others; what other models or data left there is removed.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from shiftcal.core.errors import OutputError
from shiftcal.core.files import is_temporary, written_whole
from shiftcal.core.folder_lock import LOCK_FILE, folder_lock
from shiftcal.core.progress import progress_bar
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.fingerprints import fingerprint
from shiftcal.data.image_files import is_image_list
from shiftcal.data.table_chunks import TABLE_SUFFIXES, table_chunks, table_suffix
from shiftcal.data.table_encoder import TableColumns, TableEncoder, table_domain
from shiftcal.data.table_files import TEXT_SUFFIXES, typed_table
from shiftcal.runs.evaluation import predict_domain
from shiftcal.runs.prediction_tables import export_predictions
from shiftcal.runs.predictions import Predictions
from shiftcal.runs.text_files import write_text
from shiftcal.training.fitted_model import FittedModel

ROWS_OF_A_PART = 100_000
# From this size on a table is read in parts too.
LARGE_TABLE = 2**28
_IDENTITY, _HEADER = "identity.json", "header.csv"
# All of the folder of parts goes once the table is whole: nothing else may be in there.
_OURS = re.compile(rf"{re.escape(_IDENTITY)}|{re.escape(_HEADER)}|{re.escape(LOCK_FILE)}|\d{{8}}\.(csv|parquet|rows)")

Domain = LabelledDomain | UnlabelledDomain


@dataclass(frozen=True)
class Part:
    """Some rows to be predicted."""

    load: Callable[[], Domain]
    beside: Any = None
    """Of a table, a pandas frame of the same rows as they are written."""


def large_table(spec: str) -> Path | None:
    """The file of a table that is to be read in parts; None for all other data."""
    path = Path(spec.removeprefix("unlabelled:").removeprefix("unlabeled:").strip()).expanduser()
    is_large = path.is_file() and path.stat().st_size >= LARGE_TABLE
    return path if is_large and table_suffix(path) in TABLE_SUFFIXES and not is_image_list(path) else None


def domain_parts(domain: Domain) -> Iterator[Part]:
    """The rows of a domain that is at hand; labels are of no use here."""
    for start in range(0, len(domain), ROWS_OF_A_PART):
        rows = np.arange(start, min(start + ROWS_OF_A_PART, len(domain)), dtype=np.int64)
        yield Part(lambda rows=rows: UnlabelledDomain(domain.name, domain.inputs.subset(rows)))  # type: ignore[misc]


def table_parts(path: Path, name: str, encoder: TableEncoder, roles: TableColumns) -> Iterator[Part]:
    """The rows of a table in a file, which is read part by part; labels are not looked at."""
    labels = [column for column in (roles.label, encoder.label) if column is not None]

    def domain(chunk: Any) -> Domain:
        if table_suffix(path) in TEXT_SUFFIXES:
            chunk = typed_table(chunk, id_column=roles.id or encoder.id, texts=encoder.text_columns)
        return table_domain(chunk.drop(columns=labels, errors="ignore"), name, replace(roles, label=None), encoder)

    for chunk in table_chunks(path, ROWS_OF_A_PART):
        yield Part(lambda chunk=chunk: domain(chunk), chunk.reset_index(drop=True))  # type: ignore[misc]


def identity_of(checkpoint: Path, data: Domain | Path) -> dict[str, Any]:
    """What parts belong to: a model and data."""
    with checkpoint.open("rb") as stream:
        model = hashlib.file_digest(stream, "sha256").hexdigest()
    if isinstance(data, Path):
        status = data.stat()
        return {"model": model, "data": [str(data.absolute()), status.st_size, status.st_mtime_ns]}
    return {"model": model, "data": fingerprint(data)}


def score_in_parts(
    model: FittedModel, parts: Iterable[Part], identity: dict[str, Any], out: Path, num_parts: int | None = None
) -> int:
    """Write the predictions of all parts to one table, csv or parquet, and give the number of rows.

    Args:
        model: that predicts.
        parts: of the data, in order; those whose predictions are there are not loaded.
        identity: of model and data; see `identity_of`.
        out: the table.
        num_parts: for the progress bar.

    Raises:
        OutputError: something can't be written, the folder of the parts holds other files, or another process is at
            work on the same table.
    """
    folder, suffix = out.with_name(f"{out.name}.parts"), out.suffix.lower()
    with folder_lock(folder):
        _begin(folder, identity | {"rows": ROWS_OF_A_PART})
        files, num_rows = [], 0
        for number, part in enumerate(progress_bar(parts, "parts", total=num_parts)):
            path = folder / f"{number:08}{suffix}"
            count = folder / f"{number:08}.rows"
            if not _is_done(path, count):
                predictions = predict_domain(model, part.load())
                if suffix == ".csv" and not number:
                    export_predictions(_without_rows(predictions), folder / _HEADER, _header(part.beside))
                export_predictions(predictions, path, part.beside)
                write_text(count, str(len(predictions)))
            files.append(path)
            num_rows += int(count.read_text(encoding="utf-8"))
        (_join_csv if suffix == ".csv" else _join_parquet)(files, out)
    shutil.rmtree(folder)
    return num_rows


def _is_done(path: Path, count: Path) -> bool:
    """Whether a part is there with the number of its rows, which is written last."""
    return path.is_file() and count.is_file() and count.read_bytes().isdigit()


def _begin(folder: Path, identity: dict[str, Any]) -> None:
    """Keep what belongs to this model and data, and nothing else."""
    strange = [path.name for path in folder.iterdir() if not (_OURS.fullmatch(path.name) or is_temporary(path))]
    if strange:
        raise OutputError(
            f"{str(folder)!r} is where parts are kept until the table is whole, and it holds other files, such as "
            f"{min(strange)!r}; move them, or choose another --out"
        )
    path, written = folder / _IDENTITY, json.dumps(identity)
    if path.exists() and path.read_text(encoding="utf-8") == written:
        return
    # First the parts, then the word that there are such: a kill in between leaves none that are taken for ours.
    path.unlink(missing_ok=True)
    for pattern in ("*.csv", "*.parquet", "*.rows"):
        for left in folder.glob(pattern):
            left.unlink()
    write_text(path, written)


def _without_rows(predictions: Predictions) -> Predictions:
    return Predictions(
        predictions.ids[:0], predictions.probabilities[:0], predictions.density_ratio[:0], predictions.classes
    )


def _header(frame: Any) -> Any:
    return None if frame is None else frame.iloc[:0]


def _join_csv(files: list[Path], out: Path) -> None:
    header = files[0].with_name(_HEADER).stat().st_size
    with written_whole(out) as temporary, temporary.open("wb") as joined:
        for number, path in enumerate(files):
            with path.open("rb") as stream:
                stream.seek(header if number else 0)
                shutil.copyfileobj(stream, joined, 2**20)


def _join_parquet(files: list[Path], out: Path) -> None:
    from pyarrow import parquet, unify_schemas

    # A column that is empty in one part has no type there.
    schema = unify_schemas([parquet.read_schema(path) for path in files], promote_options="permissive")
    with written_whole(out) as temporary, parquet.ParquetWriter(temporary, schema) as writer:
        for path in files:
            writer.write_table(parquet.read_table(path).cast(schema))
