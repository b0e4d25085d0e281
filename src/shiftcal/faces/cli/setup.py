"""Commands about the installation: doctor, completion."""

from __future__ import annotations

import argparse
import sys

from shiftcal.core.errors import MissingDependencyError
from shiftcal.faces.cli.answers import Answer

_WRONG = 2

DOCTOR_JSON = {
    "[].what": "was looked at",
    "[].found": "there, in words",
    "[].is_fine": "whether it is as it should be",
    "[].advice": "what to do, where there is something",
}


def declare_doctor(_: argparse.ArgumentParser) -> None:
    """`doctor` has no arguments."""


def doctor_command(_: argparse.Namespace) -> Answer:
    """`shiftcal doctor`: 0, or 2 if something is not as it should be."""
    from shiftcal.faces.doctor import examine

    checks = examine()
    lines = []
    for check in checks:
        lines.append(f"{'ok' if check.is_fine else '!!':<4}{check.what:<24}{check.found}")
        if check.advice:
            lines.append(f"    {'':<24}{check.advice}")
    wrong = [check.what for check in checks if not check.is_fine]
    if wrong:
        print(f"shiftcal: not as it should be: {', '.join(wrong)}", file=sys.stderr)
    return Answer([check._asdict() for check in checks], "\n".join(lines), _WRONG if wrong else 0)


def declare_cache(parser: argparse.ArgumentParser) -> None:
    """Arguments of `cache`."""
    parser.add_argument("--clear", action="store_true", help="remove all of them; who needs some makes them again")


CACHE_JSON = {"folder": "where features are kept", "num_sets": "of pictures", "num_bytes": "in all"}


def cache_command(arguments: argparse.Namespace) -> Answer:
    """`shiftcal cache`."""
    from shiftcal.data.feature_store import clear_features, features_folder, stored_size, summary

    if arguments.clear:
        clear_features()
    num_sets, num_bytes = stored_size()
    return Answer({"folder": str(features_folder()), "num_sets": num_sets, "num_bytes": num_bytes}, summary())


def declare_completion(parser: argparse.ArgumentParser) -> None:
    """Arguments of `completion`."""
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))


def completion_command(arguments: argparse.Namespace) -> Answer:
    """`shiftcal completion`."""
    try:
        import shtab
    except ModuleNotFoundError:
        raise MissingDependencyError("shell completion", "shtab", "completion") from None
    from shiftcal.faces.cli import COMMANDS
    from shiftcal.faces.cli.parsing import build_parser

    script = shtab.complete(build_parser(COMMANDS), arguments.shell)
    return Answer(script, script)
