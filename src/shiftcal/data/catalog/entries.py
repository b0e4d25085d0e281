"""What the catalog knows of a data set, and the face that every way of storing one has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shiftcal.core.errors import InvalidInputError, UnknownNameError
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.image_files import Domain


@dataclass(frozen=True)
class Selection:
    """One part of a data set; domain and split are empty where the set has none."""

    name: str
    domain: str
    split: str

    @property
    def title(self) -> str:
        """The selection as a spec."""
        return self.name + (f"/{self.domain}" if self.domain else "") + (f":{self.split}" if self.split else "")


class Source(ABC):
    """One way in which a data set can be stored below a data folder."""

    can_download: bool = False

    @abstractmethod
    def find(self, root: Path, selection: Selection) -> Path | None:
        """Where the selection is stored below `root`, None if it is not there."""

    @abstractmethod
    def expected(self, root: Path, selection: Selection) -> str:
        """The place where `find` looks, for a reader."""

    @abstractmethod
    def load(self, place: Path, selection: Selection) -> Domain:
        """Read the selection from the place that `find` gave."""

    def download(self, root: Path, selection: Selection) -> Domain:
        """Fetch the data set into `root` and read the selection."""
        raise NotImplementedError(f"{type(self).__name__} has no download")


@dataclass(frozen=True)
class CatalogEntry:
    """A public data set: what it is, its parts, how to get it, and the ways in which it is stored."""

    name: str
    description: str
    reference: str
    homepage: str
    how_to_get: str
    sources: tuple[Source, ...]
    domains: Mapping[str, str] = field(default_factory=dict)
    """A word on each domain; empty for a set that has no domains."""
    default_domain: str = ""
    """The domain that the name alone stands for; empty if one has to be named."""
    splits: tuple[str, ...] = ()
    default_splits: Mapping[str, str] = field(default_factory=dict)
    """Domains whose default split is not the first one."""
    views: Mapping[str, Callable[[LabelledDomain], LabelledDomain]] = field(default_factory=dict)
    """Domains that are made of what is stored by a function."""

    def select(self, domain: str, split: str) -> Selection:
        """The selection of that domain and split, either of which may be empty for the default.

        Raises:
            UnknownNameError: the set has no such domain or split.
            InvalidInputError: a domain has to be named.
        """
        if not (domain or self.default_domain) and self.domains:
            choices = ", ".join(f"{self.name}/{known}" for known in self.domains)
            raise InvalidInputError(f"{self.name!r} has several domains, choose one: {choices}")
        domain = _matched(domain, self.domains, f"domain of {self.name!r}") if domain else self.default_domain
        split = _matched(split, self.splits, f"split of {self.name!r}") if split else self.default_split(domain)
        return Selection(self.name, domain, split)

    def default_split(self, domain: str) -> str:
        """The split that is meant where none is named."""
        return self.default_splits.get(domain, self.splits[0] if self.splits else "")


def parts_of(selection: Selection) -> tuple[str, ...]:
    """The stored splits that a selection is made of: `all` joins train and test."""
    return ("train", "test") if selection.split == "all" else (selection.split,)


def plain(name: str) -> str:
    """A name without case and separators: `Office-31`, `office_31` and `office31` mean the same."""
    return "".join(character for character in name.lower() if character.isalnum())


def _matched(given: str, choices: Mapping[str, str] | tuple[str, ...], what: str) -> str:
    for choice in choices:
        if plain(choice) == plain(given):
            return choice
    raise UnknownNameError(what, given, choices)
