import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import frame
from benchmarks.frame import Benchmark, Job


def test_a_record_has_its_commit_and_goes_on_after_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def measure(number: int) -> Iterator[dict[str, float]]:
        if number == 2 and len(measured) < 2:
            raise KeyboardInterrupt
        measured.append(number)
        yield {"half": number / 2}

    def jobs(_: argparse.Namespace) -> Iterator[Job]:
        for number in (1, 2):
            yield Job({"number": number}, lambda number=number: measure(number))  # type: ignore[misc]

    monkeypatch.setattr(frame, "made_with", lambda _: {"commit": "abc"})
    arguments = argparse.Namespace(out=tmp_path / "results.csv")
    benchmark = Benchmark(jobs, table=lambda rows: f"{len(rows)} rows")
    with pytest.raises(KeyboardInterrupt):
        frame.run(benchmark, arguments)
    measured.append(0)  # from now on the second job works
    frame.run(benchmark, arguments)
    assert measured == [1, 0, 2]
    assert arguments.out.read_text().split() == ["number,half,commit", "1,0.5,abc", "2,1,abc"]
    assert (tmp_path / "results.md").read_text() == "2 rows"
    monkeypatch.setattr(frame, "made_with", lambda _: {"commit": "def"})
    with pytest.raises(SystemExit, match="has rows of abc, and this is def"):
        frame.run(benchmark, arguments)
