from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from shiftcal.core.errors import InvalidInputError, OutputError
from shiftcal.data.pseudo_label_rounds import PseudoLabelRounds
from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting import Cell, RunContents, comparison_table, write_report
from shiftcal.runs.reporting.figures.confusion import confusion_info
from shiftcal.runs.reporting.run_tables import row_tables

ATTACK = "<script>window.injected = true</script>"
VOID = {"meta", "link", "img", "br"}


class Page(HTMLParser):
    """Tags with their attributes, the text outside of the style, and whether every tag is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def attributes(self, tag: str, name: str) -> list[str]:
        return [attributes[name] or "" for found, attributes in self.tags if found == tag and name in attributes]


def report(tmp_path: Path, *runs: RunContents, title: str = "Title") -> Page:
    path = tmp_path / "report.html"
    write_report(runs, path, title=title)
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of the time of a page, and words do not depend on it."""
    monkeypatch.setattr("shiftcal.runs.reporting.figure_sections.as_data_uri", lambda draw, info: "data:,")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, make_run: Callable[..., RunContents]) -> Page:
    """Of much data, which stays small on disk."""
    folder = tmp_path_factory.mktemp("report")
    page = report(folder, make_run(num_inputs=30_000, num_classes=20, image_side=224))
    assert (folder / "report.html").stat().st_size < 1_000_000
    return page


def test_one_file_without_requests(page: Page) -> None:
    assert page.open == []
    assert "script" not in {tag for tag, _ in page.tags}
    sources = page.attributes("img", "src")
    assert len(sources) > 20
    assert all(source.startswith("data:image/") for source in sources)
    assert all(address.startswith("#") for address in page.attributes("a", "href"))
    assert page.attributes("link", "href") == ["data:,"]
    assert "default-src 'none'" in page.attributes("meta", "content")[2]


def test_contents_lead_to_sections_and_figures_have_words(page: Page) -> None:
    anchors = page.attributes("section", "id")
    assert [address[1:] for address in page.attributes("a", "href")] == anchors
    assert all(page.attributes("img", "alt"))
    assert len(page.attributes("img", "alt")) == len(page.attributes("img", "src"))
    assert len(page.attributes("th", "scope")) == sum(tag == "th" for tag, _ in page.tags)


@pytest.mark.usefixtures("_undrawn")  # what is in a figure: figures/test_drawing.py
def test_names_of_users_are_escaped(tmp_path: Path, make_run: Callable[..., RunContents]) -> None:
    run = make_run(name=ATTACK, num_classes=2, classes=(ATTACK, '" onerror="window.injected = true'))
    ids = np.array([f"{ATTACK}{row}" for row in range(len(run.target))])
    run = replace(
        run,
        card={ATTACK: {ATTACK: [ATTACK]}},
        history=[{"epoch": 1, ATTACK: 1.0}],
        target=replace(run.target, ids=ids),
    )
    page = report(tmp_path, run, make_run(), title=ATTACK)
    assert "script" not in {tag for tag, _ in page.tags}
    assert page.attributes("img", "onerror") == []
    assert ATTACK in page.text


@pytest.mark.usefixtures("_undrawn")
def test_without_target_labels_what_needs_them_is_left_out(
    tmp_path: Path, make_run: Callable[..., RunContents]
) -> None:
    page = report(tmp_path, make_run(labelled=False))
    assert page.text.count("no labels, so what needs them is left out") == 1
    assert not {"confusion"} & set(page.attributes("section", "id"))
    assert "Surest wrong" not in page.text
    assert "Most shifted" in page.text
    assert "no labels were given that could confirm it" in page.text
    assert "✓ right" not in page.text


@pytest.mark.usefixtures("_undrawn")
def test_without_shift_there_is_a_line_instead_of_a_histogram(
    tmp_path: Path, make_run: Callable[..., RunContents]
) -> None:
    page = report(tmp_path, make_run(shifted=False))
    assert page.text.count("No shift is modelled") == 2
    assert not any("density ratio" in words for words in page.attributes("img", "alt"))
    assert "Most confident" in page.text


@pytest.mark.usefixtures("_undrawn")
def test_nothing_recorded(tmp_path: Path, make_run: Callable[..., RunContents]) -> None:
    page = report(tmp_path, replace(make_run(image_side=None), history=[], card={}))
    for line in ("No training history was recorded.", "The card is empty."):
        assert line in page.text
    assert "examples" not in page.attributes("section", "id")


@pytest.mark.usefixtures("_undrawn")
def test_notes_name_the_runs_that_they_are_about(tmp_path: Path, make_run: Callable[..., RunContents]) -> None:
    page = report(tmp_path, make_run(), make_run("erm", shifted=False))
    assert "erm: No shift is modelled" in page.text
    assert "Of 2 runs, " in page.text


def test_single_rows_that_deserve_a_look(tmp_path: Path, binary: Callable[..., Predictions]) -> None:
    """The surest of those that are wrong, and the least source-like, in order."""
    found = binary([0.9, 0.2, 0.7, 0.6], [1, 0, 1, 0])
    tables = row_tables(replace(found, density_ratio=np.array([0.5, 2.0, 0.1, 1.0])), models_shift=True, count=2)
    assert tables is not None
    assert [row.confidence for row in tables.surest_wrong] == [0.9, 0.8]
    assert [row.density_ratio for row in tables.most_shifted] == [0.1, 0.5]
    assert row_tables(binary([0.9], [0]), models_shift=False) is None


