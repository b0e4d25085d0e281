"""A report in a real browser: nothing broken, nothing fetched, nothing wider than the window."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shiftcal.runs.reporting import Cell, RunContents, comparison_table, write_report

ATTACK = "<img src=x onerror='window.injected = true'>"
ATTACKS = (
    ATTACK,
    "<script>window.injected = true</script>",
    "</title></style><script>window.injected = true</script>",
    '" onmouseover="window.injected = true" autofocus onfocus="window.injected = true',
    "<svg/onload=window.injected=true>",
    "javascript:window.injected=true",
    "{{ 7 * 7 }}{% raw %}${7*7}",
    "<base href=//evil.example><form action=//evil.example><iframe srcdoc='<script>top.injected=1</script>'>",
    "<style>*{display:none}</style>",
    "<!-- <![CDATA[ ]]>",
    "\u202egnp.exe\u2066",
)
SIDES = ("scroll", "client")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    binary = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        reason = f"needs a browser and its driver on the path, found {binary!r} and {driver!r}"
        if "CI" in os.environ:
            pytest.fail(reason)
        pytest.skip(reason)
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    session = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    yield session
    session.quit()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory, make_run: Callable[..., RunContents]) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    names = tuple(f"a class of a rather long name {index}" for index in range(65))
    cells = [Cell(task, method, 0, {"accuracy": 0.5}) for task in ("a", "b") for method in ("drl", ATTACK)]
    several = [make_run(ATTACK, shifted=False), make_run("x" * 300, labelled=False)]
    paths = {name: folder / f"{name}.html" for name in ("one", "several", "hostile")}
    hostile = make_run(ATTACKS[3], num_classes=len(ATTACKS), classes=ATTACKS)
    hostile = replace(
        hostile,
        card={attack: {attack: [attack]} for attack in ATTACKS},
        verdicts=ATTACKS,
        history=[{"epoch": 1, ATTACK: 1.0}],
        target=replace(hostile.target, ids=np.resize(ATTACKS, len(hostile.target))),
    )
    write_report(
        [hostile],
        paths["hostile"],
        title=" ".join(ATTACKS),
        table=comparison_table([Cell(attack, attack, 0, {"accuracy": 0.5}) for attack in ATTACKS]),
    )
    write_report([make_run(num_inputs=200, num_classes=65, classes=names, image_side=32)], paths["one"], title="One")
    write_report(several, paths["several"], title="y" * 300, table=comparison_table(cells))
    return paths


def show(browser: Any, path: Path, width: int, scheme: str = "light") -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(path.as_uri())


@pytest.mark.parametrize(("name", "width"), [("one", 1280), ("one", 400), ("several", 400)])
def test_nothing_is_broken_fetched_or_too_wide(browser: Any, reports: dict[str, Path], name: str, width: int) -> None:
    show(browser, reports[name], width)
    browser.execute_script("document.querySelectorAll('details').forEach(box => box.open = true)")
    assert browser.get_log("browser") == []
    loaded = browser.execute_script("return [...document.images].map(image => image.naturalWidth > 0)")
    assert len(loaded) > 20
    assert all(loaded)
    widths = browser.execute_script(
        "const page = document.documentElement; return [page.scrollWidth, page.clientWidth]"
    )
    assert widths[0] <= widths[1] <= width
    fetched = browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert [address for address in fetched if not address.startswith("data:")] == []
    assert browser.execute_script("return window.injected === undefined")


def test_names_from_files_are_text_and_nothing_else(browser: Any, reports: dict[str, Path]) -> None:
    show(browser, reports["hostile"], 1280)
    browser.execute_script("document.querySelectorAll('details').forEach(box => box.open = true)")
    assert browser.get_log("browser") == []
    assert browser.execute_script("return window.injected === undefined")
    assert browser.title == " ".join(" ".join(ATTACKS).split())
    assert browser.execute_script("return document.querySelectorAll('style').length") == 1
    foreign = "script, iframe, form, base, svg, object, embed, [onerror], [onload], [onfocus], [onmouseover], [style]"
    assert browser.find_elements("css selector", foreign) == []
    shown = browser.execute_script("return document.body.textContent")
    assert [attack for attack in ATTACKS if attack not in shown] == []
    assert "49" not in browser.find_element("css selector", "h1").text


def test_the_content_policy_stops_what_would_get_through(
    browser: Any, reports: dict[str, Path], tmp_path: Path
) -> None:
    """A second line of defence: the page with a script, a style and a picture from elsewhere put into it."""
    page = reports["one"].read_text(encoding="utf-8")
    added = f"<script>window.injected = true</script>{ATTACK}<style>h1 {{ display: none }}</style>"
    (tmp_path / "changed.html").write_text(page.replace("<main>", f"{added}<main>"), encoding="utf-8")
    show(browser, tmp_path / "changed.html", 1280)
    assert browser.execute_script("return window.injected === undefined")
    assert browser.find_element("css selector", "h1").is_displayed()
    assert sum("Content Security Policy" in entry["message"] for entry in browser.get_log("browser")) >= 3


def test_dark_readers_get_a_dark_page_with_white_figures(browser: Any, reports: dict[str, Path]) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        show(browser, reports["several"], 1280, scheme)
        page, figure = (
            browser.find_element("css selector", selector).value_of_css_property("background-color")
            for selector in ("body", ".figures figure")
        )
        assert figure == "rgba(255, 255, 255, 1)"
        colours[scheme] = page
    assert colours["light"] == "rgba(255, 255, 255, 1)"
    assert colours["dark"] == "rgba(21, 23, 26, 1)"
