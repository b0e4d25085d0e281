"""What could be reached with the witnesses of the combined estimate, and which episodes carry its error.

    python -m benchmarks.accuracy_estimates.limits    # reads witnesses.csv and left_out.csv; writes limits.md

Beside the combined estimate, as it is left out: gradient boosting with monotone constraints of all witnesses, and of
what the combined estimate leaves over, both with whole data sets left out; the nearest point between the least and
the largest witness, which only an oracle knows; and the sampling error of the accuracies themselves. The data sets
are in two halves by a hash of their names: forms are chosen on the first and judged on the second.
"""

from __future__ import annotations

import zlib

import numpy as np
import pandas as pd
from benchmarks.accuracy_estimates.fit import (
    BEYOND_CONFIDENCE,
    HERE,
    MOSTLY_BETWEEN,
    STRUCTURE,
    Constants,
    estimates,
    mean_by_kind,
    weights_of,
)
from sklearn.ensemble import HistGradientBoostingRegressor

from shiftcal.target.estimators.combined import Combined
from shiftcal.target.rule import TrustRule

ESTIMATES = [
    *STRUCTURE,
    *("importance_weighted_calibration", "importance_weighted_accuracy", "held_out_accuracy"),
    *("difference_of_confidences", "thresholded_entropy", "label_probability"),
]
CIRCUMSTANCES = ["cluster_purity", "novelty", "domain_auc", "shifted_share", "num_classes", "num_held_out"]
# Rows are drawn by their weights: a fit with weights of rows takes many times as long.
NUM_DRAWN = 4_000
# Mean absolute deviation of a normal variable of deviation 1.
MEAN_DEVIATION = (2 / np.pi) ** 0.5


def left_out(
    inputs: np.ndarray, wanted: np.ndarray, groups: np.ndarray, weights: np.ndarray, rises: int
) -> np.ndarray:
    """What boosted trees that rise with the first `rises` inputs say; of each data set by a fit to the others."""
    found = np.zeros(len(wanted))
    constraints = [1] * rises + [0] * (inputs.shape[1] - rises)
    for group in np.unique(groups):
        others = np.flatnonzero(groups != group)
        share = weights[others] / weights[others].sum()
        drawn = np.random.default_rng(0).choice(others, NUM_DRAWN, p=share)
        trees = HistGradientBoostingRegressor(
            loss="absolute_error", max_iter=100, max_leaf_nodes=8, learning_rate=0.07, min_samples_leaf=40,
            monotonic_cst=constraints, early_stopping=False, random_state=0,
        )  # fmt: skip
        found[groups == group] = trees.fit(inputs[drawn], wanted[drawn]).predict(inputs[groups == group])
    return found


def kind_of(shift: str) -> str:
    """Without the name of the target."""
    return shift.split(":")[0].split(" ")[0].replace("absent", "absent classes").replace("unit", "unit error")


def confidence_to_reach(table: pd.DataFrame) -> list[str]:
    """How far off what scaling aims at is, where classes may form no clusters: `Diagnosis.confidence_to_reach`."""
    found, truth, claimed = pd.read_csv(HERE / "left_out.csv"), table["accuracy"], table["calibrated_confidence"]
    reliability = table["cluster_purity"].map(Combined().cluster_reliability)
    by_itself, harmless = claimed.clip(found["low"], found["high"]), (claimed - truth).abs()
    reached = by_itself + reliability * (found["estimate"] - by_itself)
    header = "| real shifts | aim | episodes | error | of calibrated confidence | worse than that by .02 |"
    text = [header, "|---" * 6 + "|"]
    for kind in ("tables", "text"):
        own = (table["kind"] == kind) & table["shift"].str.match("real|chunk")
        for name, aim in (("estimate", found["estimate"]), ("confidence to reach", reached)):
            error = (aim - truth).abs()
            numbers = f"{own.sum()} | {error[own].mean():.4f} | {harmless[own].mean():.4f}"
            text.append(f"| {kind} | {name} | {numbers} | {(error > harmless + 0.02)[own].mean():.1%} |")
    return text


