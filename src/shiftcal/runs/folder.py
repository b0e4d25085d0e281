"""The folder of a run: what is in it and where.

config.yaml        the resolved configuration: data, method and every option
fingerprints.json  of the content of the data and of what was asked for when the run began
card.json          versions, seed, time, command
history.jsonl      one line per epoch
learning_curve.csv metrics of the test data after each epoch, where they were asked for
checkpoint.pt      the model, and while training goes on its whole state
predictions/       source.npz (held-out part, or test data of the source) and target.npz
pseudo_labels.npz  what self-training took as labelled in each round, and how much of it was right
metrics.json       for source and target, where labels were given for evaluation
report.html

While a process has the folder, there is a lock file too.
"""

from __future__ import annotations

import csv
import datetime
import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from shiftcal.core.errors import OutputError
from shiftcal.core.files import is_temporary, written_whole
from shiftcal.core.folder_lock import LOCK_FILE
from shiftcal.core.provenance import code_commit
from shiftcal.data.encoders import Encoder
from shiftcal.runs.text_files import as_numbers, read_json, read_yaml, reading, write_json, write_text, write_yaml
from shiftcal.target.findings import TargetFindings
from shiftcal.training.checkpoint import CHECKPOINT_FILE, FORMAT_VERSION
from shiftcal.training.fitted_model import FittedModel
from shiftcal.training.saved_model import save_model

_RECORDED_PACKAGES = ("shiftcal", "torch", "lightning-fabric", "numpy", "scikit-learn", "timm", "torchvision")


