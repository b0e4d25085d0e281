"""Tests here are run among the files, and must leave them as they are."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.bad_input.files import write_files


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, quick_estimate: None) -> Path:
    folder = tmp_path_factory.mktemp("bad-input")
    write_files(folder)
    return folder


@pytest.fixture(autouse=True)
def _here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(place)
    before = contents(place)
    yield
    assert contents(place) == before, "something was written, or something is gone"


def contents(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns if path.is_file() else 0 for path in folder.rglob("*")}
