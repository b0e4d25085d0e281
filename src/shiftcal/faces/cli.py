"""The command line: a table of commands, each a few lines around a function of the library."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from shiftcal import __version__
from shiftcal.core.errors import ShiftcalError, TrainingInterrupted

_INPUT_ERROR = 2
_INTERRUPTED = 130

_SPEC_HELP = "a folder, an image list, an npz/npy file or a catalog name (`shiftcal list datasets`)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 2 for an error of the input, 130 if interrupted."""
    parser = build_parser()
    parsed = parser.parse_args(arguments)
    try:
        parsed.run(parsed)
    except TrainingInterrupted as interruption:
        again = "with --resume " if hasattr(parsed, "resume") else ""
        print(f"\nshiftcal: {interruption}; the state is saved, the same command {again}goes on", file=sys.stderr)
        return _INTERRUPTED
    except ShiftcalError as error:
        print(f"shiftcal: {error}", file=sys.stderr)
        return _INPUT_ERROR
    except KeyboardInterrupt:
        print("\nshiftcal: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        sys.stderr.close()
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="shiftcal",
        description="Classifiers whose probabilities can be trusted on data unlike their training data.",
    )
    parser.add_argument("--version", action="version", version=f"shiftcal {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(name, help=command.summary, description=command.summary)
        command.declare(subparser)
        subparser.set_defaults(run=command.run)
    return parser


def _declare_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=Path("demo-results"), help="folder for the results")
    parser.add_argument("--seeds", type=_positive, default=3, help="how often each method is trained on each task")
    parser.add_argument("--jobs", type=_positive, default=None, help="processes at a time; by default up to 2")


def _demo(arguments: argparse.Namespace) -> None:
    from shiftcal.faces.demo import run_demo

    run_demo(arguments.out, num_seeds=arguments.seeds, jobs=arguments.jobs)


def _declare_fit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", required=True, metavar="SPEC", help=f"labelled data: {_SPEC_HELP}")
    parser.add_argument(
        "--target", metavar="SPEC", help="data without (or with ignored) labels; none: no shift known"
    )
    parser.add_argument(
        "--test", metavar="SPEC", help="data to predict and evaluate on afterwards; default: the target"
    )
    parser.add_argument(
        "--source-test", metavar="SPEC", help="the same for the source; default: the part of it that is held out"
    )
    parser.add_argument(
        "--method",
        default="calibrated",
        metavar="NAME",
        help="see `shiftcal list methods`, and `shiftcal list compositions` for a method with its calibrator",
    )
    parser.add_argument("--calibrator", metavar="NAME", help="see `shiftcal list calibrators`")
    parser.add_argument("--backbone", default="auto", metavar="NAME", help="see `shiftcal list backbones`")
    parser.add_argument("--image-size", type=_positive, help="side that images are brought to")
    parser.add_argument("--out", type=Path, required=True, metavar="RUN", help="folder for the run")
    _declare_settings(parser)
    _declare_resume(parser)


def _fit(arguments: argparse.Namespace) -> None:
    from shiftcal.runs.config import RunConfig

    config = RunConfig(
        source=arguments.source,
        target=arguments.target,
        test=arguments.test,
        source_test=arguments.source_test,
        method=arguments.method,
        calibrator=arguments.calibrator,
        backbone=arguments.backbone,
        image_size=arguments.image_size,
    )
    _run_config(config, arguments)


def _declare_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", type=Path, metavar="CONFIG", help="YAML file, such as config.yaml of another run")
    parser.add_argument(
        "--out", type=Path, metavar="RUN", help="folder for the run; default: runs/NAME, by the file or its folder"
    )
    _declare_settings(parser)
    _declare_resume(parser)


def _run(arguments: argparse.Namespace) -> None:
    from shiftcal.runs.config import read_config

    config = read_config(arguments.config)
    if arguments.out is None:
        path = arguments.config.absolute()
        # The config.yaml of a finished run is repeated beside it, under a name of its own.
        arguments.out = Path("runs") / (path.stem if path.stem != "config" else f"{path.parent.name}-again")
    _run_config(config, arguments)


def _run_config(config: object, arguments: argparse.Namespace) -> None:
    from shiftcal.core.processes import is_main_process
    from shiftcal.runs.config import RunConfig
    from shiftcal.runs.experiment import run_experiment
    from shiftcal.target.diagnosis import TargetFindings

    assert isinstance(config, RunConfig)
    config = config.with_settings(arguments.set)
    if arguments.no_fallback:
        config = replace(config, fallback=False)
    folder = run_experiment(
        config,
        arguments.out,
        resume=arguments.resume,
        download=arguments.download,
        learning_curve=arguments.learning_curve,
    )
    if is_main_process():
        _print_metrics(folder.read_metrics())
        for verdict in TargetFindings.from_plain(folder.read_card()["findings"]).verdicts():
            print(verdict)
        print(f"report: {folder.report}")


def _declare_predict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder of a finished run")
    parser.add_argument("--data", required=True, metavar="SPEC", help=_SPEC_HELP)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="a .csv, .npz or .parquet file")
    _declare_download(parser)


def _predict(arguments: argparse.Namespace) -> None:
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


def _declare_calibrate(parser: argparse.ArgumentParser) -> None:
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


def _calibrate(arguments: argparse.Namespace) -> None:
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
        _print_metrics({"target as given": evaluate(target), "target calibrated": evaluate(calibrated)})
    print(diagnosis.verdict())
    print(f"{len(calibrated)} predictions: {arguments.out}")


