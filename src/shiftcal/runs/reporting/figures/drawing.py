"""What all figures share: colours, axes and how a figure becomes part of a page."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import Any, TypeVar

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from shiftcal.runs.reporting.contents import Domain

Info = TypeVar("Info")

# Okabe and Ito's palette, which readers with any colour vision can tell apart.
DOMAIN_COLOURS: dict[Domain, str] = {"source": "#0072B2", "target": "#D55E00"}
RUN_COLOURS = ("#222222", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255")
RUN_LINES = ("-", "--", ":", "-.")
INK = "#333333"
FAINT = "#8a8a8a"
GRID = "#e6e6e6"
# Height of a line of a legend, in inches.
LEGEND_LINE = 0.19

_LOOK: dict[Any, Any] = {
    "font.size": 9,
    "axes.labelsize": 9,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    # Text stays text: a quarter of the size, and it can be searched in the SVG.
    "svg.fonttype": "none",
    # The same numbers give the same file.
    "svg.hashsalt": "shiftcal",
    "hatch.linewidth": 0.6,
}


def new_figure(width: float = 4.3, height: float = 3.2) -> Figure:
    """An empty figure on white, of a size (in inches) at which a page shows it about 1:1."""
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def new_axes(figure: Figure, x_label: str, y_label: str) -> Axes:
    """The only axes of a figure, with labels and a faint grid."""
    axes = figure.subplots()
    plain(axes)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    return axes


def plain(axes: Axes) -> None:
    """Take away the frame's upper and right side and put a faint grid behind everything."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def percentages(axis: Axis) -> None:
    """Label an axis of shares with per cent, with no more digits than its ticks have."""
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 6):g} %"))


def list_below_each_other(figure: Figure, num_lines: int) -> None:
    """Put the legend above the axes, one entry a line, and make the figure higher by what it takes."""
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + LEGEND_LINE * num_lines)
    figure.legend(loc="outside upper left", ncols=1)


def run_styles(count: int) -> Iterator[tuple[str, str]]:
    """Colour and line style of each of `count` runs; a colour that comes again has another line style."""
    styles = ((colour, line) for line in cycle(RUN_LINES) for colour in RUN_COLOURS)
    return islice(styles, count)


def shown(text: str, max_length: int = 32) -> str:
    """A user's text for use in a figure: no formulas, no control characters, not longer than a legend is wide."""
    printable = "".join(character if character.isprintable() else " " for character in text).strip()
    if len(printable) > max_length:
        printable = printable[: max_length - 1] + "…"
    # Between dollars stands a formula, and a legend leaves out what begins with an underscore.
    return re.sub(r"^_", " _", printable).replace("$", r"\$")


def as_svg(draw: Callable[[Info], Figure], info: Info) -> bytes:
    """What `draw` makes of `info`; the same numbers give the same bytes."""
    stream = io.BytesIO()
    with mpl.rc_context(_LOOK), warnings.catch_warnings():
        # The browser has the glyphs that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        draw(info).savefig(stream, format="svg", metadata=no_metadata)
    return stream.getvalue()


def as_data_uri(draw: Callable[[Info], Figure], info: Info) -> str:
    """The same inside a `data:` address, so that a page needs no second file."""
    return "data:image/svg+xml;base64," + base64.b64encode(as_svg(draw, info)).decode("ascii")
