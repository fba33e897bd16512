"""Follows docs/four-changes.md: makes its changes on a copy of the source, and runs them."""

import numpy as np
import pytest

from tests.changed_source import answers_of, copy_source, follow_page

FILES = {"A metric": 1, "A transform": 2, "A format": 3, "A fact of a run": 3}
"""Section of the page -> the files that its change touches. More would be a fact that stands in many places."""
LABELS, SCORES = [1.0, 0.0, 1.0], [0.75, 0.5, 0.0]
YAML = """
name: changes
data: {source: {format: FORMAT, path: rows.fixed}}
label: {name: c1, task: binary}
features: {c0: {type: number, missing: max, transforms: [robust_scale]}}
evaluation: {metrics: [brier], thresholds: {brier: {max: 0.5}}}
"""
PROGRAM = f"""
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console

import fullpass as api
from fullpass.components.evaluation.measure.scored_rows import Scored, ScoredRows
from fullpass.components.evaluation.measure.slice_accumulator import SliceAccumulator
from fullpass.components.ingest.readers.read_source import find_inputs, read_rows
from fullpass.components.ingest.readers.rows import Reading
from fullpass.components.predict.input_source import input_source
from fullpass.pipeline.authoring.data_check.data_check import check_data
from fullpass.pipeline.authoring.loading.json_schema import json_schema
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.profile.source_profile import profile_source
from fullpass.pipeline.record.events import NodeResult, RunResult, Status
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.record.gather_facts import of_result
from fullpass.pipeline.record.notifications import payload_of
from fullpass.pipeline.record.summary import print_summary
from fullpass.pipeline.reference.reference import pages
from fullpass.preprocessing.columns.raw_columns import RawColumn

loaded = load(Path("good.yaml"))
source = loaded.config.data.source
[file] = find_inputs(source, loaded.resolve)
scored = Scored(np.array({LABELS}), np.ones(3), np.array({SCORES}))
rows = ScoredRows(np.arange(3), np.zeros(3, np.int64), {{}}, (scored,))
one = SliceAccumulator(("brier",), (), None, 1)
nodes = [NodeResult(id=name, status=Status.OK, peak_mib=peak) for name, peak in (("Ingest", 310.4), ("Trainer", 712.6))]
result = RunResult(run_id="1", pipeline_name="changes", metadata_path=Path("m"), nodes=tuple(nodes), seconds=1.0)
facts = RunFacts(run_id="1").plus(of_result(result))
shown = io.StringIO()
print_summary(facts, None, Console(file=shown, width=200))
train = pa.table({{"c0": [1.0, 2, 3, 4, 5, 6, 7, 1000, None], "c1": [0.0, 1] * 4 + [0.0]}})
transform = api.load("good.yaml").analyze(train)
print(json.dumps({{
    **{{name: [problem.message for problem in api.check(f"{{name}}.yaml")] for name in ("good", "csv")}},
    "schema": json.dumps(json_schema()),
    "pages": pages(),
    "brier": one.measure(one.add(one.start(), rows)).values[0]["brier"].tolist(),
    "scaled": transform.numpy(pa.table({{"c0": [5.0, 7.0, None]}}))["c0_xf"].ravel().tolist(),
    "rows": [row for rows in read_rows(Reading(file, {{"c0": RawColumn("c0", "number")}}), source)
             for row in rows.table.to_pylist()],
    "sampled": check_data(loaded, rows=100).rows,
    "init": profile_source("rows.fixed", Path("."), rows=100).found.settings["format"],
    "told": payload_of(facts).fields["peak_mib"],
    "summary": shown.getvalue(),
    "predict": input_source(source.description(), "rows.fixed", {{}}).source.format,
}}))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the product with all changes of the page says."""
    folder = tmp_path_factory.mktemp("changes")
    source = copy_source(folder)
    files = {section: len(follow_page(source, "four-changes.md", section)) for section in FILES}
    (folder / "rows.fixed").write_text("\x7fFIXED\n" + "".join(f"{i:<4}{i % 2:<4}\n" for i in range(50)))
    for name, written in (("good", "fixed"), ("csv", "csv")):
        (folder / f"{name}.yaml").write_text(YAML.replace("FORMAT", written))
    return {"files": files, **answers_of(PROGRAM, folder)}


pytestmark = pytest.mark.integration


def test_each_change_touches_few_files(told):
    assert told["files"] == FILES


def test_the_added_keys_are_checked_and_documented(told):
    assert told["good"] == []
    assert all(f'"{name}"' in told["schema"] for name in ("brier", "robust_scale", "fixed"))
    assert "### robust_scale\n" in told["pages"]["transforms.md"]
    assert "| `fixed` | Text in columns of fixed width. `widths`: list of integer" in told["pages"]["config.md"]
    [binary] = [line for line in told["pages"]["config.md"].splitlines() if line.startswith("| binary |")]
    assert "`brier`" in binary.split("|")[3], "among those of which less is better"


def test_an_added_metric_is_measured(told):
    assert told["brier"] == pytest.approx([np.mean(np.subtract(SCORES, LABELS) ** 2)])


def test_an_added_transform_is_analyzed_and_applied(told):
    # Of 1, 2, 3, 4, 5, 6, 7, 1000 the quartiles are 3, 5 and 7 (position floor(i * 8 / 4), counted from 0).
    assert told["scaled"] == pytest.approx([0, 0.5, 995 / 4])


def test_an_added_format_is_read_sampled_and_told_by_its_content(told):
    assert told["rows"] == [{"c0": str(i)} for i in range(50)]
    assert told["sampled"] == 50
    assert "csv, but rows.fixed is fixed." in told["csv"][0]
    assert told["init"] == told["predict"] == "fixed"


def test_an_added_fact_is_shown_and_told(told):
    assert told["told"] == 713 and "memory  713 MiB at most" in told["summary"]
