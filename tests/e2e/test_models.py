"""Two models of one pipeline, and a YAML that is reverted to the first. test_retraining.py tests longer histories."""

import shutil

import pytest

from tests.e2e.conftest import Owner

pytestmark = pytest.mark.e2e

YAML = """\
# The first, as it was.
name: tiny
data:
  source: {format: csv, path: "data/{YYYY}-{MM}-{DD}.csv"}
  window: {spans: 1}
  split: {method: hash, column: id, ratios: {train: 8, eval: 2}}
label: {name: tip, task: regression}
features: {fare: {type: number, transforms: [z_score]}, zone: category}
model: linear
training: {epochs: 1}
input: {cache: disk}
evaluation: {thresholds: {rmse: {max: 100}}}
"""


def add_day(owner: Owner, day: int) -> None:
    rows = [f"{day}-{i},{i % 7},z{i % 4},{i % 3}" for i in range(120)]
    (owner.folder / "data" / f"2013-01-{day:02d}.csv").write_text("id,fare,zone,tip\n" + "\n".join(rows) + "\n")


@pytest.fixture(scope="module")
def owner(tmp_path_factory) -> Owner:
    """An owner who ran the pipeline on one day, and with other settings on the next day."""
    owner = Owner(tmp_path_factory.mktemp("owner"), "tiny", YAML)
    (owner.folder / "data").mkdir()
    add_day(owner, 1)
    owner("run", "pipeline.yaml")
    add_day(owner, 2)
    owner.config.write_text(YAML.replace("The first", "The second").replace("epochs: 1", "epochs: 2"))
    owner("run", "pipeline.yaml")
    return owner


@pytest.mark.long
def test_a_yaml_that_is_put_back_serves_what_was_served_until_a_person_says_otherwise(owner):
    """The model of the old YAML comes from the cache. The newest pushed model stays served, and the run reports it."""
    second, first = (version["version"] for version in owner.say("models"))
    now = owner.config.read_text()
    (owner.folder / "data" / "2013-01-02.csv").rename(owner.folder / "later.csv")
    owner.config.write_text(YAML)
    out = owner("run", "pipeline.yaml")
    assert f"version {first} is not served, as a newer one was pushed after it; version {second} is served" in out
    assert (owner.serving / "current").resolve().name == str(second)
    told = owner.summary()
    assert (told["pushed_to"], told["served"]) == tuple(str(owner.serving / str(one)) for one in (first, second))
    owner("rollback", "--to", first)
    assert f"served from {owner.serving / str(first)}" in owner("run", "pipeline.yaml")
    shutil.rmtree(owner.serving / str(first))
    assert "To push it again: fullpass run FILE --from Pusher --fresh" in owner("run", "pipeline.yaml")
    assert "Blessed and pushed to" in owner("run", "pipeline.yaml", "--from", "Pusher", "--fresh")
    owner.config.write_text(now)
    (owner.folder / "later.csv").rename(owner.folder / "data" / "2013-01-02.csv")
