import pytest
from benchmarks.docs_pages import main


def test_tables_of_the_pages_are_what_the_records_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().err
