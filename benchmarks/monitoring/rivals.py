"""What CBPE of nannyml and the drift preset of evidently say of the monitored streams, by their own rules.

Run in an environment of its own, where nannyml 0.13.1, evidently 0.7.23 and a pandas that evidently loads with (below
3) are installed, which are told not to report their use:

    export NML_DISABLE_USAGE_LOGGING=1 DO_NOT_TRACK=1
    python benchmarks/monitoring/rivals.py --data FOLDER --out benchmarks/monitoring/rivals.csv

FOLDER has the data sets of nannyml's wheel as <stream>_reference.parquet and <stream>_analysis.parquet. CBPE raises
an alarm where its estimate is beyond three deviations of the reference's own; evidently where at least half of the
columns have drifted, each by a distance that depends on its kind. It gets inputs and predictions; without labels it
says nothing of the accuracy.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import nannyml
import pandas as pd
from evidently import Dataset, Report
from evidently.presets import DataDriftPreset

ROWS = 5_000
# The default of evidently's preset.
ALARM_SHARE = 0.5
IGNORED = ("id", "timestamp", "year")
CARDS = ("highstreet_card", "prepaid_card", "upmarket_card")
STREAMS: dict[str, dict[str, Any]] = {
    "car_loan": {
        "y_true": "repaid",
        "y_pred": "y_pred",
        "y_pred_proba": "y_pred_proba",
        "problem_type": "classification_binary",
    },
    "credit_card": {
        "y_true": "y_true",
        "y_pred": "y_pred",
        "y_pred_proba": {card: f"y_pred_proba_{card}" for card in CARDS},
        "problem_type": "classification_multiclass",
    },
    "employment": {
        "y_true": "employed",
        "y_pred": "prediction",
        "y_pred_proba": "predicted_probability",
        "problem_type": "classification_binary",
    },
}


def main() -> None:
    """Write one line for each whole chunk of each stream."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    found = [chunks(arguments.data, name, settings) for name, settings in STREAMS.items()]
    pd.concat(found).round(5).to_csv(arguments.out, index=False)


def chunks(folder: Path, name: str, settings: dict[str, Any]) -> pd.DataFrame:
    """Of one stream: the estimate and the alarm, and the true accuracy of the predictions in the table."""
    reference, analysis = (pd.read_parquet(folder / f"{name}_{part}.parquet") for part in ("reference", "analysis"))
    analysis = analysis[: len(analysis) // ROWS * ROWS]
    truth, predicted = analysis[settings["y_true"]], analysis[settings["y_pred"]]
    without_labels = analysis.drop(columns=settings["y_true"])
    # The data set of the loans has labels that are floats in the reference.
    if settings["problem_type"] == "classification_binary":
        reference[settings["y_true"]] = reference[settings["y_true"]].astype(int)
    estimator = nannyml.CBPE(metrics=["accuracy"], chunk_size=ROWS, **settings).fit(reference)
    table = estimator.estimate(without_labels).filter(period="analysis").to_df()
    right = (truth.astype(str) == predicted.astype(str)).groupby(pd.RangeIndex(len(analysis)) // ROWS)
    return pd.DataFrame(
        {
            "stream": name,
            "chunk": range(len(table)),
            "true_accuracy": right.mean().to_numpy(),
            "cbpe": table["accuracy"]["value"].to_numpy(),
            "cbpe_alarm": table["accuracy"]["alert"].to_numpy(),
            "cbpe_lower": table["accuracy"]["lower_threshold"].to_numpy(),
            **drift(reference.drop(columns=settings["y_true"]), without_labels),
        }
    )


def drift(reference: pd.DataFrame, analysis: pd.DataFrame) -> dict[str, list[float | bool]]:
    """Of evidently: the share of columns that drifted, and whether that is an alarm."""
    columns = [name for name in reference.columns if name not in IGNORED]
    own, shares = Dataset.from_pandas(reference[columns]), []
    for first in range(0, len(analysis), ROWS):
        batch = Dataset.from_pandas(analysis[first : first + ROWS][columns])
        found = Report([DataDriftPreset()]).run(batch, own).dict()["metrics"][0]
        shares.append(float(found["value"]["share"]))
    return {"evidently_drifted": shares, "evidently_alarm": [share >= ALARM_SHARE for share in shares]}


if __name__ == "__main__":
    main()
