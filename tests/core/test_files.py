from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

from shiftcal.core.errors import OutputError
from shiftcal.core.files import check_writable_folder, written_whole


def no_space(*arguments: object, **named: object) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def write(path: Path, text: str) -> None:
    with written_whole(path) as temporary:
        temporary.write_text(text)


def write_half(path: Path, error: BaseException) -> None:
    with written_whole(path) as temporary:
        temporary.write_text("half of")
        raise error


def test_a_file_appears_whole_with_the_folders_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "result.json"
    with written_whole(path) as temporary:
        temporary.write_text("all of it")
        assert temporary.suffix == ".json"
        assert not path.exists()
    assert path.read_text() == "all of it"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_is_replaced_and_readable_by_all(tmp_path: Path) -> None:
    path = tmp_path / "result.txt"
    write(path, "old")
    write(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("error", [ValueError("stop"), KeyboardInterrupt("stop")])
def test_an_exception_leaves_the_old_content_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "result.txt"
    write(path, "old")
    with pytest.raises(type(error), match="stop"):
        write_half(path, error)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_says_where_and_why(tmp_path: Path) -> None:
    path = tmp_path / "result.txt"
    with pytest.raises(OutputError) as raised, written_whole(path):
        no_space()
    assert str(raised.value) == f"can't write {str(path)!r}: No space left on device. Choose another place."
    assert isinstance(raised.value.__cause__, OSError)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_move_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "taken"
    path.mkdir()
    with pytest.raises(OutputError, match=r"can't write .*taken.*Is a directory"):
        write(path, "text")
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_can_be_written_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"can't write .*result\.txt"):
        write(tmp_path / "file" / "result.txt", "text")


def test_no_temporary_file_means_no_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "mkstemp", no_space)
    with pytest.raises(OutputError, match="No space left on device"):
        write(tmp_path / "result.txt", "text")


def test_a_folder_that_can_be_made_is_writable_and_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_writable_folder(tmp_path)
    check_writable_folder(tmp_path / "a" / "b")
    monkeypatch.chdir(tmp_path)
    check_writable_folder(Path("runs") / "first")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["file", "file/run", "file/runs/first"])
def test_a_file_is_no_folder(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"can't write to '.*file.*': '.*/file' is a file\. Choose another place"):
        check_writable_folder(tmp_path / below)


def test_an_unwritable_folder_is_reported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", no_space)
    with pytest.raises(OutputError, match=r"can't write to '.*runs': No space left on device\. Choose"):
        check_writable_folder(tmp_path / "runs")


def test_a_path_that_can_not_be_looked_at_is_reported(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="File name too long"):
        check_writable_folder(tmp_path / ("a" * 300))
