"""Licences of all that an installation brings, as packages name them: none asks that works which use it be open."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, metadata
from pathlib import Path

from packaging.requirements import Requirement

EXTRAS = ("demo", "vision", "tables", "backbones", "onnx", "cluster", "completion")
ALLOWED = (
    *("MIT", "BSD", "0BSD", "Apache", "PSF", "Python Software Foundation", "Zlib", "CC0", "BSL-1.0"),
    "3-Clause BSD",
    *("MPL-2.0", "Mozilla Public License 2.0"),  # of tqdm, shtab, certifi: ask for changes of their own files alone
)


def licence(name: str) -> str | None:
    """What a package says of itself; None if it is not installed."""
    try:
        about = metadata(name)
    except PackageNotFoundError:
        return None
    by_classifier = [
        entry.split(" :: ")[-1] for entry in about.get_all("Classifier", []) if entry.startswith("License")
    ]
    said = " AND ".join(about.get_all("License-Expression", []) or by_classifier or about.get_all("License", []))
    return said if said != "UNKNOWN" else (distribution(name).read_text("LICENSE") or said).splitlines()[0]


def needed(name: str, extras: set[str]) -> Iterator[Requirement]:
    """What an installed package needs on this machine."""
    for text in metadata(name).get_all("Requires-Dist", []):
        requirement = Requirement(text)
        environments = [{"extra": extra} for extra in ("", *extras)]
        if requirement.marker is None or any(requirement.marker.evaluate(each) for each in environments):
            yield requirement


def licences() -> dict[str, str]:
    """Of every package that is installed with ours, extras included, by name."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = [text for extra in EXTRAS for text in project["optional-dependencies"][extra]]
    open_, found = [Requirement(text) for text in [*project["dependencies"], *extras]], {}
    while open_:
        requirement = open_.pop()
        said = licence(requirement.name)
        if said is not None and requirement.name.lower() not in found:
            found[requirement.name.lower()] = said
            open_ += needed(requirement.name, requirement.extras)
    return found


def test_every_licence_is_known_and_allows_any_use() -> None:
    found = licences()
    assert {"torch", "numpy", "tqdm"} <= found.keys()
    for name, said in found.items():
        parts = re.split(r"\s+(?:AND|OR)\s+", said)
        assert all(part.startswith(ALLOWED) for part in parts), f"{name}: {said}"
