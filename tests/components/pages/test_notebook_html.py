"""HTML for notebooks: nothing of the data is markup, and the colors are those of the page."""

import re
from html.parser import HTMLParser

import pandas as pd
import pytest

from fullpass.components.pages import notebook_html as html

WILD = '<script>alert("x")</script>&amp;\udcff'


class Reader(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name == "href"]

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.parametrize(
    "page",
    [
        html.block(WILD, html.facts([(WILD, WILD)])),
        html.table([WILD], [[WILD]]),
        html.details(WILD, WILD),
        html.loss_chart({WILD: [0.5, float("nan"), 0.25]}),
        html.frame(pd.DataFrame({WILD: [WILD]})),
        html.block("title", WILD),
    ],
    ids=["facts", "table", "details", "losses", "frame", "block"],
)
def test_text_of_the_data_is_never_markup(page):
    read = Reader(str(page))
    assert "script" not in read.tags and any('<script>alert("x")' in text for text in read.texts)
    str(page).encode()


def test_only_colors_that_a_light_and_a_dark_page_show():
    """Contrast by WCAG, at least 3:1 on white and on the dark gray of JupyterLab, #111111."""

    def luminance(color: str) -> float:
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    colors = re.findall("#[0-9a-f]{6}", f"{html.GOOD} {html.BAD} {html.QUIET}")
    assert len(colors) == 2
    for color in colors:
        for page in ("#ffffff", "#111111"):
            low, high = sorted((luminance(color), luminance(page)))
            assert (high + 0.05) / (low + 0.05) >= 3, (color, page)


def test_a_link_to_a_file_below_is_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Reader(html.link(tmp_path / "a b" / "report.html")).links == ["a%20b/report.html"]
    assert Reader(html.link(tmp_path.parent / "x.html")).links == [(tmp_path.parent / "x.html").as_uri()]


def test_a_frame_is_shown_with_its_index_and_without_what_is_unknown():
    shown = pd.DataFrame({"value": [0.5, 1234.56789], "low": [None, None], "n": [1, 2]}, pd.Index(["a", "b"], name="x"))
    assert Reader(html.frame(shown)).texts == ["x", "value", "n", "a", "0.5000", "1", "b", "1,234.5679", "2"]


def test_empty_facts_and_tables_are_left_out():
    assert html.facts([("a", ""), ("b", None)]) == "" and html.table(["a"], []) == "" and html.details("a", " ") == ""
