from __future__ import annotations

import errno
import io
import os
import stat
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest
import torch

from shiftcal.core.errors import OutputError
from shiftcal.core.files import check_not_an_input, check_writable_folder, is_temporary, written_whole


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


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_file_is_replaced_with_the_rights_that_the_umask_gives(tmp_path: Path, umask: int, mode: int) -> None:
    path = tmp_path / "result.txt"
    before = os.umask(umask)
    try:
        write(path, "old")
        write(path, "new")
    finally:
        os.umask(before)
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == mode


def test_content_is_on_the_disk_before_its_name_and_the_name_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    replace, fsync = Path.replace, os.fsync

    def noted_replace(path: Path, target: Path) -> Path:
        calls.append("move")
        return replace(path, target)

    def noted_fsync(descriptor: int) -> None:
        calls.append("sync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
        fsync(descriptor)

    monkeypatch.setattr(Path, "replace", noted_replace)
    monkeypatch.setattr(os, "fsync", noted_fsync)
    write(tmp_path / "new" / "result.txt", "text")
    assert calls == ["sync folder", "sync file", "move", "sync folder"]


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    with written_whole(tmp_path / "first.txt") as living:
        living.write_text("first")
        abandoned = living.with_name(living.name.replace(living.stem[-20:-8], "0" * 12))
        abandoned.write_text("half of")
        assert is_temporary(abandoned)
        write(tmp_path / "second.txt", "second")
        assert not abandoned.exists()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "first.txt": "first",
        "second.txt": "second",
    }


def full_disk_in_torch(path: Path) -> None:
    class Full(io.BytesIO):
        write = no_space

    with written_whole(path):
        torch.save({"weights": torch.zeros(1000)}, Full())


def test_a_full_disk_is_named_where_torch_hides_it(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No space left on device"):
        full_disk_in_torch(tmp_path / "model.pt")
    assert list(tmp_path.iterdir()) == []


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="not a matter of files"), written_whole(tmp_path / "result.txt"):
        raise RuntimeError("not a matter of files")


def test_an_input_is_no_output(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    with pytest.raises(OutputError, match="would be lost"):
        check_not_an_input(table, [table])  # not there yet: another output of the same name
    check_not_an_input(None, [table])
    table.touch()
    (tmp_path / "link.csv").symlink_to(table)
    check_not_an_input(tmp_path / "other.csv", [table])
    for out in (table, tmp_path / "link.csv"):
        with pytest.raises(OutputError, match="is an input of this command"):
            check_not_an_input(out, [tmp_path / "absent.csv", table])


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
    said = f"can't write to {str(path)!r}: No space left on device. Make room and give the same command again."
    assert str(raised.value) == said
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
    monkeypatch.setattr(os, "open", no_space)
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
    with pytest.raises(OutputError, match=r"can't write to '.*runs': No space left on device\. Make room"):
        check_writable_folder(tmp_path / "runs")


def test_a_path_that_can_not_be_looked_at_is_reported(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="File name too long"):
        check_writable_folder(tmp_path / ("a" * 300))
