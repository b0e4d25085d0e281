from __future__ import annotations

import os
from pathlib import Path

import pytest

from shiftcal.data.catalog.roots import data_roots, download_allowed


def test_argument_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIFTCAL_DATA", "elsewhere")
    assert data_roots("here") == (Path("here"),)


def test_environment_may_list_several_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIFTCAL_DATA", f"one{os.pathsep}{os.pathsep}two")
    assert data_roots() == (Path("one"), Path("two"))


def test_cache_folder_is_the_last_resort(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SHIFTCAL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_roots() == (tmp_path / "shiftcal",)
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_roots() == (Path.home() / ".cache" / "shiftcal",)


def test_download_by_argument_or_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHIFTCAL_DOWNLOAD", raising=False)
    assert download_allowed(True)
    assert not download_allowed(False)
    monkeypatch.setenv("SHIFTCAL_DOWNLOAD", "1")
    assert download_allowed(False)
    monkeypatch.setenv("SHIFTCAL_DOWNLOAD", "0")
    assert not download_allowed(False)
