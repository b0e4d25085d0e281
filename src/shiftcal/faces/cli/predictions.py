"""Commands on what a model says: predict, evaluate, calibrate, estimate."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from shiftcal.core.errors import InvalidInputError
from shiftcal.faces.cli.arguments import (
    SPEC_HELP,
    declare_download,
    files_of_spec,
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
    from shiftcal.core.files import check_not_an_input, check_writable_folder
    from shiftcal.runs.evaluation import predict_domain
    from shiftcal.runs.folder import RunFolder
    from shiftcal.runs.prediction_tables import check_export_path, export_predictions
    from shiftcal.runs.run_data import load_domain_for
    from shiftcal.training.fitted_model import load_model

    check_export_path(arguments.out)
    check_not_an_input(arguments.out, [*files_of_spec(arguments.data), *arguments.run_folder.rglob("*.npz")])
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


def _declare_predictions(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Arguments for what a model said of both domains."""
    table = "a .csv, .npz or .parquet table with columns probability_<class>"
    parser.add_argument(
        "--source",
        type=Path,
        required=required,
        metavar="FILE",
        help=f"what the model says of labelled source rows, best of rows it was not trained on: {table} and label",
    )
    parser.add_argument(
        "--target", type=Path, required=required, metavar="FILE", help=f"what it says of the target: {table}"
    )
    features = "features of the same rows, such as embeddings: an .npy file or any spec; makes it much better"
    parser.add_argument("--source-features", metavar="SPEC", help=features)
    parser.add_argument("--target-features", metavar="SPEC", help="the same for the target")


def _read_predictions(arguments: argparse.Namespace) -> tuple[Any, ...]:
    """Source, target and features, as `calibrate_predictions` takes them."""
    from shiftcal.data.specs import load_features
    from shiftcal.runs.prediction_tables import read_prediction_table

    tables = [read_prediction_table(path) for path in (arguments.source, arguments.target)]
    features = [
        None if spec is None else load_features(spec)
        for spec in (arguments.source_features, arguments.target_features)
    ]
    return *tables, *features


def declare_calibrate(parser: argparse.ArgumentParser) -> None:
    """Arguments of `calibrate`."""
    _declare_predictions(parser, required=True)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="a .csv, .npz or .parquet file")


def calibrate_command(arguments: argparse.Namespace) -> None:
    """`shiftcal calibrate`."""
    from shiftcal.core.files import check_not_an_input, check_writable_folder
    from shiftcal.faces.calibrator import calibrate_predictions
    from shiftcal.runs.evaluation import evaluate
    from shiftcal.runs.prediction_tables import check_export_path, export_predictions

    check_export_path(arguments.out)
    features = [*files_of_spec(arguments.source_features), *files_of_spec(arguments.target_features)]
    check_not_an_input(arguments.out, [arguments.source, arguments.target, *features])
    check_writable_folder(arguments.out.absolute().parent)
    source, target, *inputs = _read_predictions(arguments)
    calibrated, diagnosis = calibrate_predictions(source, target, *inputs)
    export_predictions(calibrated, arguments.out)
    if target.labels is not None:
        print_metrics({"target as given": evaluate(target), "target calibrated": evaluate(calibrated)})
    print(diagnosis.verdict())
    print(f"{len(calibrated)} predictions: {arguments.out}")


def declare_estimate(parser: argparse.ArgumentParser) -> None:
    """Arguments of `estimate`."""
    parser.add_argument(
        "run_folder", type=Path, nargs="?", metavar="RUN", help="folder of a finished run; or give --source, --target"
    )
    parser.add_argument("--data", metavar="SPEC", help=f"rows without labels, with RUN: {SPEC_HELP}")
    _declare_predictions(parser, required=False)
    parser.add_argument("--json", action="store_true", help="print JSON")
    declare_download(parser)


def estimate_command(arguments: argparse.Namespace) -> None:
    """`shiftcal estimate`."""
    from shiftcal.faces.calibrator import estimate_predictions
    from shiftcal.runs.folder import RunFolder
    from shiftcal.runs.run_data import load_domain_for
    from shiftcal.training.fitted_model import load_model

    by_run = arguments.run_folder is not None and arguments.data is not None
    by_tables = arguments.source is not None and arguments.target is not None
    if by_run == by_tables:
        raise InvalidInputError(
            "expected either a run and data (shiftcal estimate RUN --data SPEC) or two tables of predictions "
            "(shiftcal estimate --source FILE --target FILE)"
        )
    if by_run:
        model = load_model(RunFolder(arguments.run_folder).checkpoint)
        found = model.estimate(load_domain_for(model, arguments.data, download=arguments.download).inputs)
    else:
        found = estimate_predictions(*_read_predictions(arguments))
    if arguments.json:
        print(json.dumps(found.as_plain(), indent=2))
        return
    print(found.verdict)
    print(f"to be expected on {found.num_rows} rows, with a 90 % interval:")
    for name, metric in found.metrics.items():
        print(f"  {name:26}{metric}")
