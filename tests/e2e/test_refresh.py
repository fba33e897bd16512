"""A served model gets a new table: the same weights answer as they did for a row with the new values."""

import numpy as np
import pytest
import tensorflow as tf

from fullpass.components.push.push import rollback, rolled_back_origins
from tests.e2e.conftest import Owner
from tests.record_files import example

pytestmark = [pytest.mark.e2e, pytest.mark.long]

YAML = """\
name: tiny
data:
  source: {format: csv, path: flights.csv}
  joins: {planes: {source: {format: csv, path: planes.csv}, on: tail, serve: lookup}}
label: {name: late, task: binary}
features:
  dist: {type: number, missing: 0}
  seats: {type: number, column: planes.seats, missing: median, transforms: [z_score]}
  maker: {type: category, column: planes.maker}
model: linear
training: {epochs: 1}
"""
PLANES = [f"N{i},{10 * i},{'AB'[i % 2]}" for i in range(9)]


def write_planes(owner, rows, header="tail,seats,maker"):
    (owner.folder / "planes.csv").write_text("\n".join([header, *rows]) + "\n")


def scores(owner, *tails):
    model = tf.saved_model.load(str((owner.serving / "current").resolve()))
    given = {"tail": tf.constant(tails), "dist": tf.fill([len(tails)], 0.5)}
    raw = model.signatures["serving_raw"](**given)["scores"].numpy()
    examples = [example({"tail": tail, "dist": 0.5}) for tail in tails]
    np.testing.assert_array_equal(model.signatures["serving_default"](examples=tf.constant(examples))["scores"], raw)
    return raw


def test_a_new_table_is_served_with_the_same_weights(tmp_path):
    owner = Owner(tmp_path, "tiny", YAML)
    flights = [f"N{i % 10},{i * 37 % 400 / 400},{int(i % 10 > 4)}" for i in range(400)]  # N9 is in no table
    (tmp_path / "flights.csv").write_text("tail,dist,late\n" + "\n".join(flights) + "\n")
    write_planes(owner, PLANES)
    owner("run", "pipeline.yaml")
    of_one, of_eight, of_nine = scores(owner, "N1", "N8", "N9")
    assert "nothing was pushed" in owner("refresh")
    refused = {
        "not a number in column 'seats'": (["N1,many,A"], "tail,seats,maker"),
        "no column 'seats'": (PLANES, "tail,chairs,maker"),
        "none of 8": (["X,1,A"], "tail,seats,maker"),
        "more than 100,000 rows": ([f"N{i},1,A" for i in range(100_001)], "tail,seats,maker"),
    }
    for message, (rows, header) in refused.items():
        write_planes(owner, rows, header)
        done = owner.run("refresh")
        assert done.returncode == 1 and message in done.stdout + done.stderr, done.stdout + done.stderr
    swapped = [PLANES[8].replace("N8", "N1"), PLANES[1].replace("N1", "N8"), PLANES[8].replace("N8", "N9")]
    write_planes(owner, [row for row in PLANES if row[:2] not in ("N1", "N8")] + swapped)
    assert "0 without a match in planes" in owner("refresh")
    np.testing.assert_array_equal(scores(owner, "N1", "N8", "N9"), [of_eight, of_one, of_eight])
    told = owner.lineage("latest")
    assert told["refreshed"]["joins"] == {"planes": {"files": [str(tmp_path / "planes.csv")], "rows": 10}}
    assert told["refreshed"]["latency_ms"] > 0 and "served, refreshed" in owner("models", "serving")
    assert told["refreshed"]["from_version"] == owner.versions()[0].name and len(owner.versions()) == 2
    write_planes(owner, PLANES)
    owner("refresh")  # of a refreshed version
    np.testing.assert_array_equal(scores(owner, "N1", "N8", "N9"), [of_one, of_eight, of_nine])
    assert "not the served version" in owner.run("refresh", owner.versions()[0].name).stderr
    rollback(owner.serving)
    assert rolled_back_origins(owner.serving) == set(), "the weights of the model are not what was rolled back"
    owner.config.write_text(YAML.replace("on: tail", "on: {dist: tail}"))
    assert "data.joins.planes.on: dist, but the model looks up by tail" in owner.run("refresh").stderr


CHAINED = """\
name: tiny
data:
  source: {format: csv, path: flights.csv}
  joins:
    planes: {source: {format: csv, path: planes.csv, separator: ";", decimal: ","}, on: tail, serve: lookup}
    makers: {source: {format: csv, path: makers.csv}, on: {planes.maker: id}, serve: lookup}
label: {name: late, task: binary}
features:
  dist: {type: number, missing: 0}
  maker: {type: number, column: planes.maker, missing: 0, transforms: [z_score]}
  size: {type: number, column: makers.size, missing: 0, transforms: [z_score]}
model: linear
training: {epochs: 1}
"""


def test_a_number_by_which_a_table_finds_rows_keeps_its_digits_and_its_decimal_sign(tmp_path):
    owner = Owner(tmp_path, "tiny", CHAINED)
    flights = [f"N{i % 4},{i * 37 % 400 / 400},{i % 2}" for i in range(400)]
    (tmp_path / "flights.csv").write_text("tail,dist,late\n" + "\n".join(flights) + "\n")
    makers = ["16777217", "16777216", "0,5", "1,5"]  # the first two are equal as float32
    (tmp_path / "planes.csv").write_text("tail;maker\n" + "".join(f"N{i};{maker}\n" for i, maker in enumerate(makers)))

    def write_makers(sizes):
        rows = [f'"{maker}",{size}\n' for maker, size in zip(makers, sizes, strict=True)]
        (tmp_path / "makers.csv").write_text("id,size\n" + "".join(rows))

    write_makers([100, 0, 50, 50])
    owner("run", "pipeline.yaml")
    big, small, _, half = scores(owner, "N0", "N1", "N2", "N3")
    assert big != small
    write_makers([0, 100, 50, 50])
    assert "0 without a match in planes, 0 without a match in makers" in owner("refresh")
    np.testing.assert_array_equal(scores(owner, "N0", "N1", "N3"), [small, big, half])
