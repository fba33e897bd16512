"""What `check` says of lists: where they are computed, what they share, and what they cannot be."""

import pytest

TOP = """\
name: lists
data: {source: {format: jsonl, path: a.jsonl}}
label: {name: y, task: binary}
features:
  shown: category
"""


@pytest.mark.parametrize(
    ("lines", "path", "words"),
    [
        ("  a: {type: category, list: true, compute_at: model}", "features.a.compute_at", "is a list"),
        ("  a: {type: category, vocabulary: {shared_with: show}, list: true}", "shared_with", 'Did you mean "shown"'),
        ("  a: {type: category, list: {attend_to: shown}}", "features.a.list.attend_to", "shared_with: shown"),
        ("  a: {type: category, list: {attend_to: b}}", "features.a.list.attend_to", "no category"),
        ("  a: {type: category, lowercase: true, vocabulary: {shared_with: shown}}", "shared_with", "lowercase"),
        ("  a: {type: category, list: true}\ncrosses: [{inputs: [a, shown]}]", "crosses[0].inputs[0]",
         "several values"),
        ("  a: {type: number, list: true}\n  b: {type: number, column: a}", "features", "a list for features.a and a"),
        ("  a: {type: number, list: {pooling: attention}}", "features.a", "attention chooses among ids"),
        ("  a: {type: number, list: {encoder: gru}}", "features.a", "is only for a category"),
        ("  a: {type: category, list: {encoder: transformer}}", "features.a.list", "needs max_length"),
        ("  a: {type: category, list: {encoder: gru, pooling: sum}}", "features.a.list",
         "replaces pooling and weights"),
        ("  a: {type: category, list: {separator: ';'}}", "features.a", "beside `list`"),
        ("sequences: {h: {columns: {a: {type: number, list: true}}}}", "sequences.h", "columns.a.list"),
        ("sequences: {h: {columns: {a: category}, attend_to: shown}}", "sequences.h.attend_to", "shared_with: shown"),
        ("sequences: {h: {columns: {a: category}, attend_to: show}}", "sequences.h.attend_to", "no category"),
        ("sequences: {h: {columns: {a: text}}}", "sequences.h.columns.a", "number"),
        ("  h.a: number\nsequences: {h: {columns: {a: number}}}", 'features["h.a"]', "name of a column of sequences.h"),
    ],
)  # fmt: skip
def test_mistakes_in_lists(tmp_path, problems_of, lines, path, words):
    file = tmp_path / "pipeline.yaml"
    (tmp_path / "a.jsonl").write_text('{"shown": "x", "a": ["x"], "b": 1, "y": 1}\n')
    file.write_text(f"{TOP}{lines}\n")
    found = [(problem.path, problem.message) for problem in problems_of(file) if problem.severity == "error"]
    assert any(path in where and words in message for where, message in found), found
