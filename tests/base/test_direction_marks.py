"""Marks of the direction of writing are shown wherever names are."""

import unicodedata

from fullpass.base.direction_marks import with_marks_shown
from fullpass.components.pages.notebook_html import block, table
from fullpass.components.pages.render import render_page
from fullpass.components.report.model_card import Section, to_html, to_markdown
from fullpass.pipeline.printing import plain

NAME = "invoice\u202efdp.exe\u2066"
SHOWN = r"invoice\u202efdp.exe\u2066"


def test_marks_are_those_that_unicode_calls_bidirectional_controls():
    controls = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    every = [chr(code) for code in range(0x110000) if unicodedata.bidirectional(chr(code)) in controls]
    every += ["\N{ARABIC LETTER MARK}", "\N{LEFT-TO-RIGHT MARK}", "\N{RIGHT-TO-LEFT MARK}"]
    assert len(every) == 12
    assert [with_marks_shown(f"a{mark}b") for mark in every] == [f"a\\u{ord(mark):04x}b" for mark in every]
    assert with_marks_shown("עברית, العربية, ü") == "עברית, العربية, ü"


def test_names_are_shown_with_their_marks_in_pages_cards_notebooks_and_the_terminal():
    card = (Section("Origin", (NAME,), ((NAME, "x"), ("y", NAME))),)
    for shown in (to_html(NAME, card), to_markdown(NAME, card), block(NAME, str(table([NAME], [[NAME]]))), plain(NAME)):
        assert "\u202e" not in shown and "\u2066" not in shown and "202efdp.exe" in shown
    assert SHOWN in plain(NAME) and SHOWN in to_html(NAME, card)


def test_a_page_shows_the_marks_of_its_data():
    assert SHOWN in render_page("model_card.html", name=NAME, card=())
