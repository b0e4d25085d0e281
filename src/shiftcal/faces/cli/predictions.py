"""Commands on what a model says: predict, evaluate, calibrate."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from shiftcal.faces.cli.arguments import (
    SPEC_HELP,
    declare_download,
    print_metrics,
)


def declare_predict(parser: argparse.ArgumentParser) -> None:
    """Arguments of `predict`."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder of a finished run")
    parser.add_argument("--data", required=True, metavar="SPEC", help=SPEC_HELP)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="a .csv, .npz or .parquet file")
    declare_download(parser)


def predict_command(arguments: argparse.Namespace) -> None:
    """`shiftcal predict`."""
    from shiftcal.core.files import check_writable_folder
    from shiftcal.runs.evaluation import predict_domain
    from shiftcal.runs.folder import RunFolder
    from shiftcal.runs.prediction_tables import check_export_path, export_predictions
    from shiftcal.runs.run_data import load_domain_for
    from shiftcal.training.fitted_model import load_model

    check_export_path(arguments.out)
    check_writable_folder(arguments.out.absolute().parent)
    model = load_model(RunFolder(arguments.run_folder).checkpoint)
    domain = load_domain_for(model, arguments.data, download=arguments.download)
    predictions = predict_domain(model, domain)
    export_predictions(predictions, arguments.out)
    print(f"{len(predictions)} predictions: {arguments.out}")


def declare_evaluate(parser: argparse.ArgumentParser) -> None:
    """Arguments of `evaluate`."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder of a finished run")
    parser.add_argument("--data", required=True, metavar="SPEC", help=f"labelled data: {SPEC_HELP}")
    parser.add_argument("--json", action="store_true", help="print JSON")
    declare_download(parser)


def evaluate_command(arguments: argparse.Namespace) -> None:
    """`shiftcal evaluate`."""
    from shiftcal.runs.evaluation import evaluate, precision_by_round, predict_domain
    from shiftcal.runs.folder import RunFolder
    from shiftcal.runs.run_data import load_domain_for
    from shiftcal.training.fitted_model import load_model

    model = load_model(RunFolder(arguments.run_folder).checkpoint)
    domain = load_domain_for(model, arguments.data, download=arguments.download)
    metrics = evaluate(predict_domain(model, domain))
    rounds = precision_by_round(model, domain)
    if arguments.json:
        print(json.dumps(metrics | ({"pseudo_labels": rounds} if rounds else {}), indent=2))
        return
    print_metrics({arguments.data: metrics})
    if rounds:
        print("pseudo-labels of training, if these rows are its target:")
        for row in rounds:
            print("  " + "  ".join(f"{name} {value:.4g}" for name, value in row.items()))


def declare_calibrate(parser: argparse.ArgumentParser) -> None:
    """Arguments of `calibrate`."""
    table = "a .csv, .npz or .parquet table with columns probability_<class>"
    parser.add_argument(
        "--source",
        type=Path,
        required=True,
        metavar="FILE",
        help=f"what the model says of labelled source rows, best of rows it was not trained on: {table} and label",
    )
    parser.add_argument(
        "--target", type=Path, required=True, metavar="FILE", help=f"what it says of the target: {table}"
    )
    features = "features of the same rows, such as embeddings: an .npy file or any spec; makes it much better"
    parser.add_argument("--source-features", metavar="SPEC", help=features)
    parser.add_argument("--target-features", metavar="SPEC", help="the same for the target")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="a .csv, .npz or .parquet file")


def calibrate_command(arguments: argparse.Namespace) -> None:
    """`shiftcal calibrate`."""
    from shiftcal.core.files import check_writable_folder
    from shiftcal.data.specs import load_features
    from shiftcal.faces.calibrator import calibrate_predictions
    from shiftcal.runs.evaluation import evaluate
    from shiftcal.runs.prediction_tables import check_export_path, export_predictions, read_prediction_table

    check_export_path(arguments.out)
    check_writable_folder(arguments.out.absolute().parent)
    source, target = read_prediction_table(arguments.source), read_prediction_table(arguments.target)
    features = [
        None if spec is None else load_features(spec)
        for spec in (arguments.source_features, arguments.target_features)
    ]
    calibrated, diagnosis = calibrate_predictions(source, target, *features)
    export_predictions(calibrated, arguments.out)
    if target.labels is not None:
        print_metrics({"target as given": evaluate(target), "target calibrated": evaluate(calibrated)})
    print(diagnosis.verdict())
    print(f"{len(calibrated)} predictions: {arguments.out}")
