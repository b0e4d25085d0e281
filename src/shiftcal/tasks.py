"""Named tasks: pairs of domains that methods are compared on, and suites of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations

from shiftcal.errors import InvalidInputError, UnknownNameError

SEPARATOR = "->"


@dataclass(frozen=True)
class Task:
    """Train on source and unlabelled target, evaluate on test (the target itself if None)."""

    source: str
    target: str
    test: str | None = None

    @property
    def name(self) -> str:
        """As it is written on the command line."""
        return f"{self.source}{SEPARATOR}{self.target}" + (f"@{self.test}" if self.test else "")


def _all_pairs(prefix: str, domains: Iterable[str]) -> tuple[Task, ...]:
    return tuple(Task(f"{prefix}/{source}", f"{prefix}/{target}") for source, target in permutations(domains, 2))


SUITES: dict[str, tuple[Task, ...]] = {
    # Embedded digits: needs no data. Shifted MNIST digits are other digits than those of the source.
    "demo": (
        Task("digits/mnist", "digits/uci"),
        Task("digits/uci", "digits/mnist"),
        Task("digits/mnist", "digits/mnist-rotated"),
        Task("digits/mnist", "digits/mnist-noisy"),
        Task("digits/mnist", "digits/mnist-contrast"),
    ),
    "digits": (
        Task("mnist", "usps", "usps:test"),
        Task("usps", "mnist", "mnist:test"),
        Task("svhn", "mnist", "mnist:test"),
        Task("mnist", "mnist-m", "mnist-m:test"),
    ),
    "office-31-features": _all_pairs("office-31-features", ("amazon", "dslr", "webcam")),
    "office-home-features": _all_pairs("office-home-features", ("Art", "Clipart", "Product", "Real_World")),
}


def parse_tasks(text: str) -> list[Task]:
    """Tasks from a list with commas: names of suites, or SOURCE->TARGET, or SOURCE->TARGET@TEST.

    Raises:
        UnknownNameError: an entry is neither.
        InvalidInputError: the list is empty.
    """
    tasks: list[Task] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        if entry in SUITES:
            tasks.extend(SUITES[entry])
            continue
        source, separator, rest = (part.strip() for part in entry.partition(SEPARATOR))
        target, _, test = (part.strip() for part in rest.partition("@"))
        if not (separator and source and target):
            raise UnknownNameError(
                "task or suite (a task is written SOURCE->TARGET or SOURCE->TARGET@TEST)", entry, SUITES
            )
        tasks.append(Task(source, target, test or None))
    if not tasks:
        raise InvalidInputError("expected at least one task or suite, got none")
    return list(dict.fromkeys(tasks))
