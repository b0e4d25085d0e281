"""Commands on what a model says: predict, evaluate, calibrate, estimate."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from shiftcal.core.errors import InvalidInputError
from shiftcal.faces.cli.answers import Answer, metrics_text
from shiftcal.faces.cli.arguments import (
    SPEC_HELP,
    declare_download,
    declare_engine,
    declare_table_columns,
    files_of_spec,
    table_columns,
)

if TYPE_CHECKING:
    from shiftcal.faces.calibration.file_calibration import PredictionFiles


def declare_predict(parser: argparse.ArgumentParser) -> None:
    """Arguments of `predict`."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder of a finished run")
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--data", metavar="SPEC", help=SPEC_HELP)
    given.add_argument(
        "--files", type=Path, nargs="+", metavar="FILE", help="or many files; --out is then a folder, for one of each"
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="a .csv, .npz or .parquet file; the columns of a table come back in .csv and .parquet",
    )
    declare_table_columns(parser)
    _declare_many_files(parser, "scores --files", ("csv", "parquet", "npz"))
    declare_download(parser)


def _declare_many_files(parser: argparse.ArgumentParser, work: str, formats: tuple[str, ...]) -> None:
    """Arguments for results of many files."""
    parser.add_argument("--format", choices=formats, default=formats[0], help="of the results of many files")
    declare_engine(parser, work)


PREDICTION_JSON = {
    "predictions": "the file, or the folder of many",
    "num_rows": "in all",
    "num_files": "of results",
}
"""Of `predict`, and of `calibrate --targets`."""


def predict_command(arguments: argparse.Namespace) -> Answer:
    """`shiftcal predict`."""
    from shiftcal.core.files import check_not_an_input, check_writable_folder
    from shiftcal.runs.file_predictions import predict_file
    from shiftcal.runs.folder import RunFolder
    from shiftcal.runs.many_files import checksum
    from shiftcal.runs.prediction_tables import check_export_path

    table = table_columns(arguments)
    if arguments.files is not None:
        made_by = f"{checksum(RunFolder(arguments.run_folder).checkpoint)} {table}"
        return _do_many_files(partial(predict_file, arguments.run_folder, table), arguments.files, made_by, arguments)
    check_export_path(arguments.out)
    check_not_an_input(arguments.out, [*files_of_spec(arguments.data), *arguments.run_folder.rglob("*.npz")])
    check_writable_folder(arguments.out.absolute().parent)
    num_rows = predict_file(arguments.run_folder, table, arguments.data, arguments.out, download=arguments.download)
    return _predictions_answer(arguments.out, num_rows, num_files=1)


def _do_many_files(
    work: Callable[[Path, Path], int], files: Sequence[Path], made_by: str, arguments: argparse.Namespace
) -> Answer:
    from shiftcal.runs.engines import find_engine
    from shiftcal.runs.many_files import for_each_file

    engine = find_engine(arguments.engine, arguments.jobs)
    done = for_each_file(work, files, arguments.out, suffix=f".{arguments.format}", made_by=made_by, engine=engine)
    return _predictions_answer(arguments.out, sum(each.num_rows for each in done), len(done))


def _predictions_answer(out: Path, num_rows: int, num_files: int) -> Answer:
    plain = {"predictions": str(out), "num_rows": num_rows, "num_files": num_files}
    of_files = f" of {num_files} files" if num_files > 1 else ""
    return Answer(plain, f"{num_rows} predictions{of_files}: {out}")


