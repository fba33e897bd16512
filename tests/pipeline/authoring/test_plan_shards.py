"""What is planned against what Ingest writes."""

from dataclasses import replace

import numpy as np
import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.ingest import finish, run
from fullpass.components.ingest.ingestion import Ingestion
from fullpass.components.ingest.readers.read_source import find_inputs
from fullpass.components.ingest.sources.formats import FORMATS
from fullpass.components.ingest.writing import shards
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.plan_shards import ShardPlan, SplitPlan, plan, table
from fullpass.preprocessing.columns.raw_columns import raw_columns
from fullpass.preprocessing.internals.beam_internals import local_pipeline

YAML = """\
name: test
data:
  source: {format: csv, path: %s}
  %s
label: {name: y, task: binary}
features: {n: number, c: category, t: text}
"""


def write(path, rows, seed=0):
    random = np.random.default_rng(seed)
    lines = [
        f"{random.normal():.4f},{random.choice(['a', 'bb', ''])},{'word ' * int(random.integers(0, 60))},{i % 2}"
        for i in range(rows)
    ]
    path.write_text("n,c,t,y\n" + "\n".join(lines) + "\n")


def loaded_of(tmp_path, path="'*.csv'", data="records: {shard_mb: 1}"):
    (tmp_path / "p.yaml").write_text(YAML % (path, data))
    return load(tmp_path / "p.yaml")


def written(tmp_path, loaded):
    """Returns split -> (rows, sizes of the files), after a real ingestion."""
    config = loaded.config
    columns = tuple(raw_columns(config.preprocessing_config).values())
    files = find_inputs(config.data.source, loaded.resolve)
    ingestion = Ingestion(config.ingest_config, files, config.data.split_names, columns, str(tmp_path / "out"), False)
    with local_pipeline() as pipeline:
        run([ingestion], pipeline)
    rows = finish(ingestion).written
    sizes = {s: [f.stat().st_size for f in sorted((tmp_path / "out" / f"Split-{s}").iterdir())] for s in rows}
    return {split: (rows[split], sizes[split]) for split in rows}


@pytest.mark.integration
@pytest.mark.parametrize(("files", "readers", "least"), [(1, 1, 10 << 20), (30, 1, 10 << 20), (1, 3, 20_000)])
def test_rows_bytes_and_files_are_those_that_are_written(tmp_path, monkeypatch, files, readers, least):
    monkeypatch.setattr(shards, "LEAST_BYTES", least)
    for i in range(files):
        write(tmp_path / f"{i}.csv", 12_000 // files, seed=i)
    loaded = loaded_of(tmp_path, data=f"records: {{shard_mb: 1, readers: {readers}}}")
    planned = plan(loaded)
    assert planned.exact
    real = written(tmp_path, loaded)
    for split in planned.splits:
        rows, sizes = real[split.name]
        assert split.shards == len(sizes)
        assert split.rows == pytest.approx(rows, rel=0.05)
        assert split.bytes == pytest.approx(sum(sizes), rel=0.05)
        assert max(sizes) <= 1 << 20
    assert planned.splits[0].shards == (3 if readers == 1 else 30)


@pytest.mark.integration
def test_rows_of_a_source_too_large_to_be_read_are_estimated(tmp_path, monkeypatch):
    write(tmp_path / "a.csv", 20_000)
    loaded = loaded_of(tmp_path)
    exact = plan(loaded, readers=1)
    monkeypatch.setitem(FORMATS, "csv", replace(FORMATS["csv"], sampled_bytes=1 << 18))
    about = plan(loaded, readers=1)
    assert exact.exact and not about.exact
    assert sum(s.rows for s in exact.splits) == 20_000
    assert sum(s.rows for s in about.splits) == pytest.approx(20_000, rel=0.05)
    assert about.splits[0].bytes == pytest.approx(exact.splits[0].bytes, rel=0.1)
    assert "about" in table(about) and "about" not in table(exact)


def test_given_splits_are_counted(tmp_path):
    write(tmp_path / "train.csv", 300)
    write(tmp_path / "eval.csv", 100)
    splits = plan(loaded_of(tmp_path, "{train: train.csv, eval: eval.csv}"), readers=1).splits
    assert [(split.name, split.rows, split.shards) for split in splits] == [("train", 300, 1), ("eval", 100, 1)]


@pytest.mark.integration
def test_why_there_are_so_many_files(tmp_path):
    write(tmp_path / "a.csv", 4000)
    for readers, says in ((1, "too few for 10 files of 10 MB"), (9, "too few for own files of 9 readers")):
        planned = plan(loaded_of(tmp_path, data="records: {shard_mb: 128}"), readers=readers)
        assert [split.shards for split in planned.splits] == [1, 1]
        assert says in planned.why[1]


def test_the_read_rate_is_one_that_a_disk_and_a_processor_can_have(tmp_path):
    write(tmp_path / "a.csv", 4000)
    assert 1e6 < plan(loaded_of(tmp_path)).bytes_per_second < 1e11


def test_no_rows(tmp_path):
    (tmp_path / "a.csv").write_text("n,c,t,y\n")
    with pytest.raises(UserError, match="no row that can be read"):
        plan(loaded_of(tmp_path), readers=1)


def test_table():
    splits = (SplitPlan("train", 8000, 3 << 20, 2), SplitPlan("eval", 2000, 1 << 20, 1))
    assert table(ShardPlan(splits, True, 2, ("because",), 2.0 * (1 << 20))).splitlines()[:5] == [
        "split                   rows          MB   shards    MB each    read in",
        "train                  8,000         3.0        2        1.5      1.5 s",
        "eval                   2,000         1.0        1        1.0      0.5 s",
        "",
        "because",
    ]
