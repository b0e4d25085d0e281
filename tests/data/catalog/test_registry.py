from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from shiftcal.core.errors import DataUnavailableError, InvalidInputError, UnknownNameError
from shiftcal.data.catalog.registry import CATALOG, find_entry, list_datasets
from shiftcal.data.specs import load_domain


@pytest.mark.parametrize("name", CATALOG)
def test_entry_is_complete(name: str) -> None:
    entry = CATALOG[name]
    assert entry.name == name
    assert all((entry.description, entry.reference, entry.homepage, entry.how_to_get, entry.sources))
    assert set(entry.default_splits) <= set(entry.domains)
    assert set(entry.views) <= set(entry.domains)
    assert entry.default_domain in ("", *entry.domains)
    for domain in entry.domains or ("",):
        assert entry.default_split(domain) in (entry.splits or ("",))


@pytest.mark.parametrize("name", [name for name in CATALOG if name not in ("digits", "gaussian")])
def test_absent_sets_tell_all_there_is_to_know(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHIFTCAL_DOWNLOAD", raising=False)
    entry = CATALOG[name]
    domain = next(iter(entry.domains), "")
    with pytest.raises(DataUnavailableError) as raised:
        load_domain(f"{name}/{domain}" if domain else name, data_dir=tmp_path)
    for expected in (str(tmp_path), entry.description, entry.homepage, entry.how_to_get):
        assert expected in str(raised.value)


def test_list_tells_what_is_there(tmp_path: Path) -> None:
    np.savez(tmp_path / "mnist.npz", train_x=np.zeros((1, 4, 4), np.uint8))
    rows = {row.name: row for row in list_datasets(tmp_path)}
    assert rows["digits/uci"].available
    assert (rows["mnist"].available, rows["mnist"].where) == (True, str(tmp_path / "mnist.npz"))
    assert not rows["office-home/Art"].available
    assert "https://" in rows["office-home/Art"].where


def test_list_tells_of_missing_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    rows = {row.name: row for row in list_datasets(tmp_path)}
    assert not rows["digits/mnist"].available
    assert "shiftcal[demo]" in rows["digits/mnist"].where


def test_names_are_found_whatever_their_case_and_separators() -> None:
    assert find_entry("Office31") is find_entry("office_31") is CATALOG["office-31"]
    assert find_entry("nothing") is None


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("digits", InvalidInputError, "choose one: digits/uci, digits/mnist,"),
        ("digits/mnst", UnknownNameError, "unknown domain of 'digits' 'mnst'. Did you mean 'mnist'"),
        ("mnist:tests", UnknownNameError, "unknown split of 'mnist' 'tests'. Did you mean 'test'"),
        ("mnist/one", UnknownNameError, "unknown domain of 'mnist' 'one'"),
        ("office-31/amazon:train", UnknownNameError, "unknown split of 'office-31' 'train'. Known: none"),
    ],
)
def test_wrong_parts_are_named(spec: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        load_domain(spec)
