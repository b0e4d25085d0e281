"""The command line: a table of commands, each a few lines around a function of the library."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

from shiftcal import __version__
from shiftcal.core.errors import ShiftcalError, TrainingInterrupted
from shiftcal.faces.cli.comparisons import (
    compare_command,
    declare_compare,
    declare_list,
    declare_report,
    declare_reproduce,
    list_command,
    report_command,
    reproduce_command,
)
from shiftcal.faces.cli.labelling import declare_label, label_command
from shiftcal.faces.cli.monitoring import declare_monitor, monitor_command
from shiftcal.faces.cli.predictions import (
    calibrate_command,
    declare_calibrate,
    declare_estimate,
    declare_evaluate,
    declare_predict,
    estimate_command,
    evaluate_command,
    predict_command,
)
from shiftcal.faces.cli.runs import (
    declare_demo,
    declare_fit,
    declare_run,
    demo_command,
    fit_command,
    run_command,
)
from shiftcal.faces.cli.setup import (
    cache_command,
    completion_command,
    declare_cache,
    declare_completion,
    declare_doctor,
    doctor_command,
)

_INPUT_ERROR = 2
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, or its own; 2 for an error of the input, 130 if interrupted."""
    parser = build_parser()
    parsed = parser.parse_args(arguments)
    try:
        with warnings.catch_warnings():  # shown as a sentence, without the line of code that they come from
            warnings.showwarning = lambda message, *_, **__: print(f"shiftcal: {message}", file=sys.stderr)
            code: int | None = parsed.run(parsed)
    except TrainingInterrupted as interruption:
        again = "with --resume " if hasattr(parsed, "resume") else ""
        print(f"\nshiftcal: {interruption}; the state is saved, the same command {again}goes on", file=sys.stderr)
        return _INTERRUPTED
    except ShiftcalError as error:
        print(f"shiftcal: {_printable(error)}", file=sys.stderr)
        return _INPUT_ERROR
    except KeyboardInterrupt:
        print("\nshiftcal: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        sys.stderr.close()
        return 0
    except OSError as error:  # of a path that no file can have, that may not be looked at, on a disk that fails
        print(f"shiftcal: {_printable(error)}", file=sys.stderr)
        return _INPUT_ERROR
    return code or 0


def _printable(error: Exception) -> str:
    """A message in which names from files can't steer the terminal, nor fail to be encoded."""
    return "".join(each if each.isprintable() or each == "\n" else repr(each)[1:-1] for each in str(error))


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="shiftcal",
        description="Classifiers whose probabilities can be trusted on data unlike their training data.",
    )
    parser.add_argument("--version", action="version", version=f"shiftcal {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        epilog = f"example:\n  {command.example}" if command.example else None
        subparser = commands.add_parser(
            name,
            help=command.summary,
            description=command.summary,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.declare(subparser)
        subparser.set_defaults(run=command.run)
    return parser


class Command(NamedTuple):
    """An entry of the table of commands."""

    summary: str
    declare: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int | None]
    """Gives an exit code, where there is more to say than that it went well."""
    example: str = ""
    """A line that works, or would with the reader's own data."""


COMMANDS: dict[str, Command] = {
    "demo": Command(
        "compare three methods on digits that ship inside packages, and write a report", declare_demo, demo_command
    ),
    "fit": Command(
        "train on labelled source and unlabelled target data",
        declare_fit,
        fit_command,
        "shiftcal fit --source digits/mnist --target digits/uci --out runs/first",
    ),
    "run": Command(
        "the same, by a configuration file",
        declare_run,
        run_command,
        "shiftcal run runs/first/config.yaml --out runs/again",
    ),
    "predict": Command(
        "probabilities and density ratios for new data",
        declare_predict,
        predict_command,
        "shiftcal predict runs/first --data digits/uci --out predictions.csv",
    ),
    "calibrate": Command(
        "trustworthy probabilities on a target, from a trained model's predictions",
        declare_calibrate,
        calibrate_command,
        "shiftcal calibrate --source validation.csv --target new.csv --out calibrated.csv",
    ),
    "estimate": Command(
        "accuracy and other metrics to expect on data without labels, with intervals",
        declare_estimate,
        estimate_command,
        "shiftcal estimate runs/first --data digits/uci",
    ),
    "monitor": Command(
        "a deployed model's batches against a reference: accuracy, drift, alarms (exit code 1)",
        declare_monitor,
        monitor_command,
    ),
    "label": Command(
        "which rows to label, and the accuracy on all rows from the few labels that came back",
        declare_label,
        label_command,
    ),
    "evaluate": Command(
        "metrics on labelled data",
        declare_evaluate,
        evaluate_command,
        "shiftcal evaluate runs/first --data digits/uci",
    ),
    "compare": Command(
        "methods x tasks x seeds on equal terms",
        declare_compare,
        compare_command,
        "shiftcal compare --tasks demo --methods calibrated,adapted,mcc+target-scaling --out comparison",
    ),
    "reproduce": Command(
        "a table or figure of the paper, by one command",
        declare_reproduce,
        reproduce_command,
        "shiftcal reproduce gaussian",
    ),
    "report": Command(
        "make the report of runs or of a comparison again",
        declare_report,
        report_command,
        "shiftcal report runs/first",
    ),
    "list": Command("what there is to choose from", declare_list, list_command, "shiftcal list methods --long"),
    "cache": Command(
        "features of frozen backbones that are kept on the disk: where, how much, and how to be rid of them",
        declare_cache,
        cache_command,
        "shiftcal cache --clear",
    ),
    "doctor": Command("look at the installation, the machine and the data", declare_doctor, doctor_command),
    "completion": Command(
        "a script that completes commands in your shell",
        declare_completion,
        completion_command,
        "shiftcal completion bash > ~/.local/share/bash-completion/completions/shiftcal",
    ),
}