def declare_evaluate(parser: argparse.ArgumentParser) -> None:
    """Arguments of `evaluate`."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder of a finished run")
    parser.add_argument("--data", required=True, metavar="SPEC", help=f"labelled data: {SPEC_HELP}")
    declare_table_columns(parser)
    declare_download(parser)


EVALUATION_JSON = {
    "METRIC": "number, for each of `shiftcal list metrics`; null where it is not defined",
    "pseudo_labels": "of self-training on these rows: [{epoch, share, estimated_precision, true_precision}]",
}


def evaluate_command(arguments: argparse.Namespace) -> Answer:
    """`shiftcal evaluate`."""
    from shiftcal.runs.evaluation import evaluate, precision_by_round, predict_domain
    from shiftcal.runs.folder import RunFolder
    from shiftcal.runs.run_data import load_domain_for
    from shiftcal.training.saved_model import load_model

    model = load_model(RunFolder(arguments.run_folder).checkpoint)
    domain = load_domain_for(model, arguments.data, table=table_columns(arguments), download=arguments.download)
    metrics = evaluate(predict_domain(model, domain))
    rounds = precision_by_round(model, domain)
    text = metrics_text({arguments.data: metrics})
    if not rounds:
        return Answer(metrics, text)
    lines = ["  " + "  ".join(f"{name} {value:.4g}" for name, value in row.items()) for row in rounds]
    told = "\n".join([text, "pseudo-labels of training, if these rows are its target:", *lines])
    return Answer({**metrics, "pseudo_labels": rounds}, told)


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
    from shiftcal.faces.calibration.file_calibration import PredictionFiles
    from shiftcal.runs.prediction_columns import ColumnChoice

    features = [
        None if spec is None else load_features(spec)
        for spec in (arguments.source_features, arguments.target_features)
    ]
    choice = ColumnChoice(arguments.columns, arguments.label, arguments.scale)
    return PredictionFiles(arguments.source, arguments.target, features[0], features[1], choice)


def declare_calibrate(parser: argparse.ArgumentParser) -> None:
    """Arguments of `calibrate`."""
    _declare_predictions(parser, required=False)
    parser.add_argument(
        "--targets",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="instead of --target, many files, each a target of its own; --out is then a folder, for one of each",
    )
    _declare_many_files(parser, "calibrates --targets", ("csv", "parquet", "npz"))
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="the table of the target with calibrated columns beside its own: .csv, .csv.gz, .parquet or .npz",
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write a page: what to expect, and pictures")


ESTIMATE_JSON = {
    "verdict": "what to expect, in words",
    "metrics": "{NAME: {value, low, high}}: expected without labels, with 90 % intervals; accuracy is one of them",
    "kind_of_shift": "none, prior, part, covariate, new classes or outside",
    "shifted_share": "of the rows, those that are not as on the source",
    "new_classes": "{share, seen_share, num_clusters} of rows of none of the source's classes; null: none are seen",
    "num_rows": "that this is of",
    "classes": "in the order of what follows",
    "class_frequencies": "expected; rows of new classes count among those of known ones",
    "confusion": "the same: share of rows, by true class (first) and predicted class",
    "looked_at": "what structure was looked for in",
    "odd_inputs": "[{...}]: columns that are unlike the source's",
    "witnesses": "what the accuracy was estimated from",
    "report": "the page; null if none was asked for",
}
CALIBRATION_JSON = {
    **ESTIMATE_JSON,
    "notes": "what was guessed of the columns",
    "metrics_by_labels": "{NAME: {METRIC: number}}, as given and calibrated, where the target has labels",
    "predictions": "the file",
}


def calibrate_command(arguments: argparse.Namespace) -> Answer:
    """`shiftcal calibrate`."""
    from shiftcal.core.files import check_not_an_input, check_writable_folder
    from shiftcal.faces.calibration.file_calibration import calibrate_file, calibrate_files
    from shiftcal.runs.many_files import checksum
    from shiftcal.runs.prediction_columns import ColumnChoice

    if arguments.source is None or (arguments.target is None) == (arguments.targets is None):
        raise InvalidInputError("expected --source FILE and either --target FILE or --targets FILE ...")
    if arguments.targets is not None:
        if arguments.source_features or arguments.target_features or arguments.report:
            raise InvalidInputError("features and a report are of one target: expected --target, got --targets")
        choice = ColumnChoice(arguments.columns, arguments.label, arguments.scale)
        work = partial(calibrate_file, arguments.source, choice)
        return _do_many_files(work, arguments.targets, f"{checksum(arguments.source)} {choice}", arguments)
    features = [*files_of_spec(arguments.source_features), *files_of_spec(arguments.target_features)]
    inputs = [arguments.source, arguments.target, *features]
    check_not_an_input(arguments.out, inputs)
    check_not_an_input(arguments.report, [*inputs, arguments.out])
    for path in filter(None, (arguments.out, arguments.report)):
        check_writable_folder(path.absolute().parent)
    found = calibrate_files(_prediction_files(arguments), arguments.out)
    if arguments.report is not None:
        from shiftcal.faces.calibration.report import write_calibration_report

        write_calibration_report(found.fitted, arguments.report)
    _say(found.notes)
    lines = [found.fitted.verdict(), *filter(None, [metrics_text(found.metrics)])]
    lines.append(f"{found.fitted.num_target_rows} predictions: {arguments.out}")
    if arguments.report is not None:
        lines.append(f"report: {arguments.report}")
    report = None if arguments.report is None else str(arguments.report)
    return Answer({**found.as_plain(), "predictions": str(arguments.out), "report": report}, "\n".join(lines))


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
    parser.add_argument("--report", type=Path, metavar="FILE", help="write a page of it")
    declare_download(parser)


def estimate_command(arguments: argparse.Namespace) -> Answer:
    """`shiftcal estimate`."""
    from shiftcal.core.files import check_not_an_input, check_writable_folder
    from shiftcal.faces.calibration.file_calibration import fit_files
    from shiftcal.runs.folder import RunFolder
    from shiftcal.runs.run_data import load_domain_for
    from shiftcal.training.saved_model import load_model

    by_run = arguments.run_folder is not None and arguments.data is not None
    by_tables = arguments.source is not None and arguments.target is not None
    if by_run == by_tables:
        raise InvalidInputError(
            "expected either a run and data (shiftcal estimate RUN --data SPEC) or two tables of predictions "
            "(shiftcal estimate --source FILE --target FILE)"
        )
    if arguments.report is not None:
        features = (arguments.source_features, arguments.target_features, arguments.data)
        given = [path for path in (arguments.source, arguments.target) if path is not None]
        check_not_an_input(arguments.report, [*given, *(file for spec in features for file in files_of_spec(spec))])
        check_writable_folder(arguments.report.absolute().parent)
    if by_run:
        model = load_model(RunFolder(arguments.run_folder).checkpoint)
        found = model.estimate(load_domain_for(model, arguments.data, download=arguments.download).inputs)
        if model.held_out is not None and model.held_out.is_sample:
            _say(["a run keeps a sample of its source rows: of its own target, fit may have said a little else"])
    else:
        fitted, columns = fit_files(_prediction_files(arguments))
        _say(columns.notes)
        found = fitted.target_estimate()
    lines = [f"  {name:26}{metric}" for name, metric in found.metrics.items()]
    title = f"to be expected on {found.num_rows} rows, with a 90 % interval:"
    report = None if arguments.report is None else str(arguments.report)
    if report is not None:
        from shiftcal.runs.reporting.calibration_page import write_estimate_page

        write_estimate_page(found, arguments.report, "What to expect on data without labels")
        lines.append(f"report: {report}")
    return Answer({**found.as_plain(), "report": report}, "\n".join([found.verdict, title, *lines]))