def _declare_evaluate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder of a finished run")
    parser.add_argument("--data", required=True, metavar="SPEC", help=f"labelled data: {_SPEC_HELP}")
    parser.add_argument("--json", action="store_true", help="print JSON")
    _declare_download(parser)


def _evaluate(arguments: argparse.Namespace) -> None:
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
    _print_metrics({arguments.data: metrics})
    if rounds:
        print("pseudo-labels of training, if these rows are its target:")
        for row in rounds:
            print("  " + "  ".join(f"{name} {value:.4g}" for name, value in row.items()))


def _declare_compare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tasks", required=True, metavar="T,..", help="suites (`shiftcal list tasks`) or 'SOURCE->TARGET[@TEST]'"
    )
    parser.add_argument(
        "--methods",
        required=True,
        metavar="M,..",
        help="METHOD[key=value;..]+CALIBRATOR[key=value;..], or less of it",
    )
    parser.add_argument("--seeds", type=_positive, default=3, help="runs of each method on each task")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder; what is finished there is kept"
    )
    parser.add_argument("--backbone", default="auto", metavar="NAME", help="the same for every method")
    parser.add_argument("--image-size", type=_positive, help="side that images are brought to")
    parser.add_argument("--jobs", type=_positive, default=1, help="processes that train at the same time")
    _declare_settings(parser, "every method")
    _declare_learning_curve(parser)
    _declare_download(parser)


def _compare(arguments: argparse.Namespace) -> None:
    from shiftcal.runs.comparison import ComparisonPlan, parse_contenders, run_comparison
    from shiftcal.runs.reporting import as_text
    from shiftcal.runs.tasks import parse_tasks

    plan = ComparisonPlan(
        tasks=tuple(parse_tasks(arguments.tasks)),
        contenders=parse_contenders(arguments.methods),
        num_seeds=arguments.seeds,
        backbone=arguments.backbone,
        image_size=arguments.image_size,
        settings=tuple(arguments.set),
        download=arguments.download,
    )
    table = run_comparison(plan, arguments.out, jobs=arguments.jobs, learning_curves=arguments.learning_curve)
    print(as_text(table))
    print(f"report: {arguments.out / 'report.html'}")


def _declare_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", type=Path, nargs="+", metavar="RUN_OR_DIR", help="runs, or one comparison")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: report.html in the (first) folder")


def _report(arguments: argparse.Namespace) -> None:
    from shiftcal.runs.comparison import find_cells, write_tables
    from shiftcal.runs.experiment import read_contents
    from shiftcal.runs.folder import RunFolder
    from shiftcal.runs.reporting import write_report

    first = arguments.folders[0]
    path = arguments.out or first / "report.html"
    cells = find_cells(first) if len(arguments.folders) == 1 else {}
    if cells:
        write_tables(first, cells, report=path)
    else:
        runs = [read_contents(RunFolder(folder)) for folder in arguments.folders]
        if len({run.name for run in runs}) < len(runs):
            runs = [replace(run, name=str(folder)) for run, folder in zip(runs, arguments.folders, strict=True)]
        write_report(runs, path, title=" and ".join(str(folder) for folder in arguments.folders))
    print(f"report: {path}")


def _declare_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=_LISTED)


_LISTED = (
    "methods",
    "calibrators",
    "compositions",
    "estimators",
    "datasets",
    "backbones",
    "metrics",
    "tasks",
    "training",
)


def _list(arguments: argparse.Namespace) -> None:
    from shiftcal.faces import listings

    for line in getattr(listings, arguments.what)():
        print(line)


def _declare_settings(
    parser: argparse.ArgumentParser, owners: str = "the method, the calibrator (calibrator.KEY if in doubt)"
) -> None:
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"an option of {owners} or of training; see `shiftcal list`",
    )


def _declare_resume(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run in the same folder")
    parser.add_argument(
        "--no-fallback",
        action="store_true",
        help="keep what a method makes by adapting to the target, without a look at whether that did harm",
    )
    _declare_learning_curve(parser)
    _declare_download(parser)


def _declare_learning_curve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--learning-curve",
        action="store_true",
        help="evaluate the labelled test data after each epoch of training too; changes nothing else",
    )


def _declare_download(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--download", action="store_true", help="fetch catalog data sets that are absent")


def _positive(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text}")
    return value


def _print_metrics(metrics: object) -> None:
    assert isinstance(metrics, dict)
    for domain, numbers in metrics.items():
        print(f"{domain}:")
        for name, value in numbers.items():
            written = "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value).lower()
            print(f"  {name:<32}{written}")


class Command(NamedTuple):
    """An entry of the table of commands."""

    summary: str
    declare: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]


COMMANDS: dict[str, Command] = {
    "demo": Command(
        "compare three methods on digits that ship inside packages, and write a report", _declare_demo, _demo
    ),
    "fit": Command("train on labelled source and unlabelled target data", _declare_fit, _fit),
    "run": Command("the same, by a configuration file", _declare_run, _run),
    "predict": Command("probabilities and density ratios for new data", _declare_predict, _predict),
    "calibrate": Command(
        "trustworthy probabilities on a target, from a trained model's predictions", _declare_calibrate, _calibrate
    ),
    "evaluate": Command("metrics on labelled data", _declare_evaluate, _evaluate),
    "compare": Command("methods x tasks x seeds on equal terms", _declare_compare, _compare),
    "report": Command("make the report of runs or of a comparison again", _declare_report, _report),
    "list": Command("what there is to choose from", _declare_list, _list),
}
