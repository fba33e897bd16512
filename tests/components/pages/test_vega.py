"""Charts on a page: what a page carries, what it escapes, and what a notebook gets."""

import base64
import hashlib
import json
import math
import re
from html.parser import HTMLParser

import vl_convert
from hypothesis import given
from hypothesis import strategies as st

from fullpass.components.pages import vega
from fullpass.components.pages.render import render_page
from tests.components.pages.specs import NATIVE

SPEC = {"data": {"values": [{"x": 1, "y": 2.5}]}, "mark": "point", "encoding": {"x": {"field": "x"}}}
TEXT = st.text() | st.sampled_from(["</script><script>alert(1)</script>", "<!--<script>", "\u202eabc", "\udc80"])


class Elements(HTMLParser):
    """The elements of a page, and the text of its script elements as a browser sees it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.open = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag):
        self.open = ""

    def handle_data(self, data):
        if self.open == "script":
            attrs, text = self.scripts[-1]
            self.scripts[-1] = attrs, text + data


def shown(*charts) -> str:
    return render_page("watch.html", **WATCH | {"versions": [VERSION | {"charts": charts}]})


TABLE = (("day",), [])
VERSION = {
    **{"number": 1, "served": True, "notes": [], "metrics": [], "over": ""},
    **dict.fromkeys(("days", "slices", "columns", "hours"), TABLE),
}
WATCH = {"name": "taxi", "at": "now", "rows": 1, "bad": 0, "notes": [], "findings": []}


def test_a_page_carries_the_bundle_once_and_only_with_a_chart():
    without, with_two = shown(), shown(*[vega.chart(SPEC, label="one")] * 2)
    assert 'id="vega"' not in without and len(without) < 20_000
    assert with_two.count('id="vega"') == 1 and len(with_two.encode()) < 500_000
    assert shown('<figure class="chart"').count('id="vega"') == 0, "text of the data is no chart"
    [policy] = re.findall(r"script-src ([^\"]*)\"", with_two)
    scripts = [text for attrs, text in Elements(with_two).scripts if "type" not in attrs]
    for script in (*scripts, vega.bundle()):
        assert f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy
    assert len(policy.split()) == 3 and "unsafe" not in policy


@given(label=TEXT, text=TEXT)
def test_text_of_the_data_stays_text(label, text):
    spec = {**SPEC, "data": {"values": [{"x": text}]}}
    plain, hostile = (Elements(vega.chart(one, label=name)) for one, name in ((SPEC, "a"), (spec, label)))
    assert [tag for tag in hostile.tags if tag not in ("th", "td")] == [
        tag for tag in plain.tags if tag not in ("th", "td")
    ]
    [(_, data)] = hostile.scripts
    shown = json.loads(data)["data"]["values"][0]["x"]
    assert shown == text or "\\u" in shown, "marks of the writing direction are shown as their names"


def test_values_that_are_not_finite_are_null_and_empty():
    made = vega.chart({**SPEC, "data": {"values": [{"x": math.nan, "y": 0.1 + 0.2}, {"z": math.inf}]}}, label="one")
    [(_, data)] = Elements(made).scripts
    assert json.loads(data)["data"]["values"] == [{"x": None, "y": 0.1 + 0.2}, {"z": None}]
    assert "<tr><th>x</th><th>y</th><th>z</th></tr><tr><td></td><td>0.3</td><td></td></tr>" in made


def test_a_notebook_gets_the_same_specification_with_its_theme():
    shown = vega.chart({**SPEC, "width": "container"}, label="one")._repr_mimebundle_(include=None)
    made = shown.pop("application/vnd.vegalite.v5+json")
    assert (shown, made["width"], made["config"]) == ({"text/plain": "one"}, 400, vega.THEME)
    assert made["encoding"] == SPEC["encoding"] and made["$schema"].endswith("/vega-lite/v5.json")


def test_both_versions_take_the_theme_and_the_parameters():
    spec = {**SPEC, "config": vega.THEME, "params": [vega.ZOOM]}
    for number in (vega.VEGA_LITE, NATIVE):
        assert "marks" in vl_convert.vegalite_to_vega(spec, vl_version=number)


def test_the_bundle_is_that_of_the_environment_or_kept_for_the_user_or_made_anew(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(vega, "OF_ENVIRONMENT", tmp_path / "environment")
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda *args: made.append(args) or f"bundle {len(made)}")
    for home, found in ((tmp_path, 1), (tmp_path, 1), (tmp_path / "file", 2), (tmp_path / "file", 3)):
        (tmp_path / "file").write_text("no folder can be made here")
        monkeypatch.setenv("XDG_CACHE_HOME", str(home))
        vega._packed.cache_clear()
        assert vega.bundle() == f"bundle {found}"
    vega.keep_bundle(tmp_path / "environment")  # as the Makefile and the Dockerfile do
    vega._packed.cache_clear()
    assert (vega.bundle(), len(made)) == ("bundle 4", 4)
    vega._packed.cache_clear()
    assert made[0] == ("window.vegaEmbed = vegaEmbed;", "6.4")
