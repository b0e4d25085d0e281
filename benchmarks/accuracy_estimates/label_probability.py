"""A trial: would labels of held-out rows, learned by boosted trees, make a witness for tables?

    SHIFTCAL_DATA=... python -m benchmarks.accuracy_estimates.label_probability --packages FOLDER

    mean_target P( y = predicted | x ) + held-out accuracy - mean_held-out P( y = predicted | x )

with P by gradient boosting of the labels of held-out rows, of these out of fold. For episodes of tables that
`witnesses.csv` has; FOLDER as for `tasks.py`. Writes label_probability.csv, and label_probability.md: the error of
the combined estimate as it is, and if the mean of its support and this stood for its support. All other witnesses are
as recorded. What is finished is kept: the same command goes on.
"""

from __future__ import annotations

import argparse
import itertools
import os
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.accuracy_estimates.data_sets import tables
from benchmarks.accuracy_estimates.fit import HERE, estimates, weights_of
from benchmarks.accuracy_estimates.tasks import Episode, episodes, streams
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_predict

from shiftcal.target.rule import TrustRule

RECORD = HERE / "label_probability.csv"


def file_of(episode: Episode) -> str:
    """As `tasks.py` names it."""
    name = "--".join((episode.kind, episode.task, episode.model, episode.shift))
    return "".join(letter if letter.isalnum() or letter in "-.:" else "_" for letter in name) + ".npz"


def label_probabilities(group: Iterable[Episode]) -> list[float]:
    """Of episodes with the same held-out rows."""
    found, fitted = [], None
    for episode in group:
        inputs, labels = episode.held_out_features, episode.held_out_labels
        if fitted is None:
            trees = HistGradientBoostingClassifier(max_iter=60, learning_rate=0.08, random_state=0)
            out_of_fold = cross_val_predict(trees, inputs, labels, cv=5, method="predict_proba")
            fitted = trees.fit(inputs, labels), out_of_fold
        predicted, of_target = (logits.argmax(axis=1) for logits in (episode.held_out_logits, episode.target_logits))
        held_out = fitted[1][np.arange(len(labels)), predicted].mean()
        target = fitted[0].predict_proba(episode.target_features)[np.arange(len(of_target)), of_target].mean()
        found.append(float(np.clip(target + (predicted == labels).mean() - held_out, 0, 1)))
    return found


def record(folder: Path, packages: Path) -> None:
    """Of all data sets that are not there yet."""
    known = set(pd.read_csv(HERE / "witnesses.csv")["file"])
    by_stream = itertools.groupby(streams(folder / "streams"), key=lambda episode: episode.group)
    sets = itertools.chain(by_stream, ((data.group, episodes(data)) for data in tables(packages)))
    for name, group in sets:
        done = set(pd.read_csv(RECORD)["group"]) if RECORD.exists() else set()
        if name in done:
            continue
        taken = [episode for episode in group if file_of(episode) in known]
        rows = {"file": [file_of(episode) for episode in taken], "group": name}
        table = pd.DataFrame({**rows, "label_probability": np.round(label_probabilities(taken), 5)})
        table.to_csv(RECORD, mode="a", header=not RECORD.exists(), index=False)
        print(name, len(table), flush=True)


def judge() -> str:
    """What it would be good for."""
    table = pd.read_csv(HERE / "witnesses.csv").merge(pd.read_csv(RECORD).drop(columns="group"), on="file")
    rule, truth, weights = TrustRule(), table["accuracy"], weights_of(table)
    now = pd.Series(estimates(table, rule.purity_midpoint, rule.purity_slope, rule.novelty_slope))
    outside = table["novelty"].map(rule.outside_degree)
    support = (1 - outside) * table["importance_weighted_calibration"] + outside * table["second_model_agreement"]
    unreliable = 1 - table["cluster_purity"].map(rule.cluster_reliability)
    changed = now + unreliable * (table["label_probability"] - support) / 2
    half = table["group"].map(lambda name: zlib.crc32(name.encode()) % 2)
    parts = {
        "all tables": half >= 0,
        "first half": half == 0,
        "second half": half == 1,
        "real shifts": table["shift"].str.startswith("real"),
        **{name: table["group"] == name for name in ("car_loan", "credit_card", "employment")},
    }
    lines = ["| mean absolute error | data sets | as it is | with label probability |", "|---|---|---|---|"]
    for name, own in parts.items():
        errors = [np.average((said - truth).abs()[own], weights=weights[own]) for said in (now, changed)]
        lines.append(f"| {name} | {table['group'][own].nunique()} | {errors[0]:.4f} | {errors[1]:.4f} |")
    gain = ((now - truth).abs() - (changed - truth).abs()).groupby(table["group"]).mean()
    lines += ["", f"It gains on {(gain > 0).sum()} of {len(gain)} tables; the largest loss is {-gain.min():.4f}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Record, judge, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, required=True, help="folder with the packages, unpacked")
    record(Path(os.environ["SHIFTCAL_DATA"]), parser.parse_args().packages)
    text = judge()
    (HERE / "label_probability.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
