"""Targets with classes that the source does not have: are they seen, and what is expected of the accuracy?

Each pair of Office-Home domains, a domain with itself too: 10, 25 and 50 % of the classes are kept from the source;
and with all classes, and with half of them absent from the target, where nothing is new. The four constants of new
classes were chosen on such cases, with the same of Office-31 in view. Beside them: digits (pixels of UCI digits;
features of a small network that learned MNIST or USPS), made clusters and, with nothing new, monitored tables.
"""

from __future__ import annotations

import argparse
import os
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from benchmarks.accuracy_estimates.data_sets import Rows as Labelled
from benchmarks.accuracy_estimates.data_sets import digits, office
from benchmarks.accuracy_estimates.tasks import network, streams
from benchmarks.frame import Benchmark, Job, Rows
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shiftcal.runs.reproduction.base import values_of
from shiftcal.target.estimators.combined import Combined
from shiftcal.target.evidence import ObservedRows, ShiftEvidence

SHARES = (0.0, 0.1, 0.25, 0.5)
MOST_ROWS = 1_000


class Seen(NamedTuple):
    """What a classifier says of rows, and where they lie; labels are -1 where they are of a new class."""

    logits: np.ndarray
    features: np.ndarray
    labels: np.ndarray


def measure(held_out: Seen, target: Seen) -> Iterator[dict[str, Any]]:
    """What is found, and what would be expected if new classes were not looked for."""
    rows = [
        ObservedRows(
            *(torch.from_numpy(part).double() for part in (seen.logits, np.ones(len(seen.labels)), seen.features))
        )
        for seen in (held_out, target)
    ]
    evidence = ShiftEvidence(rows[0], torch.from_numpy(held_out.labels), rows[1])
    accuracy = float((target.logits.argmax(axis=1) == target.labels).mean())
    found = Combined().diagnose(evidence)
    new = found.new_classes
    unaware = found if new is None else Combined(least_new_share=1.0).diagnose(evidence)
    assert found.interval is not None
    assert unaware.interval is not None
    yield {
        "new_share": (target.labels < 0).mean(),
        "kind_of_shift": found.kind_of_shift(),
        "seen_share": 0.0 if new is None else new.seen_share,
        "estimated_share": 0.0 if new is None else new.share,
        "num_clusters": 0 if new is None else new.num_clusters,
        "accuracy": accuracy,
        "estimated_accuracy": found.accuracy,
        "holds": float(found.interval[0] <= accuracy <= found.interval[1]),
        "unaware_accuracy": unaware.accuracy,
        "unaware_holds": float(unaware.interval[0] <= accuracy <= unaware.interval[1]),
    }