def label_probability_elsewhere(table: pd.DataFrame) -> list[str]:
    """What label probability would change where it is not asked.

    `label_probability.csv` has it of episodes on which clusters decide less than nine tenths, learned from up to 256
    columns as they are. With the constants that ship.
    """
    shipped = Constants(*(getattr(TrustRule(), name) for name in Constants._fields))
    told = table.drop(columns="label_probability").merge(pd.read_csv(HERE / "label_probability.csv"), on="file")
    asked = {share: estimates(told, shipped._replace(label_share=share)) for share in (0.5, shipped.label_share)}
    said = {0.0: estimates(told.assign(label_probability=np.nan), shipped), **asked}
    errors = pd.DataFrame({share: np.abs(found - told["accuracy"]) for share, found in said.items()})
    by_set = errors.groupby([told["kind"], told["group"]]).mean()
    text = ["| label probability elsewhere | episodes | without | half of held-out rows' part | as on tables |"]
    text.append("|---" * 5 + "|")
    for (kind, group), row in by_set.iterrows():
        number = ((told["kind"] == kind) & (told["group"] == group)).sum()
        text.append(f"| {kind}: {group} | {number} | {' | '.join(f'{value:.4f}' for value in row)} |")
    return text


def main() -> None:
    """Fit, compare, record."""
    table = pd.read_csv(HERE / "witnesses.csv")
    combined = pd.read_csv(HERE / "left_out.csv")["estimate"].to_numpy()
    weights, truth, groups = weights_of(table), table["accuracy"].to_numpy(), table["group"].to_numpy()
    seen = table[ESTIMATES + CIRCUMSTANCES].to_numpy(float)
    free = left_out(seen, truth, groups, weights, len(ESTIMATES))
    around = np.column_stack([seen[:, : len(ESTIMATES)] - combined[:, None], seen, combined])
    corrected = combined + left_out(around, truth - combined, groups, weights, 0)
    own = [*STRUCTURE, "importance_weighted_calibration", "label_probability"]
    said = table[own].T.ffill().T.to_numpy()  # where labels were not asked, another stands for them
    error = np.sqrt(truth * (1 - truth) * (1 / table["num_target"] + 1 / table["num_held_out"])).to_numpy()
    contenders = {
        "combined (left out)": np.abs(combined - truth),
        "boosted trees of all witnesses (left out)": np.abs(free - truth),
        "combined, corrected by boosted trees (left out)": np.abs(corrected - truth),
        "median of those beyond confidence": np.abs(table[BEYOND_CONFIDENCE].median(axis=1).to_numpy() - truth),
        "oracle: nearest point between the witnesses": np.abs(np.clip(truth, said.min(1), said.max(1)) - truth),
        "sampling error alone": MEAN_DEVIATION * error,
    }
    halves = np.array([zlib.crc32(group.encode()) % 2 for group in groups])

    def row(errors: np.ndarray) -> list[float]:
        by_kind = mean_by_kind(table, errors, weights)
        parts = [
            mean_by_kind(table[own], errors[own], weights_of(table[own]))["all"] for own in (halves == 0, halves == 1)
        ]
        return [*by_kind, *parts]

    columns = [*sorted(table["kind"].unique()), "all", "first half", "second half"]
    text = [f"| mean absolute error | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    text += [f"| {name} | {' | '.join(f'{v:.4f}' for v in row(errors))} |" for name, errors in contenders.items()]
    errors, share = contenders["combined (left out)"], weights / weights.sum()
    text += ["", "| shift | episodes | error | bias | share of all error |", "|---|---|---|---|---|"]
    kinds = table["shift"].map(kind_of).to_numpy()
    for kind in np.unique(kinds):
        own = kinds == kind
        mean, bias = (np.average(values[own], weights=share[own]) for values in (errors, combined - truth))
        part = (errors * share)[own].sum() / (errors * share).sum()
        text.append(f"| {kind} | {own.sum()} | {mean:.3f} | {bias:+.3f} | {part:.0%} |")
    worst = np.argsort(-errors)
    worst = worst[np.cumsum(share[worst]) <= 0.1]
    part = (errors * share)[worst].sum() / (errors * share).sum()
    text += ["", f"The worst tenth of the episodes has {part:.0%} of the error."]
    between = (table["between_classes"] >= MOSTLY_BETWEEN).to_numpy()
    mean = errors[between].mean()
    text.append(f"In {between.sum()} episodes most of the target lies between classes: mean error {mean:.3f}.")
    text += ["", *confidence_to_reach(table), "", *label_probability_elsewhere(table)]
    (HERE / "limits.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    main()
