"""`make check-report`: checks the report in headless Chromium, on desktop and phone widths, light and dark."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fullpass.components.data_gate.page import render_gate
from fullpass.components.evaluation.measure.class_results import Cell, ClassResults, OfClass
from fullpass.components.evaluation.measure.score_curves import Curve, Decisions
from fullpass.components.evaluation.shown.shown_files import ColumnDependence, Decile, Dependence, RegressionErrors
from fullpass.components.pages import vega
from fullpass.components.pages.charts import limit_chart, line_chart
from fullpass.components.pages.graph import GraphNode, critical_path, graph
from fullpass.components.pages.render import render_page
from fullpass.components.predict.explanation import ExplainedRow, Explanation
from fullpass.components.report.classes import classes_section, curve_charts
from fullpass.components.report.component import render
from fullpass.components.report.config import CardFacts
from fullpass.components.report.dependence import dependence_section
from fullpass.components.report.model_card import model_card, to_html
from fullpass.components.report.regression import errors_section
from fullpass.components.report.report_data import ReportData, of_importance
from fullpass.pipeline.authoring.data_page.cells import CellReading
from fullpass.pipeline.authoring.data_page.data_page import DataPage, ShownColumn
from fullpass.pipeline.authoring.data_page.pictures import picture
from fullpass.pipeline.authoring.loading.problems import Problem
from fullpass.pipeline.registry.compare import ComparedMetric, ComparedSlice, Comparison
from fullpass.pipeline.registry.compared_model import ComparedModel
from fullpass.pipeline.registry.root_page import metrics_by_run
from tests.components.report.shown import HOSTILE, classes, curves
from tests.components.report.test_report import data_verdict, run
from tests.live.browser import Page, find_chromium, open_browser
from tests.live.servers import needed
from tests.pipeline.authoring.tables import values_of

DESK, PHONE = 1280, 390
REPORTED = {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening"}

# All visible texts: size on the screen, and contrast of the color to the background (WCAG 2).
TEXTS = """(() => {
  const luminance = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map((c) => c / 255)
      .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    const color = getComputedStyle(element).backgroundColor;
    if (color !== "rgba(0, 0, 0, 0)") return color;
    return element.parentElement ? ground(element.parentElement) : "rgb(255, 255, 255)";
  };
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, text = walker.currentNode.textContent.trim();
    if (!text || !element.checkVisibility() || element.matches("script, style")) continue;
    const style = getComputedStyle(element), svg = element.closest("svg");
    const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    const [low, high] = [luminance(svg ? style.fill : style.color), luminance(ground(element))].sort((a, b) => a - b);
    texts.push({ text, pixels: parseFloat(style.fontSize) * scale, contrast: (high + 0.05) / (low + 0.05) });
  }
  return texts;
})()"""

# What a reader cannot see: charts and texts beyond the sides of the window or of their table, texts of a chart that
# overlap, and tables that scroll although they have few columns. A table of many columns may scroll in its own box.
UNSEEN = """(() => {
  const found = [], name = (one) => (one.getAttribute("aria-label") || one.textContent).trim().slice(0, 60);
  const beyond = (inner, outer) => inner.left < outer.left - 1 || inner.right > outer.right + 1;
  const page = { left: 0, right: innerWidth };
  const scrolls = (one) => one.closest(".wide")?.querySelector("tr").cells.length > MOST_COLUMNS;
  for (const box of document.querySelectorAll(".wide"))
    if (box.scrollWidth > box.clientWidth + 1 && !scrolls(box.firstElementChild)) found.push("scrolls: " + name(box));
  for (const one of document.querySelectorAll("svg, figcaption, p, li, h2")) {
    const box = one.getBoundingClientRect();
    if (!one.checkVisibility() || scrolls(one)) continue;
    if (beyond(box, page) || one.scrollWidth > one.clientWidth + 1 && one.matches("td, th, p, li"))
      found.push("beyond the side: " + name(one));
  }
  for (const svg of document.querySelectorAll("figure.chart svg")) {
    const shown = [...svg.querySelectorAll("text:not([opacity='0'])")];
    const texts = shown.map((text) => [text, text.getBoundingClientRect()]);
    for (const [text, box] of texts) {
      if (beyond(box, svg.getBoundingClientRect())) found.push("cut: " + name(text) + " of " + name(svg));
      for (const [other, its] of texts)
        if (text !== other && box.left < its.right && its.left < box.right
            && box.top < its.bottom - 2 && its.top < box.bottom - 2)
          found.push("overlap: " + name(text) + ", " + name(other));
    }
  }
  return found;
})()"""
MOST_COLUMNS = 4

# The texts of all cells of a column.
COLUMN = (
    "[...document.querySelectorAll('.rows')[{table}].tBodies[0].rows]"
    ".map((row) => row.cells[{index}].textContent.trim())"
)


def natural(text: str) -> tuple[str, int]:
    """Returns a natural sort key for a word with a trailing number: hour 9 before hour 10."""
    word, number = re.fullmatch(r"(\D+)(\d*)", text).groups()
    return word.casefold(), int(number or 0)


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    program = find_chromium()
    if program is None:
        pytest.exit("No Chromium on PATH. Install it ('apt install chromium'), or give CHROMIUM=PROGRAM.", returncode=2)
    with open_browser(program) as page:
        yield page


def wide_run() -> ReportData:
    """A run with long names, 12 classes and dates."""
    names = tuple(f"{i}: mixed conifer forest of the upper montane zone, Ponderosa" for i in range(12))
    cells = tuple(Cell(one, other, 1234, 0.0833, 0.01) for one in names for other in names)
    metrics = {"precision": (0.75, 0.01), "recall": (0.5, 0.01), "f1": (0.6, 0.01), "auc": (0.9, 0.01)}
    curve = Curve((0.0, 0.5, 1.0), (0.0, 0.7, 1.0), (0.1, 0.1, 0.1))
    shown = {name: curve for name in names[:10]}
    classes = ClassResults(tuple(OfClass(n, 14808.0, metrics) for n in names), 12, cells, shown, shown)
    long = "horizontal_distance_to_the_nearest_surface_water_feature_in_metres"
    moments = ("2013-03-02T23:45:00", "2013-09-09T00:00:00", "2013-12-24T12:15:30")
    scores = ((0.2, 0.4, 0.6),) * 5
    dependence = Dependence(
        200,
        names[:5],
        (0.4,) * 5,
        (
            ColumnDependence("started_at", "date", moments, (1.0, 2.0, 3.0), scores),
            ColumnDependence(
                "an_hour", "date", (moments[0], moments[0], "2013-03-03T11:00:00"), (1.0, 2.0, 3.0), scores
            ),
            ColumnDependence(long, "number", ("-1234567.5", "0", "1234567.5"), (1.0, 2.0, 3.0), scores),
            ColumnDependence(f"{long}_band", "value", names[:3], (), scores),
        ),
        {},
    )
    insight = {"importance": [{"feature": f"{long}_{i}", "importance": 0.1, "reach": 0.01} for i in range(9)]}
    losses = {"loss": [0.00123456] * 100, "val_loss": [123456.7] * 100}
    one = run(blessed=True)
    return replace(
        one,
        classes=classes_section([classes, classes], 12 * 14808),
        dependence=dependence_section(dependence),
        **of_importance(insight),
        training_charts=(line_chart(losses, y="loss", label="Loss by epoch", marks=(20, 60)),),
        errors=errors_section(RegressionErrors(2, (-1e6, 1e6), (1e6, -1e6), (Decile(1.0, -1234.5, 10.0),))),
    )


def root_page(rows: int = 2) -> str:
    """Returns the page of a root whose texts all contain markup, with a graph of three nodes."""
    nodes = [
        GraphNode("Ingest", "ok", HOSTILE, "good", 1.0, (), "logs/1"),
        GraphNode(HOSTILE, HOSTILE, HOSTILE, "bad", 2.0, ("Ingest",), HOSTILE),
        GraphNode("Trainer", "cached", "", "quiet", 1.0, ("Ingest", HOSTILE)),
    ]
    table = (("version", "state", "auc", "folder"), [(str(i), "kept", f"0.{i}", HOSTILE) for i in range(rows)])
    point = {"metric": HOSTILE, "value": 0.5, "changed": HOSTILE, "what changed": HOSTILE}
    points = [{"run": run, **point} for run in (HOSTILE, f"{HOSTILE}2")]
    beside = [{"run": str(i), "facts": {"auc": f"0.{i}", HOSTILE: f"{HOSTILE}{i}", "rows": "7"}} for i in range(rows)]
    given = {
        "newest": {
            **{"facts": (("outcome", "failed"), ("", f"{HOSTILE} " * 20)), "links": HOSTILE, "longest": "3.0 s"},
            **{"graph": graph(nodes, critical_path(nodes)), "nodes": table},
        },
        **{"models": table, "models_note": HOSTILE, "runs": table, "trials": table, "older": 1000, "watch": ()},
        **{"chart": metrics_by_run(points), "beside": vega.script_json(beside), "file": f" --file '{HOSTILE}'"},
    }
    return render_page("root.html", name=HOSTILE, folder=HOSTILE, written="2026-01-02", **given)


def test_nothing_is_cut_beyond_the_side_or_on_top_of_something_else(browser, tmp_path):
    """The report is shown in DejaVu Sans, the wide font that Linux takes if a page names none."""
    file = tmp_path / "report.html"
    file.write_text(render(wide_run()), encoding="utf-8")
    for width in (DESK, PHONE):
        show(browser, file.as_uri(), width=width, phone=width == PHONE)
        browser.evaluate("document.styleSheets[0].insertRule(`*, svg text { font-family: 'DejaVu Sans' !important }`)")
        assert browser.evaluate(UNSEEN.replace("MOST_COLUMNS", str(MOST_COLUMNS))) == [], width
        assert browser.evaluate("[innerWidth, document.scrollingElement.scrollWidth]") == [width, width]


def hostile_run() -> ReportData:
    """A run whose texts all contain markup, with a threshold to drag."""
    decided = Decisions(600.0, 400.0, GRID, tuple(600 * (1 - t) for t in GRID), tuple(400 * (1 - t) ** 2 for t in GRID))
    pair = (
        Cell("no", "no", 1, 1, 0),
        Cell("no", HOSTILE, 1, 1, 0),
        Cell(HOSTILE, "no", 1, 1, 0),
        Cell(HOSTILE, HOSTILE, 1, 1, 0),
    )
    shown = curve_charts(
        [replace(curves(0.7), decisions=decided)], (HOSTILE,), classes=[classes(("no", HOSTILE), pair)]
    )
    return replace(run(blessed=False), curves=shown)


GRID = tuple(i / 100 for i in range(101))


def comparison() -> str:
    """Returns the page of a comparison whose texts all contain markup."""
    metrics = (ComparedMetric("auc", 0.9, 0.8, 0.05), ComparedMetric(HOSTILE, 0.5, 0.4, 0.05))
    side = ComparedModel(HOSTILE, HOSTILE, None, None)
    slices = (ComparedSlice(HOSTILE, 100, metrics),)
    more = {"curves": hostile_run().curves, "facts": ((HOSTILE, HOSTILE, HOSTILE),), "changes": ()}
    return Comparison((side, side), rows=HOSTILE, examples=9, metrics=metrics, slices=slices, **more).page


def watch() -> str:
    """Returns the page of a watch whose texts all contain markup."""
    chart = limit_chart({"2026-01-01": 0.5, HOSTILE: 1.5}, 1.0, [HOSTILE], label=HOSTILE)
    table = ((HOSTILE,), [(HOSTILE,)])
    version = {"number": 1, "served": True, "notes": [HOSTILE], "charts": [chart], "metrics": (), "over": HOSTILE}
    version |= dict.fromkeys(("days", "slices", "columns", "hours"), table)
    return render_page(
        "watch.html", name=HOSTILE, at="now", rows=9, bad=1, notes=[HOSTILE], findings=(), versions=[version]
    )


def data() -> str:
    """Returns the page of the data whose texts all contain markup."""
    cells = CellReading("token").cells(values_of([HOSTILE, HOSTILE, "a"]))
    spec = picture({"train": cells, HOSTILE: cells})
    read = ((HOSTILE, HOSTILE), ("not read", ""))
    columns = [
        ShownColumn(f"{HOSTILE}{i}", "category", HOSTILE, HOSTILE, (0.25,), i, 0.9, HOSTILE, read, 1.5, i == 0, spec)
        for i in range(2)
    ]
    return DataPage(
        name=HOSTILE,
        source=HOSTILE,
        sides={"train": 9, HOSTILE: 9},
        problems=(Problem("label", 3, HOSTILE, "warning"),),
        columns=tuple(columns),
        verdicts=(data_verdict(),),
        task="binary",
        line=HOSTILE,
        notes=(HOSTILE,),
    ).page


def explanation() -> str:
    """Returns the page of explained predictions whose texts all contain markup."""
    row = ExplainedRow(1, HOSTILE, HOSTILE, 0.9, 0.2, ((HOSTILE, HOSTILE, 0.4), (f"{HOSTILE}2", HOSTILE, 0.3)))
    return Explanation((), (row, replace(row, number=2)), 3).page


HOSTILE_PAGES = {
    "a hostile run": lambda: render(hostile_run()),
    "a stop of the data gate": lambda: render_gate("taxi", data_verdict()),
    "a root": root_page,
    "a comparison": comparison,
    "a watch": watch,
    "the data": data,
    "explained predictions": explanation,
    "a model card": lambda: to_html(HOSTILE, model_card(run(blessed=True), {}, CardFacts())),
}
"""Pages whose texts all contain markup."""


@pytest.fixture(scope="module", params=["a run", *HOSTILE_PAGES])
def url(request, tmp_path_factory) -> str:
    """The URL of the report of a real run, or of a hostile page."""
    if request.param == "a run":
        return needed("REPORT", "Give the report.html of a run.").as_uri()
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(HOSTILE_PAGES[request.param](), encoding="utf-8")
    return file.as_uri()


def show(browser: Page, url: str, **options) -> None:
    """Shows a page with all of its details open and all of its charts drawn."""
    browser.show(url, **options)
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    browser.draw_charts()
    browser.evaluate("1")  # events that came meanwhile


def until(browser: Page, condition: str) -> None:
    """Waits until a condition holds on the page."""
    deadline = time.monotonic() + 20
    while not browser.evaluate(condition):
        assert time.monotonic() < deadline, condition
        time.sleep(0.05)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [DESK, PHONE])
def test_the_page_loads_nothing_says_nothing_and_can_be_read(browser, url, width, dark):
    show(browser, url, width=width, dark=dark, phone=width == PHONE)
    texts = browser.evaluate(TEXTS)
    assert [event for event in browser.events if event["method"] in REPORTED] == []
    asked = [e["params"]["request"]["url"] for e in browser.events if e["method"] == "Network.requestWillBeSent"]
    assert asked == [url]
    assert browser.evaluate("[innerWidth, document.scrollingElement.scrollWidth]") == [width, width], (
        "no sideways scrolling"
    )
    assert len(texts) > 20
    assert [one for one in texts if one["contrast"] < 4.5 or one["pixels"] < 10] == []
    red, green, blue = map(int, re.findall(r"\d+", browser.evaluate("getComputedStyle(document.body).backgroundColor")))
    assert (max(red, green, blue) < 64) if dark else (min(red, green, blue) > 240)


def test_every_table_sorts_by_each_of_its_columns(browser, url):
    browser.show(url, width=DESK)
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    headers = browser.evaluate(
        "[...document.querySelectorAll('.rows')].map((table) => [...table.tHead.rows[0].cells].map((cell) => "
        "[cell.textContent, cell.className]))"
    )
    assert headers
    for table, columns in enumerate(headers):
        browser.evaluate(f"document.querySelectorAll('.rows')[{table}].id = 'sorted'")
        for index, (name, kind) in enumerate(columns):
            if not name:
                continue
            before = browser.evaluate(COLUMN.format(table=table, index=index))
            for direction in ("ascending", "descending"):
                browser.click(f"#sorted thead th:nth-child({index + 1})")
                found = browser.evaluate(COLUMN.format(table=table, index=index))
                states = browser.evaluate("[...document.querySelectorAll('#sorted thead th')].map((th) => th.ariaSort)")
                assert states == [direction if i == index else None for i in range(len(columns))]
                assert sorted(found) == sorted(before), "no row is lost"
                filled = [text for text in found if text]
                assert found[: len(filled)] == filled, "cells without a value come last"
                if kind == "n":
                    values = [float(re.match(r"[-+\d.,e]+", text).group().replace(",", "")) for text in filled]
                    assert values == sorted(values, reverse=direction == "descending"), (name, found)
                elif all(re.fullmatch(r"[A-Za-z_ ]+\d*", text) for text in filled):
                    assert filled == sorted(filled, key=natural, reverse=direction == "descending"), (name, found)
        browser.evaluate("document.querySelector('#sorted').removeAttribute('id')")


def test_the_keyboard_sorts_too(browser, url):
    browser.show(url, width=DESK)
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    browser.evaluate("document.querySelector('.rows th button').focus()")
    enter = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
    browser.call("Input.dispatchKeyEvent", type="keyDown", text="\r", **enter)
    browser.call("Input.dispatchKeyEvent", type="keyUp", **enter)
    assert browser.evaluate("document.activeElement.closest('th').ariaSort") == "ascending"


def test_words_filter_the_rows_of_a_long_table_and_a_button_copies_them(browser, tmp_path):
    """Markup stays text, and what a spreadsheet would take for a formula is quoted."""
    cells = [(f"hour {i}", "0.9", "-0.3 ± 0.2") for i in range(12)]
    rows = [*cells, (HOSTILE, "0.5", "=HYPERLINK(A1)"), ("-1+2|A1", "", "@SUM(A1)")]
    file = tmp_path / "page.html"
    given = {
        "newest": None,
        "models": (("version",), [("1",)]),
        "models_note": "",
        "older": 0,
        "watch": (),
        "chart": "",
    }
    given |= {
        "runs": (("run",), [("1",)]),
        "beside": "[]",
        "file": "",
        "trials": (("slice", "auc", "difference"), rows),
    }
    file.write_text(render_page("root.html", name="a", folder="b", written="c", **given), encoding="utf-8")
    browser.show(file.as_uri(), width=DESK)
    assert browser.evaluate("document.querySelectorAll('input[type=search]').length") == 1, "short tables have none"
    shown = "[...document.querySelectorAll('.rows')[1].tBodies[0].rows].filter((row) => row.checkVisibility()).length"
    browser.evaluate("document.querySelector('input[type=search]').focus()")
    browser.call("Input.insertText", text="HOUR 1")
    assert browser.evaluate(shown) == 3  # 1, 10 and 11
    assert browser.evaluate("document.querySelectorAll('output')[1].textContent") == "3 of 14 rows"
    heard = "let copied; addEventListener('copy', (e) => { copied = e.clipboardData.getData('text/plain'); })"
    browser.evaluate(heard)
    browser.click(".tools:has(input) button")
    lines = ["slice\tauc\tdifference", *("\t".join(cells[i]) for i in (1, 10, 11))]
    assert browser.evaluate("copied").splitlines() == lines
    browser.evaluate("document.querySelector('[type=search]').value = ''")
    browser.evaluate("document.querySelector('[type=search]').dispatchEvent(new Event('input'))")
    browser.click(".tools:has(input) button")
    assert browser.evaluate("copied").splitlines()[-2:] == [f"{HOSTILE}\t0.5\t'=HYPERLINK(A1)", "'-1+2|A1\t\t'@SUM(A1)"]


def test_checked_runs_stand_side_by_side_as_text(browser, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(root_page(3), encoding="utf-8")
    browser.show(file.as_uri(), width=DESK)
    while not browser.evaluate("document.querySelectorAll('.chart svg').length"):
        time.sleep(0.1)  # a chart that is drawn moves what is below it
    beside = "document.querySelector('#side-by-side')"
    for number in (0, 2):
        browser.click(f"[type=checkbox][value='{number}']")
    cells = f"[...{beside}.querySelectorAll('tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"
    assert browser.evaluate(cells) == [["", "0", "2"], ["auc", "0.0", "0.2"], [HOSTILE, f"{HOSTILE}0", f"{HOSTILE}2"]]
    assert browser.evaluate(f"{beside}.querySelector('pre').textContent") == f"fullpass compare 2 0 --file '{HOSTILE}'"
    browser.click("[type=checkbox][value='2']")
    assert browser.evaluate(f"{beside}.textContent") == ""


def test_the_policy_of_the_page_lets_no_other_script_run(browser, url, tmp_path):
    """Even if data could inject markup into the page, its script would not run and its image would not load."""
    page = Path(url.removeprefix("file://")).read_text(encoding="utf-8")
    added = f"<script>document.title = 'changed'</script><img src='{(tmp_path / 'seen.png').as_uri()}'></body>"
    file = tmp_path / "page.html"
    file.write_text(page.replace("</body>", added), encoding="utf-8")
    browser.show(file.as_uri(), width=DESK)
    assert browser.evaluate("document.title") != "changed"
    blocked = [e["params"]["entry"]["text"] for e in browser.events if e["method"] == "Log.entryAdded"]
    assert len(blocked) == 2 and all("Content Security Policy" in text for text in blocked), blocked


def hover(browser: Page, selector: str) -> str:
    """Moves the mouse over an element until it has a tooltip, and returns what that says."""
    found = f"document.querySelector({json.dumps(selector)})"
    browser.evaluate(f"{found}.scrollIntoView({{block: 'center'}})")
    x, y = browser.evaluate(
        f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({found}.getBoundingClientRect())"
    )
    for step in range(100):
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + step % 2, y=y)
        if browser.evaluate("!!document.querySelector('#vg-tooltip-element.visible')"):
            break
        time.sleep(0.05)
    return browser.evaluate("document.querySelector('#vg-tooltip-element').innerText")


@pytest.mark.parametrize("url", HOSTILE_PAGES, indirect=True)
def test_markup_of_the_data_is_shown_as_text_also_by_charts_and_tooltips(browser, url):
    source = Path(url.removeprefix("file://")).read_text(encoding="utf-8")
    show(browser, url, width=DESK)
    assert browser.evaluate(f"document.body.innerText.includes({json.dumps(HOSTILE)})")
    if browser.evaluate("document.querySelectorAll('figure.chart').length"):
        hover(browser, "figure.chart :is(.mark-rect, .mark-symbol) path")
    own = source.count("<script>") + ('id="vega"' in source)
    assert browser.evaluate("document.querySelectorAll('script:not([type])').length") == own, "elements are injected"
    assert not [e for e in browser.events if e["method"] == "Page.javascriptDialogOpening"]


def test_a_mark_says_its_values_and_a_dragged_threshold_moves_all_charts(browser, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(render(hostile_run()), encoding="utf-8")
    show(browser, file.as_uri(), width=DESK)
    figure = "document.querySelector('figure.chart')"
    texts = f"[...{figure}.querySelectorAll('.role-mark.mark-text text')].map((one) => one.textContent)"
    assert sorted(browser.evaluate(texts)) == sorted(["300", "300", "100", "300", "50.0%", "50.0%", "25.0%", "75.0%"])
    assert "of the class" in hover(browser, "figure.chart .mark-rect path")
    dots = "[...document.querySelectorAll('.mark-symbol path')].map((one) => one.getAttribute('transform')).join()"
    before = browser.evaluate(dots)
    browser.click("figure.chart input[type=range]")
    for _ in range(25):
        for kind in ("keyDown", "keyUp"):
            browser.call(
                "Input.dispatchKeyEvent", type=kind, key="ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39
            )
    until(browser, f"{texts}.includes('150')")
    assert sorted(browser.evaluate(texts)) == sorted(["150", "450", "25", "375", "25.0%", "75.0%", "6.3%", "93.8%"])
    assert browser.evaluate(dots) != before, "the points on the curves follow"
    browser.evaluate("document.querySelector('input[type=number]').value = '10'")
    browser.evaluate("document.querySelector('input[type=number]').dispatchEvent(new Event('input'))")
    until(browser, "document.body.innerText.includes('least at 0')")


def test_a_click_on_the_legend_leaves_one_series(browser, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(render(wide_run()), encoding="utf-8")
    show(browser, file.as_uri(), width=DESK)
    figure = "figure[aria-label='Loss by epoch']"
    opacities = "map((one) => one.getAttribute('opacity'))"
    lines = f'[...document.querySelectorAll("{figure} .mark-line path")].{opacities}'
    assert browser.evaluate(lines) == ["1", "1"]
    browser.click(f"{figure} .role-legend text")
    until(browser, f"{lines}.join() === '1,0.1'")
