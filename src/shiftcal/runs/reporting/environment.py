"""How pages are made from templates: what all of them have in common."""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import version

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from shiftcal.runs.reporting.metric_names import MISSING


def page_environment() -> Environment:
    """The templates, with style, content policy and the ways in which they write numbers."""
    environment = Environment(
        loader=PackageLoader("shiftcal.runs.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "number": number, "whole": whole}
    style = environment.get_template("report.css").render()
    environment.globals |= {
        "style": Markup(style),
        "content_policy": content_policy(style),
        "version": version("shiftcal"),
    }
    return environment


def content_policy(style: str) -> str:
    """What a browser may load for a page: pictures that it holds itself and this very style, nothing else."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def percent(share: float | None) -> str:
    """A share as per cent, without the sign."""
    return MISSING if share is None else f"{100 * share:.1f}"


def number(value: float | None) -> str:
    """With two digits that matter."""
    if value is None:
        return MISSING
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def whole(count: int | None) -> str:
    """With commas between thousands."""
    return MISSING if count is None else f"{count:,}"