def test_the_confusion_matrix_by_hand(binary: Callable[..., Predictions]) -> None:
    info = confusion_info(binary([0.9, 0.2, 0.7, 0.6], [0, 0, 1, 0]))
    assert info is not None
    np.testing.assert_allclose(info.shares, np.array([[2 / 3, 1 / 3], [1, 0]]))


@pytest.mark.parametrize(("num_inputs", "num_classes"), [(1, 2), (20, 100)])
def test_small_data_with_empty_bins_and_absent_classes(
    tmp_path: Path, make_run: Callable[..., RunContents], num_inputs: int, num_classes: int
) -> None:
    page = report(tmp_path, make_run(num_inputs=num_inputs, num_classes=num_classes))
    assert f"class {num_classes - 1}" in page.text


def test_certain_and_perfect_predictions(tmp_path: Path, binary: Callable[..., Predictions]) -> None:
    perfect = binary([1.0, 0.0, 1.0], [0, 1, 0])
    page = report(tmp_path, RunContents("perfect", {}, [], perfect, perfect))
    assert "is right 100.0 % of the time" in page.text.replace("\N{NO-BREAK SPACE}", " ")


def test_a_table_alone_is_a_report(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "report.html"
    write_report([], path, title="Table", table=comparison_table([Cell("task", ATTACK, 0, {"accuracy": 0.5})]))
    page = Page(path.read_text(encoding="utf-8"))
    assert page.attributes("section", "id") == ["by-task", "comparison"]
    assert "script" not in {tag for tag, _ in page.tags}


@pytest.mark.usefixtures("_undrawn")  # the same of figures: figures/test_drawing.py
def test_same_runs_same_file(tmp_path: Path, make_run: Callable[..., RunContents]) -> None:
    run = make_run(image_side=None, shifted=False)
    write_report([run], tmp_path / "a.html", title="x")
    write_report([run], tmp_path / "b.html", title="x")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


CURVE = [{"epoch": epoch, "accuracy": 0.2 * epoch, "brier_score": 1 / epoch} for epoch in (1, 2, 3)]


@pytest.mark.usefixtures("_undrawn")
def test_learning_curves_of_several_runs_are_in_one_figure(
    tmp_path: Path, make_run: Callable[..., RunContents]
) -> None:
    runs = [replace(make_run(name), learning_curve=CURVE) for name in ("drl", "cbst")]
    page = report(tmp_path, *runs, make_run("crst"))
    assert "learning-curve" in page.attributes("section", "id")
    assert [words for words in page.attributes("img", "alt") if "on the target by epoch" in words] == [
        "Accuracy % ↑ on the target by epoch; at the end: drl 60, cbst 60",
        "Brier ↓ on the target by epoch; at the end: drl 0.333, cbst 0.333",
    ]
    assert "crst: No learning curve was recorded." in page.text
    assert "learning-curve" not in report(tmp_path, make_run()).attributes("section", "id")


@pytest.mark.usefixtures("_undrawn")
def test_learning_curves_of_a_comparison_are_means_by_method(tmp_path: Path) -> None:
    curves = {("task", "drl", 0): CURVE, ("task", "drl", 1): CURVE[:2], ("other", "erm", 0): CURVE}
    table = comparison_table([Cell("task", "drl", 0, {"accuracy": 0.5})])
    write_report([], tmp_path / "report.html", title="x", table=table, curves={**curves, ("other", "drl", 0): CURVE})
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.attributes("section", "id") == ["by-task", "comparison", "learning-curves"]
    assert [address[1:] for address in page.attributes("a", "href")] == ["by-task", "comparison", "learning-curves"]
    assert "Accuracy % ↑ on the target by epoch; at the end: drl 60" in page.attributes("img", "alt")
    assert "erm: No seed has a curve for every task." in page.text


def test_nothing_to_report_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="at least one run or a comparison table"):
        write_report([], tmp_path / "report.html", title="x")


def test_unwritable_places_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    table = comparison_table([Cell("task", "drl", 0, {})])
    with pytest.raises(OutputError, match="can't write"):
        write_report([], tmp_path / "file" / "report.html", title="x", table=table)


@pytest.mark.usefixtures("_undrawn")
def test_pseudo_labels_have_a_section_where_there_are_any(
    tmp_path: Path, make_run: Callable[..., RunContents]
) -> None:
    labels = np.array([[0, -1, 2], [0, 1, -1]], dtype=np.int16)
    rounds = PseudoLabelRounds(np.array([1, 2]), labels, np.array([0.9, 0.8]), np.array([0.5, 0.25]))
    with_truth = replace(make_run("cbst"), pseudo_labels=rounds)
    without = replace(make_run("crst"), pseudo_labels=replace(rounds, true_precision=None))
    page = report(tmp_path, make_run(), with_truth, without)
    assert "pseudo-labels" in page.attributes("section", "id")
    first, second = (words for words in page.attributes("img", "alt") if "by round" in words)
    assert "25.0 % of them right in truth" in first
    assert "80.0 % of them right by its own estimate" in second
    assert "pseudo-labels" not in report(tmp_path, make_run()).attributes("section", "id")
