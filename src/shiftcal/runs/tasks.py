"""Named tasks: pairs of domains that methods are compared on, and suites of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations

from shiftcal.core.errors import InvalidInputError, UnknownNameError

SEPARATOR = "->"


@dataclass(frozen=True)
class Task:
    """Train on source and unlabelled target, evaluate on test data of both."""

    source: str
    target: str
    test: str | None = None
    """None: the target itself."""
    source_test: str | None = None
    """None: the part of the source that training holds out."""

    @property
    def name(self) -> str:
        """As it is written on the command line."""
        return _with_test(self.source, self.source_test) + SEPARATOR + _with_test(self.target, self.test)


def _with_test(spec: str, test: str | None) -> str:
    return f"{spec}@{test}" if test else spec


def _with_own_test(source: str, target: str) -> Task:
    """A task between data sets that have test data of their own."""
    return Task(source, target, f"{target}:test", f"{source}:test")


def _all_pairs(prefix: str, domains: Iterable[str]) -> tuple[Task, ...]:
    return tuple(Task(f"{prefix}/{source}", f"{prefix}/{target}") for source, target in permutations(domains, 2))


_DIGITS = (
    Task("mnist", "usps", "usps:test"),
    Task("usps", "mnist", "mnist:test"),
    Task("svhn", "mnist", "mnist:test"),
    Task("mnist", "mnist-m", "mnist-m:test"),
)
_OFFICE_31 = _all_pairs("office-31-features", ("amazon", "dslr", "webcam"))
_OFFICE_HOME = _all_pairs("office-home-features", ("Art", "Clipart", "Product", "Real_World"))

SUITES: dict[str, tuple[Task, ...]] = {
    # Embedded digits: needs no data. Shifted MNIST digits are other digits than those of the source.
    "demo": (
        Task("digits/mnist", "digits/uci"),
        Task("digits/uci", "digits/mnist"),
        Task("digits/mnist", "digits/mnist-rotated"),
        Task("digits/mnist", "digits/mnist-noisy"),
        Task("digits/mnist", "digits/mnist-contrast"),
    ),
    "digits": _DIGITS,
    "office-31-features": _OFFICE_31,
    "office-home-features": _OFFICE_HOME,
    "adaptation": (*_OFFICE_31, *_OFFICE_HOME, *_DIGITS, Task("mnist", "svhn", "svhn:test")),
    # With few labels on the source: give each its number by label_budget, 4000 and 40000 in the paper.
    "semi-supervised-objects": (
        _with_own_test("cifar-10/nine", "stl-10/nine"),
        _with_own_test("stl-10/nine", "cifar-10/nine"),
    ),
    "semi-supervised-digits": (_with_own_test("mnist", "svhn"), _with_own_test("mnist", "mnist-m")),
}


def parse_tasks(text: str) -> list[Task]:
    """Tasks from a list with commas: names of suites, or SOURCE->TARGET, each with @TEST behind it or without.

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
        source, _, source_test = (part.strip() for part in source.partition("@"))
        target, _, test = (part.strip() for part in rest.partition("@"))
        if not (separator and source and target):
            raise UnknownNameError(
                "task or suite (a task is written SOURCE->TARGET@TEST or SOURCE@TEST->TARGET@TEST, or without @TEST)",
                entry,
                SUITES,
            )
        tasks.append(Task(source, target, test or None, source_test or None))
    if not tasks:
        raise InvalidInputError("expected at least one task or suite, got none")
    return list(dict.fromkeys(tasks))
