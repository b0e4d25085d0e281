"""The parser of commands: what is unknown is named, with the closest thing that is known."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from shiftcal import __version__
from shiftcal.core.errors import UnknownNameError
from shiftcal.faces.cli.answers import Answer


class Command(NamedTuple):
    """An entry of the table of commands."""

    summary: str
    declare: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], Answer | None]
    """None where there is nothing to say, as in the second of two processes of one run."""
    example: str = ""
    """A line that works, or would with the reader's own data."""
    json: Mapping[str, str] = {}
    """Keys of the document that `--json` prints, and what they hold; none: there is no such option."""


def build_parser(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = _Parser(
        prog="shiftcal",
        description="Classifiers whose probabilities can be trusted on data unlike their training data.",
    )
    parser.add_argument("--version", action="version", version=f"shiftcal {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in commands.items():
        subparser = subparsers.add_parser(
            name,
            help=command.summary,
            description=command.summary,
            epilog=_epilog(command),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.declare(subparser)
        if command.json:
            subparser.add_argument(
                "--json", action="store_true", help="print one JSON document, as below, and words to standard error"
            )
        subparser.set_defaults(run=command.run)
    return parser


def _epilog(command: Command) -> str:
    parts = [f"example:\n  {command.example}"] if command.example else []
    if command.json:
        width = max(map(len, command.json)) + 2
        parts.append("--json prints:\n" + "\n".join(f"  {key:<{width}}{doc}" for key, doc in command.json.items()))
    return "\n\n".join(parts)


class _Parser(argparse.ArgumentParser):
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As ever, but an unknown option is told first: it is often the one that is said to be missing."""
        given: Sequence[str] = sys.argv[1:] if args is None else args
        # What follows the name of a command is the affair of that command's parser.
        own = itertools.takewhile(lambda each: self._subparsers is None or each.startswith("-"), given)
        for each in itertools.takewhile(lambda each: each != "--", own):
            name = each.partition("=")[0]
            known = [option for option in self._option_string_actions if option.startswith("--")]
            if name.startswith("--") and not any(option.startswith(name) for option in known):
                self.error(str(UnknownNameError("option", name, known)))
        return super().parse_known_args(given, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            what = "command" if action.dest == "command" else "value"
            raise argparse.ArgumentError(action, str(UnknownNameError(what, value, map(str, action.choices))))

    def error(self, message: str) -> NoReturn:
        """One line instead of the whole usage."""
        self.exit(2, f"shiftcal: {message}{'' if message.endswith('.') else '.'} See `{self.prog} --help`.\n")
