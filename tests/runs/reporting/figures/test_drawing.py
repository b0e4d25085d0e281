import base64
from xml.etree import ElementTree

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from shiftcal.runs.reporting.figures.drawing import (
    as_data_uri,
    list_below_each_other,
    new_axes,
    new_figure,
    run_styles,
    shown,
)


def titled(text: str) -> Figure:
    figure = new_figure()
    new_axes(figure, text, "y").plot([0, 1], [0, 1], label=text)
    list_below_each_other(figure, 1)
    return figure


def decoded(uri: str) -> str:
    return base64.b64decode(uri.split(",")[1]).decode()


@pytest.mark.parametrize("text", ["<script>&", "a$b$", "_hidden", "日本", "bell \x07", "x" * 500])
def test_any_name_gives_valid_svg(text: str) -> None:
    svg = decoded(as_data_uri(titled, shown(text)))
    words = "".join(ElementTree.fromstring(svg).itertext())
    assert words.count(text.strip("\x07 ")[:20]) == 2


def test_same_numbers_same_file_and_settings_left_alone() -> None:
    before = dict(mpl.rcParams)
    assert as_data_uri(titled, "x") == as_data_uri(titled, "x")
    assert dict(mpl.rcParams) == before


def test_figures_hold_no_addresses_to_fetch() -> None:
    root = ElementTree.fromstring(decoded(as_data_uri(titled, "x")))
    references = [value for element in root.iter() for name, value in element.items() if name.endswith("href")]
    assert all(reference.startswith("#") for reference in references)


def test_runs_of_one_colour_differ_in_line() -> None:
    styles = list(run_styles(20))
    assert len(set(styles)) == 20
