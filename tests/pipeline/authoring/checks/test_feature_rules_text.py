"""What `check` says of the pattern that separates the tokens of a text."""

import pytest

NEVER = "which strip_punctuation replaces by a blank before the text is split. Add strip_punctuation: false."


@pytest.mark.parametrize(
    ("options", "severity", "says"),
    [
        ('pattern: ","', "warning", f"matches ',', {NEVER}"),
        ('pattern: " - "', "warning", f"matches '-', {NEVER}"),
        ('pattern: "["', "error", "is no RE2 expression: missing ]"),
    ],
)
def test_a_separator_that_parts_no_text_is_named(edited, problems_of, options, severity, says):
    (problem,) = problems_of(edited({16: f"  company: {{type: text, {options}}}"}))
    assert (problem.severity, problem.path, problem.line) == (severity, "features.company.pattern", 16)
    assert says in problem.message


@pytest.mark.parametrize(
    "options", [r"pattern: '\W+'", r"pattern: '[,\s]+'", r"pattern: '\pN'", "pattern: ',', strip_punctuation: false"]
)
def test_a_separator_that_parts_texts_is_no_problem(edited, problems_of, options):
    assert problems_of(edited({16: f"  company: {{type: text, {options}}}"})) == ()
