"""Labelled rows are those that a model's Ingest would write."""

import tensorflow as tf

from fullpass.components.evaluation.labelled_rows import LabelledRows
from fullpass.components.ingest.readers.read_source import find_inputs
from fullpass.components.ingest.spans.joined_tables import find_tables
from fullpass.pipeline.authoring.loading.load import load


def test_rows_are_joined_with_the_tables_of_their_yaml(tmp_path):
    (tmp_path / "rows.csv").write_text("city,y\nOslo,1\nBern,0\n,1\n")
    (tmp_path / "towns.csv").write_text("city,people,fee\nOslo,5,1\nBern,,2\n")
    join = "towns: {source: {format: csv, path: towns.csv}, on: city}"
    (tmp_path / "p.yaml").write_text(
        f"name: a\ndata: {{source: {{format: csv, path: rows.csv}}, joins: {{{join}}}}}\n"
        "label: {name: y, task: binary}\nfeatures: {people: {type: number, column: towns.people}}\n"
    )
    loaded = load(tmp_path / "p.yaml")
    data = loaded.config.data
    tables, files = find_tables(data.joins, loaded.resolve, None), find_inputs(data.source, loaded.resolve)
    config = loaded.config.preprocessing_config
    rows = LabelledRows(files, data.source, data.source.raw_text, config, data.joins, tables)
    examples = [tf.train.Example.FromString(record).features.feature for records in rows for record in records]
    assert [list(one["towns.people"].float_list.value) for one in examples] == [[5], [], []]
    assert (rows.rows, rows.bad, rows.absent) == (3, 0, ())
