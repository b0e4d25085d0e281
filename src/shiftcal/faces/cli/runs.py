"""Commands that train: demo, fit, run."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from shiftcal.faces.cli.answers import Answer, metrics_text
from shiftcal.faces.cli.arguments import (
    SPEC_HELP,
    declare_backbone,
    declare_download,
    declare_learning_curve,
    declare_settings,
    declare_table_columns,
    positive,
)
from shiftcal.faces.cli.comparisons import comparison_answer


def declare_demo(parser: argparse.ArgumentParser) -> None:
    """Arguments of `demo`."""
    parser.add_argument("--out", type=Path, default=Path("demo-results"), help="folder for the results")
    parser.add_argument("--seeds", type=positive, default=3, help="how often each method is trained on each task")
    parser.add_argument("--jobs", type=positive, default=None, help="processes at a time; by default up to 2")


def demo_command(arguments: argparse.Namespace) -> Answer:
    """`shiftcal demo`."""
    from shiftcal.faces.demo import run_demo

    table = run_demo(arguments.out, num_seeds=arguments.seeds, jobs=arguments.jobs)
    return comparison_answer(table, arguments.out.resolve())


RUN_JSON = {
    "verdict": "what to expect on the target, in words; null without one",
    "expected_accuracy": "{value, low, high}: found without labels, with its 90 % interval; null without a target",
    "kind_of_shift": "none, prior, part, covariate, new classes or outside",
    "shifted_share": "of the target's rows, those that are not as on the source",
    "metrics": "{source: {NAME: number}, target: {NAME: number}}; those that need labels only where there are labels",
    "columns_used": "of tables: what became of the columns, in words",
    "run": "folder of the run",
    "report": "the page",
}
"""Of `fit` and `run`."""


def declare_fit(parser: argparse.ArgumentParser) -> None:
    """Arguments of `fit`."""
    parser.add_argument("--source", required=True, metavar="SPEC", help=f"labelled data: {SPEC_HELP}")
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
    declare_backbone(parser, "see `shiftcal list backbones`")
    declare_table_columns(parser, of_source=True)
    parser.add_argument("--image-size", type=positive, help="side that images are brought to")
    parser.add_argument("--out", type=Path, required=True, metavar="RUN", help="folder for the run")
    declare_settings(parser)
    _declare_resume(parser)


def fit_command(arguments: argparse.Namespace) -> Answer | None:
    """`shiftcal fit`."""
    from shiftcal.runs.config import RunConfig

    config = RunConfig(
        source=arguments.source,
        target=arguments.target,
        test=arguments.test,
        source_test=arguments.source_test,
        method=arguments.method,
        calibrator=arguments.calibrator,
        backbone=arguments.backbone,
        freeze_backbone=arguments.freeze_backbone,
        image_size=arguments.image_size,
        label=arguments.label,
        id=arguments.id,
        ignore=arguments.ignore,
        columns=arguments.columns,
    )
    return _run_config(config, arguments)


def declare_run(parser: argparse.ArgumentParser) -> None:
    """Arguments of `run`."""
    parser.add_argument("config", type=Path, metavar="CONFIG", help="YAML file, such as config.yaml of another run")
    parser.add_argument(
        "--out", type=Path, metavar="RUN", help="folder for the run; default: runs/NAME, by the file or its folder"
    )
    declare_settings(parser)
    _declare_resume(parser)


def run_command(arguments: argparse.Namespace) -> Answer | None:
    """`shiftcal run`."""
    from shiftcal.core.files import check_not_an_input
    from shiftcal.runs.config import read_config
    from shiftcal.runs.folder import RunFolder

    config = read_config(arguments.config)
    if arguments.out is None:
        path = arguments.config.absolute()
        # The config.yaml of a finished run is repeated beside it, under a name of its own.
        arguments.out = Path("runs") / (path.stem if path.stem != "config" else f"{path.parent.name}-again")
    folder = RunFolder(arguments.out)
    if not folder.is_started:  # what a run without a checkpoint leaves is removed
        check_not_an_input(folder.config, [arguments.config])
    return _run_config(config, arguments)


def _run_config(config: object, arguments: argparse.Namespace) -> Answer | None:
    from shiftcal.core.processes import is_main_process
    from shiftcal.faces.run_summary import summarize_run
    from shiftcal.runs.config import RunConfig
    from shiftcal.runs.experiment import run_experiment

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
    if not is_main_process():
        return None
    summary = summarize_run(folder)
    more = [metrics_text(summary.metrics)] if arguments.verbose else []
    if config.freeze_backbone:
        from shiftcal.data.feature_store import summary as kept_features

        more.append(kept_features())
    return Answer(summary.as_plain(), "\n".join([*summary.words(), *more, f"report: {folder.report}"]))


def _declare_resume(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--verbose", action="store_true", help="print all metrics too; the report has them in any case"
    )
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run in the same folder")
    parser.add_argument(
        "--no-fallback",
        action="store_true",
        help="keep what a method makes by adapting to the target, without a look at whether that did harm",
    )
    declare_learning_curve(parser)
    declare_download(parser)
