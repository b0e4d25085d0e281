import pytest

from shiftcal.core.progress import progress_bar


def test_quick_work_shows_no_bar_and_passes_everything_through(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress_bar(range(5), "working")) == [0, 1, 2, 3, 4]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "working" not in captured.err
