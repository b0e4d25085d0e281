"""Examples for clusters: they can be parsed, and the commands in them are commands of ours."""

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from shiftcal.faces.cli import COMMANDS
from shiftcal.faces.cli.parsing import build_parser

FOLDER = Path(__file__).parents[1] / "configs" / "cluster"


def commands_in(words: list[str]) -> list[list[str]]:
    """Arguments of every `shiftcal` or `-m shiftcal` in a list of words."""
    return [words[place + 1 :] for place, word in enumerate(words) if word == "shiftcal"]


def test_there_are_some() -> None:
    assert {path.suffix for path in FOLDER.iterdir()} == {".sh", ".yaml"}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.sh")), ids=lambda path: path.name)
def test_scripts(path: Path) -> None:
    subprocess.run(["bash", "-n", str(path)], check=True)
    lines = path.read_text().replace("\\\n", " ").splitlines()
    (command,) = (line for line in lines if "shiftcal " in line and not line.startswith("#"))
    (arguments,) = commands_in(shlex.split(command))
    build_parser(COMMANDS).parse_args(arguments)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.name)
def test_manifests(path: Path) -> None:
    documents: list[dict[str, Any]] = list(yaml.safe_load_all(path.read_text()))
    assert all({"apiVersion", "kind", "metadata", "spec"} <= document.keys() for document in documents)
    spec = documents[-1]["spec"]
    words = (
        shlex.split(spec["entrypoint"])
        if "entrypoint" in spec
        else spec["template"]["spec"]["containers"][0]["command"]
    )
    (arguments,) = commands_in(words)
    build_parser(COMMANDS).parse_args(arguments)
