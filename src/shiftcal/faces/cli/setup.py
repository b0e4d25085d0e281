"""Commands about the installation: doctor, completion."""

from __future__ import annotations

import argparse
import json

from shiftcal.core.errors import InvalidInputError, MissingDependencyError
from shiftcal.faces.cli.arguments import declare_json


def declare_doctor(parser: argparse.ArgumentParser) -> None:
    """Arguments of `doctor`."""
    declare_json(parser)


def doctor_command(arguments: argparse.Namespace) -> None:
    """`shiftcal doctor`."""
    from shiftcal.faces.doctor import examine

    checks = examine()
    if arguments.json:
        print(json.dumps([check._asdict() for check in checks], indent=1))
    else:
        for check in checks:
            print(f"{'ok' if check.is_fine else '!!':<4}{check.what:<24}{check.found}")
            if check.advice:
                print(f"    {'':<24}{check.advice}")
    wrong = [check.what for check in checks if not check.is_fine]
    if wrong:
        raise InvalidInputError(f"not as it should be: {', '.join(wrong)}")


def declare_cache(parser: argparse.ArgumentParser) -> None:
    """Arguments of `cache`."""
    parser.add_argument("--clear", action="store_true", help="remove all of them; who needs some makes them again")


def cache_command(arguments: argparse.Namespace) -> None:
    """`shiftcal cache`."""
    from shiftcal.data.feature_store import clear_features, summary

    if arguments.clear:
        clear_features()
    print(summary())


def declare_completion(parser: argparse.ArgumentParser) -> None:
    """Arguments of `completion`."""
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))


def completion_command(arguments: argparse.Namespace) -> None:
    """`shiftcal completion`."""
    try:
        import shtab
    except ModuleNotFoundError:
        raise MissingDependencyError("shell completion", "shtab", "completion") from None
    from shiftcal.faces.cli import build_parser

    print(shtab.complete(build_parser(), arguments.shell))
