"""A new feature type is a class, a line in a union, and a function: nothing else of the source is touched."""

import pytest

from tests.changed_source import answers_of, copy_source, insert_lines

CLASS = '''class RemainderFeature(BaseFeature):
    """The remainder of a whole number, as an id: 0 missing, then 0 to `of` - 1."""

    example: ClassVar[str] = "machine: {type: remainder, of: 4}\\\\n"
    computed_by: ClassVar = "quantities.remainder"
    column_holds: ClassVar = "number"

    type: Literal["remainder"]
    of: Count = 3
    """The divisor."""
    encoding: Encoding = "auto"
    """Encoding of the ids in the model."""

    def outputs(self, name: str) -> Iterator[Output]:
        """Yields its ids."""
        yield ids_output(name, self.encoding, 1)

    def not_crossed(self, name: str) -> str | None:
        """Returns None: it has ids."""
        return None


'''
FUNCTION = '''def remainder(name, feature, columns):
    """Returns the ids: int64 [batch]."""
    from fullpass.preprocessing.apply.vocabulary import with_domain

    values = columns.number(feature.column or name)
    missing = tf.math.is_nan(values)
    ids = tf.cast(tf.math.floormod(tf.where(missing, 0.0, values), float(feature.of)), tf.int64) + 1
    return {transformed_name(name): with_domain(tf.where(missing, tf.constant(0, tf.int64), ids), feature.of)}


'''
ADDED = (
    ("preprocessing/features/feature.py", "class CustomFeature(", CLASS),
    ("preprocessing/features/feature.py", "    | CustomFeature,", "    | RemainderFeature\n"),
    ("preprocessing/apply/quantities.py", "def duration(", FUNCTION),
)
YAML = """
name: machines
data: {source: {format: csv, path: rows.csv}}
label: {name: y, task: regression}
features: {number: {type: remainder, of: OF}, kind: category}
crosses: [{inputs: [number, kind]}]
"""
PROGRAM = """
import json
from pathlib import Path

import pyarrow as pa
import tensorflow_transform as tft

import fullpass as api
from fullpass.pipeline.authoring.loading.json_schema import json_schema
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.reference.reference import transforms_page
from fullpass.trainer.models.model_inputs import model_inputs, transformed_outputs

table = pa.table({"number": [0.0, 5.0, None, 7.0], "kind": ["a", "b", "a", "b"], "y": [1.0, 2.0, 3.0, 4.0]})
transform = api.load("good.yaml").analyze(table)
graph, config = tft.TFTransformOutput(str(transform.folder)), load(Path("good.yaml")).config.preprocessing_config
inputs = model_inputs(transformed_outputs(config, graph), graph)
print(json.dumps({
    "good": [problem.message for problem in api.check("good.yaml")],
    "bad": [problem.message for problem in api.check("bad.yaml")],
    "schema": "RemainderFeature" in json_schema()["$defs"],
    "page": "machine: {type: remainder, of: 4}" in transforms_page(),
    "ids": transform.numpy(table)["number_xf"].tolist(),
    "crossed": len(set(transform.numpy(table)["number_x_kind_xf"].tolist())),
    "size": inputs["number_xf"].size,
}))
"""


@pytest.mark.integration
def test_a_feature_type_is_added_in_three_places(tmp_path):
    assert insert_lines(copy_source(tmp_path), ADDED) == 3
    (tmp_path / "rows.csv").write_text("number,kind,y\n0,a,1\n5,b,2\n,a,3\n7,b,4\n")
    for name, of in (("good", "3"), ("bad", "many")):
        (tmp_path / f"{name}.yaml").write_text(YAML.replace("OF", of))
    told = answers_of(PROGRAM, tmp_path)
    assert told["good"] == [] and "whole number" in told["bad"][0]
    assert told["schema"] and told["page"]
    assert told["ids"] == [0 % 3 + 1, 5 % 3 + 1, 0, 7 % 3 + 1] and told["size"] == 1 + 3
    assert told["crossed"] == 4, "three combinations, and one row without"
