"""Commands on what a model says: predict, evaluate, calibrate, estimate."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftcal.core.errors import InvalidInputError
from shiftcal.faces.cli.arguments import (
    SPEC_HELP,
    declare_download,
    declare_table_columns,
    files_of_spec,
    print_metrics,
)

if TYPE_CHECKING:
    from shiftcal.faces.file_calibration import PredictionFiles


def declare_predict(parser: argparse.ArgumentParser) -> None:
    """Arguments of `predict`."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder of a finished run")
    parser.add_argument("--data", required=True, metavar="SPEC", help=SPEC_HELP)
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="a .csv, .npz or .parquet file; the columns of a table come back in .csv and .parquet",
    )
    declare_table_columns(parser)
    declare_download(parser)


def predict_command(arguments: argparse.Namespace) -> None:
    """`shiftcal predict`."""
    from shiftcal.core.files import check_not_an_input, check_writable_folder
    from shiftcal.runs.folder import RunFolder
    from shiftcal.runs.prediction_tables import check_export_path
    from shiftcal.training.fitted_model import load_model

    check_export_path(arguments.out)
    check_not_an_input(arguments.out, [*files_of_spec(arguments.data), *arguments.run_folder.rglob("*.npz")])
    check_writable_folder(arguments.out.absolute().parent)
    checkpoint = RunFolder(arguments.run_folder).checkpoint
    print(f"{_score(load_model(checkpoint), checkpoint, arguments)} predictions: {arguments.out}")


def _score(model: Any, checkpoint: Path, arguments: argparse.Namespace) -> int:
    """Write the predictions, in parts where the data are large, and give their number."""
    from shiftcal.data.specs import table_as_written
    from shiftcal.data.table_encoder import TableColumns, TableEncoder, TableInputs
    from shiftcal.runs import scoring
    from shiftcal.runs.evaluation import predict_domain
    from shiftcal.runs.prediction_tables import export_predictions

    gathers = arguments.out.suffix.lower() == ".npz"
    large = scoring.large_table(arguments.data)
    if large is not None and isinstance(model.encoder, TableEncoder) and not gathers:
        roles = TableColumns(label=arguments.label, id=arguments.id)
        parts = scoring.table_parts(large, arguments.data, model.encoder, roles)
        return scoring.score_in_parts(model, parts, scoring.identity_of(checkpoint, large), arguments.out)
    domain = _domain_for(model, arguments)
    is_table = isinstance(domain.inputs, TableInputs)
    if len(domain) > scoring.ROWS_OF_A_PART and not is_table and not gathers:
        parts, identity = scoring.domain_parts(domain), scoring.identity_of(checkpoint, domain)
        return scoring.score_in_parts(model, parts, identity, arguments.out)
    predictions = predict_domain(model, domain)
    export_predictions(predictions, arguments.out, table_as_written(arguments.data) if is_table else None)
    return len(predictions)


def _domain_for(model: Any, arguments: argparse.Namespace) -> Any:
    from shiftcal.data.table_encoder import TableColumns
    from shiftcal.runs.run_data import load_domain_for

    table = TableColumns(label=arguments.label, id=arguments.id)
    return load_domain_for(model, arguments.data, table=table, download=arguments.download)


def declare_evaluate(parser: argparse.ArgumentParser) -> None:
    """Arguments of `evaluate`."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder of a finished run")
    parser.add_argument("--data", required=True, metavar="SPEC", help=f"labelled data: {SPEC_HELP}")
    declare_table_columns(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    declare_download(parser)


def evaluate_command(arguments: argparse.Namespace) -> None:
    """`shiftcal evaluate`."""
    from shiftcal.runs.evaluation import evaluate, precision_by_round, predict_domain
    from shiftcal.runs.folder import RunFolder
    from shiftcal.training.fitted_model import load_model

    model = load_model(RunFolder(arguments.run_folder).checkpoint)
    domain = _domain_for(model, arguments)
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
    table = "a table (csv of any separator, .csv.gz, .tsv, .parquet, .npz) with a column for each class"
    parser.add_argument(
        "--source",
        type=Path,
        required=required,
        metavar="FILE",
        help=f"what the model says of labelled source rows, best of rows it was not trained on: {table}, and labels",
    )
    parser.add_argument(
        "--target", type=Path, required=required, metavar="FILE", help=f"what it says of the target: {table}"
    )
    parser.add_argument(
        "--columns",
        metavar="CLASS=COLUMN,...",
        help="which column holds which class; one alone is the score of that class of a binary model; by default "
        "probability_<class>, or a guess that is said",
    )
    parser.add_argument("--label", metavar="COLUMN", help="the column of labels; by default label, or a guess")
    parser.add_argument(
        "--scale",
        choices=("auto", "probabilities", "percent", "logits"),
        default="auto",
        help="what the numbers are: probabilities, percent or logits; by default a guess that is said",
    )
    features = "features of the same rows, such as embeddings: an .npy file or any spec; makes it much better"
    parser.add_argument("--source-features", metavar="SPEC", help=features)
    parser.add_argument("--target-features", metavar="SPEC", help="the same for the target")


def _prediction_files(arguments: argparse.Namespace) -> PredictionFiles:
    from shiftcal.data.specs import load_features
    from shiftcal.faces.file_calibration import PredictionFiles
    from shiftcal.runs.prediction_columns import ColumnChoice

    features = [
        None if spec is None else load_features(spec)
        for spec in (arguments.source_features, arguments.target_features)
    ]
    choice = ColumnChoice(arguments.columns, arguments.label, arguments.scale)
    return PredictionFiles(arguments.source, arguments.target, features[0], features[1], choice)


def declare_calibrate(parser: argparse.ArgumentParser) -> None:
    """Arguments of `calibrate`."""
    _declare_predictions(parser, required=True)
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="the table of the target with calibrated columns beside its own: .csv, .csv.gz, .parquet or .npz",
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write a page: what to expect, and pictures")
    parser.add_argument("--json", action="store_true", help="print JSON")


def calibrate_command(arguments: argparse.Namespace) -> None:
    """`shiftcal calibrate`."""
    from shiftcal.core.files import check_writable_folder
    from shiftcal.faces.file_calibration import calibrate_files

    for path in filter(None, (arguments.out, arguments.report)):
        check_writable_folder(path.absolute().parent)
    found = calibrate_files(_prediction_files(arguments), arguments.out)
    if arguments.report is not None:
        from shiftcal.faces.calibration_report import write_calibration_report

        write_calibration_report(found.fitted, arguments.report)
    _say(found.notes)
    if arguments.json:
        print(json.dumps(found.as_plain(), indent=2))
        return
    print_metrics(found.metrics)
    print(found.fitted.verdict())
    print(f"{found.fitted.num_target_rows} predictions: {arguments.out}")
    if arguments.report is not None:
        print(f"report: {arguments.report}")


def _say(notes: Sequence[str]) -> None:
    """What was guessed, beside the output proper."""
    for note in notes:
        print(f"shiftcal: {note}", file=sys.stderr)


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
    from shiftcal.faces.file_calibration import fit_files
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
        fitted, columns = fit_files(_prediction_files(arguments))
        _say(columns.notes)
        found = fitted.target_estimate()
    if arguments.json:
        print(json.dumps(found.as_plain(), indent=2))
        return
    print(found.verdict)
    print(f"to be expected on {found.num_rows} rows, with a 90 % interval:")
    for name, metric in found.metrics.items():
        print(f"  {name:26}{metric}")