@dataclass(frozen=True)
class RunFolder:
    """Paths of a run and the small files in it."""

    path: Path

    @property
    def config(self) -> Path:
        """Resolved configuration."""
        return self.path / "config.yaml"

    @property
    def fingerprints(self) -> Path:
        """Of the data and of the configuration."""
        return self.path / "fingerprints.json"

    @property
    def card(self) -> Path:
        """Where the run comes from."""
        return self.path / "card.json"

    @property
    def history(self) -> Path:
        """One line per epoch."""
        return self.path / "history.jsonl"

    @property
    def learning_curve(self) -> Path:
        """Metrics of the test data after each epoch; not there unless they were asked for."""
        return self.path / "learning_curve.csv"

    @property
    def checkpoint(self) -> Path:
        """The model."""
        return self.path / CHECKPOINT_FILE

    @property
    def source_predictions(self) -> Path:
        """On the part of the source that was held out, or on test data of its own."""
        return self.path / "predictions" / "source.npz"

    @property
    def target_predictions(self) -> Path:
        """On the target, or on the test data that the run names."""
        return self.path / "predictions" / "target.npz"

    @property
    def pseudo_labels(self) -> Path:
        """What self-training took as labelled; not there for other methods."""
        return self.path / "pseudo_labels.npz"

    @property
    def metrics(self) -> Path:
        """Written last but for the report: it marks a finished run."""
        return self.path / "metrics.json"

    @property
    def report(self) -> Path:
        """The report."""
        return self.path / "report.html"

    @property
    def is_finished(self) -> bool:
        """Whether everything that reports need is there."""
        return self.metrics.is_file()

    @property
    def is_started(self) -> bool:
        """Whether there is a run here that can be resumed, or is finished."""
        return self.checkpoint.is_file()

    def remove_remains(self) -> None:
        """Remove the files of a run that failed or was killed before its first checkpoint."""
        for path in self._left_without_checkpoint:
            path.unlink(missing_ok=True)

    @contextmanager
    def nothing_left_on_failure(self) -> Iterator[None]:
        """Remove what a block that fails has written, unless there is a checkpoint to go on from.

        The same command shall work once its input is mended.
        """
        try:
            yield
        except BaseException:
            if not self.checkpoint.exists():
                self.remove_remains()
                with suppress(OSError):  # not there, or it holds what is not ours
                    self.path.rmdir()
            raise

    def remove_results(self) -> None:
        """Remove what was made of another model: predictions, pseudo-labels, learning curve, metrics and report."""
        predictions = (self.source_predictions, self.target_predictions)
        for path in (self.metrics, self.report, self.pseudo_labels, self.learning_curve, *predictions):
            with suppress(OSError):  # what is in the way will be in the way of writing too, and be reported then
                path.unlink()

    def check_no_other_files(self) -> None:
        """Raise `OutputError` if the folder holds files, but no run.

        Files of the names that a run has are its own where it was killed, which the lock tells that it left.
        """
        if self.is_started or not self.path.is_dir():
            return
        lock = self.path / LOCK_FILE
        own = (lock, *self._left_without_checkpoint) if lock.exists() else ()
        others = [path for path in self.path.iterdir() if path not in own and not is_temporary(path)]
        if others:
            raise OutputError(
                f"{str(self.path)!r} holds other files, such as {min(others).name!r}; choose a new or empty folder"
            )

    @property
    def _left_without_checkpoint(self) -> tuple[Path, ...]:
        """What a run leaves that was killed before its first checkpoint; nothing is lost with these files."""
        return (self.config, self.fingerprints, self.card, self.history, self.learning_curve)

    def write_model(
        self,
        model: FittedModel,
        data_config: Mapping[str, Any] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Everything that the model itself knows, with what is known of its data and further facts for the card."""
        self.write_config({**(data_config or {}), **(model.asked_for or model.recipe).as_plain()})
        seconds = round(model.training_seconds, 1)
        self.write_card(
            {
                "seed": model.recipe.training.random_state,
                "training_seconds": seconds,
                "findings": model.findings.as_plain(),
                **({} if model.encoder is None else _about_columns(model.encoder)),
                "composed_of": (model.asked_for or model.recipe).parts,
                **(facts or {}),
            }
        )
        self.write_history(model.history)
        save_model(model, self.checkpoint)

    def write_config(self, config: Mapping[str, Any]) -> None:
        """The configuration as `shiftcal run` takes it."""
        write_yaml(self.config, config)

    def write_fingerprints(self, fingerprints: Mapping[str, str | None]) -> None:
        """Of the data and of the configuration, by what they are of."""
        write_json(self.fingerprints, fingerprints)

    def write_card(self, facts: Mapping[str, Any]) -> None:
        """Facts of the run, with versions and time."""
        card = {
            "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "command": " ".join(["shiftcal", *sys.argv[1:]]) if Path(sys.argv[0]).stem in _COMMANDS else None,
            "python": platform.python_version(),
            "platform": platform.system(),
            "checkpoint_format": FORMAT_VERSION,
            "commit": code_commit(),
            "versions": _versions(),
            **facts,
        }
        write_json(self.card, card)

    def write_history(self, history: Sequence[Mapping[str, float]]) -> None:
        """One JSON line per epoch."""
        write_text(self.history, "".join(json.dumps(dict(record)) + "\n" for record in history))

    def write_learning_curve(self, rows: Sequence[Mapping[str, float]]) -> None:
        """One row per epoch."""
        with (
            written_whole(self.learning_curve) as temporary,
            temporary.open("w", newline="", encoding="utf-8") as stream,
        ):
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)

    def write_metrics(self, metrics: Mapping[str, Mapping[str, float | None]]) -> None:
        """Numbers by domain and metric."""
        write_json(self.metrics, metrics)

    def read_config(self) -> dict[str, Any]:
        """What `write_config` wrote."""
        return read_yaml(self.config)

    def read_fingerprints(self) -> dict[str, Any]:
        """What `write_fingerprints` wrote."""
        return read_json(self.fingerprints)

    def read_card(self) -> dict[str, Any]:
        """What `write_card` wrote."""
        return read_json(self.card)

    def read_findings(self) -> TargetFindings:
        """What the card says of the target."""
        card = self.read_card()
        with reading(self.card):
            findings = TargetFindings.from_plain(card["findings"])
            findings.verdicts()  # a value that no words can be made of is found here
            return findings

    def read_history(self) -> list[dict[str, float]]:
        """What `write_history` wrote."""
        with reading(self.history):
            return [as_numbers(json.loads(line)) for line in self.history.read_text(encoding="utf-8").splitlines()]

    def read_learning_curve(self) -> list[dict[str, float]]:
        """What `write_learning_curve` wrote; nothing where no curve was asked for."""
        if not self.learning_curve.is_file():
            return []
        with reading(self.learning_curve), self.learning_curve.open(newline="", encoding="utf-8") as stream:
            rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(stream)]
            return [{**row, "epoch": int(row["epoch"])} for row in rows]

    def read_metrics(self) -> dict[str, dict[str, float | None]]:
        """What `write_metrics` wrote."""
        metrics = read_json(self.metrics)
        with reading(self.metrics):
            return {domain: as_numbers(metrics[domain]) for domain in ("source", "target")}


def _about_columns(encoder: Encoder) -> dict[str, Any]:
    return {"columns_used": encoder.summary(), "columns": encoder.description()}


_COMMANDS = ("shiftcal", "__main__")


def _versions() -> dict[str, str]:
    versions = {}
    for package in _RECORDED_PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
