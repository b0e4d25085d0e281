"""The command line: a table of commands, each a few lines around a function of the library."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout

from shiftcal.core.errors import ShiftcalError, TrainingInterrupted
from shiftcal.faces.cli import comparisons, labelling, monitoring, predictions, runs, setup
from shiftcal.faces.cli.answers import Answer
from shiftcal.faces.cli.parsing import Command, build_parser

_INPUT_ERROR = 2
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, or its own; 2 for an error of the input, 130 if interrupted."""
    parsed = build_parser(COMMANDS).parse_args(arguments)
    as_json = getattr(parsed, "json", False)
    try:
        with warnings.catch_warnings():  # shown as a sentence, without the line of code that they come from
            warnings.showwarning = lambda message, *_, **__: print(f"shiftcal: {message}", file=sys.stderr)
            # What is told along the way, by us or by a model of the user's, is no part of a document.
            with redirect_stdout(sys.stderr) if as_json else nullcontext():
                answer: Answer | None = parsed.run(parsed)
        if answer is not None:
            print(answer.as_json() if as_json else answer.text, flush=True)
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
    return 0 if answer is None else answer.exit_code


def _printable(error: Exception) -> str:
    """A message in which names from files can't steer the terminal, nor fail to be encoded."""
    return "".join(each if each.isprintable() or each == "\n" else repr(each)[1:-1] for each in str(error))


COMMANDS: dict[str, Command] = {
    "demo": Command(
        "compare three methods on digits that ship inside packages, and write a report",
        runs.declare_demo,
        runs.demo_command,
        "shiftcal demo --out demo-results",
        comparisons.COMPARISON_JSON,
    ),
    "fit": Command(
        "train on labelled source and unlabelled target data, and say what to expect on the target",
        runs.declare_fit,
        runs.fit_command,
        "shiftcal fit --source train.csv --target new.csv --label income --out runs/first",
        runs.RUN_JSON,
    ),
    "run": Command(
        "the same, by a configuration file",
        runs.declare_run,
        runs.run_command,
        "shiftcal run runs/first/config.yaml --out runs/again",
        runs.RUN_JSON,
    ),
    "predict": Command(
        "probabilities and density ratios for new data",
        predictions.declare_predict,
        predictions.predict_command,
        "shiftcal predict runs/first --data digits/uci --out predictions.csv",
        predictions.PREDICTION_JSON,
    ),
    "calibrate": Command(
        "trustworthy probabilities on a target, from a trained model's predictions",
        predictions.declare_calibrate,
        predictions.calibrate_command,
        "shiftcal calibrate --source validation.csv --target new.csv --out calibrated.csv",
        predictions.CALIBRATION_JSON,
    ),
    "estimate": Command(
        "accuracy and other metrics to expect on data without labels, with intervals",
        predictions.declare_estimate,
        predictions.estimate_command,
        "shiftcal estimate runs/first --data digits/uci",
        predictions.ESTIMATE_JSON,
    ),
    "monitor": Command(
        "a deployed model's batches against a reference: accuracy, drift, alarms (exit code 1)",
        monitoring.declare_monitor,
        monitoring.monitor_command,
        "shiftcal monitor --reference held_out.csv --batches days/ --state monitor.jsonl --report monitor.html",
        monitoring.MONITOR_JSON,
    ),
    "label": Command(
        "which rows to label, and the accuracy on all rows from the few labels that came back",
        labelling.declare_label,
        labelling.label_command,
        "shiftcal label --reference held_out.csv --target today.csv --budget 100 --out to_label.csv",
        labelling.LABEL_JSON,
    ),
    "evaluate": Command(
        "metrics on labelled data",
        predictions.declare_evaluate,
        predictions.evaluate_command,
        "shiftcal evaluate runs/first --data digits/uci",
        predictions.EVALUATION_JSON,
    ),
    "compare": Command(
        "methods x tasks x seeds on equal terms",
        comparisons.declare_compare,
        comparisons.compare_command,
        "shiftcal compare --tasks demo --methods calibrated,adapted,mcc+target-scaling --out comparison",
        comparisons.COMPARISON_JSON,
    ),
    "reproduce": Command(
        "a table or figure of the paper, by one command",
        comparisons.declare_reproduce,
        comparisons.reproduce_command,
        "shiftcal reproduce gaussian",
        comparisons.REPRODUCTION_JSON,
    ),
    "report": Command(
        "make the report of runs or of a comparison again",
        comparisons.declare_report,
        comparisons.report_command,
        "shiftcal report runs/first",
        comparisons.REPORT_JSON,
    ),
    "list": Command(
        "what there is to choose from",
        comparisons.declare_list,
        comparisons.list_command,
        "shiftcal list methods --long",
        comparisons.LIST_JSON,
    ),
    "doctor": Command(
        "look at the installation, the machine and the data",
        setup.declare_doctor,
        setup.doctor_command,
        "shiftcal doctor",
        setup.DOCTOR_JSON,
    ),
    "cache": Command(
        "features of frozen backbones that are kept on the disk: where, how much, and how to be rid of them",
        setup.declare_cache,
        setup.cache_command,
        "shiftcal cache --clear",
        setup.CACHE_JSON,
    ),
    "completion": Command(
        "a script that completes commands in your shell",
        setup.declare_completion,
        setup.completion_command,
        "shiftcal completion bash > ~/.local/share/bash-completion/completions/shiftcal",
    ),
}