def cases(group: str, name: str, source: Labelled, targets: dict[str, Labelled], *, is_image: bool) -> Iterator[Job]:
    """A source, which is a target too, with several shares of its classes kept from a classifier."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    classes = generator.permutation(np.unique(source.labels))
    for share in SHARES:
        known = np.sort(classes[round(share * len(classes)) :])
        order = generator.permutation(len(source.labels))
        parts = [source.take(part) for part in np.split(order, [len(order) // 2, len(order) * 3 // 4])]
        fitted, held_out = (part.take(np.isin(part.labels, known)) for part in parts[:2])
        model = _fitted(fitted, is_image=is_image)
        for other, rows in {name: parts[2], **targets}.items():
            rows = rows.take(generator.permutation(len(rows.labels))[:MOST_ROWS])
            settings = {f"{share:.0%} new": rows}
            if share == 0:
                settings["half absent"] = rows.take(np.isin(rows.labels, classes[: len(classes) // 2]))
            for setting, chosen in settings.items():
                seen = [_seen(model, part, known, is_image=is_image) for part in (held_out, chosen)]
                yield Job({"group": group, "case": f"{name}->{other} {setting}"}, partial(measure, *seen))


def _fitted(rows: Labelled, *, is_image: bool) -> Any:
    if is_image:
        return network(epochs=2, steps=100).fit(torch.from_numpy(rows.inputs), rows.labels)
    return make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=200)).fit(rows.inputs, rows.labels)


def _seen(model: Any, rows: Labelled, known: np.ndarray, *, is_image: bool) -> Seen:
    given = torch.from_numpy(rows.inputs) if is_image else rows.inputs
    logits = np.log(np.clip(model.predict_proba(given), 1e-6, None))
    labels = np.where(np.isin(rows.labels, known), np.searchsorted(known, rows.labels), -1)
    return Seen(logits, model.features(given) if is_image else rows.inputs, labels)


def made_clusters() -> Labelled:
    """Ten classes in 24 columns."""
    generator = np.random.default_rng(0)
    labels = generator.integers(10, size=8_000)
    means = 5 * np.linalg.qr(generator.standard_normal((24, 10)))[0].T
    return Labelled((means[labels] + generator.standard_normal((8_000, 24))).astype(np.float32), labels)


def jobs(_: argparse.Namespace) -> Iterator[Job]:
    """Every case."""
    folder = Path(os.environ["SHIFTCAL_DATA"])
    made = made_clusters()
    moved = Labelled(made.inputs + 3 * np.eye(24, dtype=np.float32)[0], made.labels)
    yield from cases("made clusters", "clusters", made, {"moved": moved}, is_image=False)
    pixels, labels = load_digits(return_X_y=True)
    yield from cases("digits, pixels", "uci", Labelled(pixels.astype(np.float32), labels), {}, is_image=False)
    for data in digits(folder):
        name = data.name.split(":")[1]
        if name in ("mnist", "usps"):
            targets = {other: rows for other, rows in data.targets.items() if other in ("mnist", "usps")}
            yield from cases("digits, network", name, data.source, targets, is_image=True)
    for episode in streams(folder / "streams"):
        if int(episode.shift.split()[1]) % 5 == 0:
            held_out = Seen(episode.held_out_logits, episode.held_out_features, episode.held_out_labels)
            target = Seen(episode.target_logits, episode.target_features, episode.target_labels)
            key = {"group": "monitored tables", "case": f"{episode.task} {episode.shift}"}
            yield Job(key, partial(measure, held_out, target))
    for group, name in (("Office-31", "office31"), ("Office-Home (chosen on)", "officehome")):
        for data in office(folder, name, name):
            yield from cases(group, data.name.split(":")[1], data.source, data.targets, is_image=False)


def table(rows: Rows) -> str:
    """How often new classes are said to be there, where they are not and where they are, and what that is worth."""
    lines = [
        "| data | nothing new, yet claimed | up to 20 % new: seen | more: seen | where claimed: error of the share | "
        "of the accuracy | without looking | interval holds it | without looking |",
        "|---" * 9 + "|",
    ]
    for group in map(str, values_of(rows, "group")):
        own = [row for row in rows if row["group"] == group]
        counts = []
        for least, most in ((0.0, 0.0), (0.01, 0.2), (0.2, 1.0)):
            chosen = [row for row in own if least <= float(row["new_share"]) <= most]
            counts.append(f"{sum(float(row['seen_share']) > 0 for row in chosen)} of {len(chosen)}")
        seen = [row for row in own if float(row["seen_share"]) > 0]

        def error(truth: str, estimate: str, seen: Rows = seen) -> str:
            errors = [abs(float(row[truth]) - float(row[estimate])) for row in seen]
            return f"{np.mean(errors):.3f}" if errors else "-"

        held = [
            f"{np.mean([float(row[name]) for row in seen]):.0%}" if seen else "-"
            for name in ("holds", "unaware_holds")
        ]
        errors = [
            error("new_share", "estimated_share"),
            error("accuracy", "estimated_accuracy"),
            error("accuracy", "unaware_accuracy"),
        ]
        lines.append(f"| {group} | {' | '.join([*counts, *errors, *held])} |")
    return "\n".join(lines) + "\n"


BENCHMARKS = {"new_classes": Benchmark(jobs, table)}
