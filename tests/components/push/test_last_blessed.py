"""The choice of the model that a new one follows, with real artifacts and exports on disk."""

import shutil

import pytest

from fullpass.base import state_file
from fullpass.components.push.last_blessed import LastBlessedModel
from fullpass.components.push.push import push, rollback


@pytest.fixture
def models(tmp_path):
    """Returns `models(number, made_from)`, which makes a model artifact whose export names its `made_from`."""
    from tfx.types import standard_artifacts

    def make(number, made_from):
        model = standard_artifacts.Model()
        model.id, model.uri = number, str(tmp_path / "Trainer" / str(number))
        extra = tmp_path / "Trainer" / str(number) / "Format-Serving" / "assets.extra"
        extra.mkdir(parents=True)
        state_file.write(extra / "fullpass.json", {"made_from": made_from})
        return model

    return make


def blessing(number, model, *, blessed=True):
    from tfx.types import standard_artifacts

    found = standard_artifacts.ModelBlessing()
    found.id = number
    found.set_int_custom_property("blessed", int(blessed))
    found.set_int_custom_property("current_model_id", model.id)
    return found


def resolve(models, blessings, made_from, target="nowhere"):
    found = LastBlessedModel(made_from, str(target)).resolve_artifacts(
        None, {"model": models, "model_blessing": blessings}
    )
    ids = [b.get_int_custom_property("current_model_id") for b in found["model_blessing"]]
    assert ids == [m.id for m in found["model"]]
    return ids


def test_the_newest_blessed_model_that_was_made_from_something_else(models):
    first, second, third = models(1, "day 1"), models(2, "day 2"), models(3, "day 3")
    every = [third, first, second]
    blessed = [blessing(10, first), blessing(11, second), blessing(12, third, blessed=False)]
    assert resolve([], [], "day 1") == []
    assert resolve(every, blessed, "day 4") == [2]
    assert resolve(every, blessed, "day 3") == [2]
    assert resolve(every, blessed, "day 2") == [1], "a run that changes nothing follows what it followed before"
    assert resolve(every[1:2], blessed[:1], "day 1") == [], "no model follows itself"
    assert resolve(every, blessed[2:], "day 4") == []


def test_a_model_that_a_person_blessed_counts_from_then_on(models):
    first, second = models(1, "day 1"), models(2, "day 2")
    refused, forced = blessing(10, first, blessed=False), blessing(12, first)
    assert resolve([first, second], [refused, blessing(11, second), forced], "day 3") == [1]


def test_a_model_whose_files_are_gone_is_no_base(models):
    first, second = models(1, "day 1"), models(2, "day 2")
    shutil.rmtree(second.uri)
    assert resolve([first, second], [blessing(10, first), blessing(11, second)], "day 3") == [1]


def test_a_model_that_was_rolled_back_is_no_base_until_it_is_back(models, tmp_path):
    first, second = models(1, "day 1"), models(2, "day 2")
    target = tmp_path / "serving"
    versions = [
        push(tmp_path / "Trainer" / str(m.id) / "Format-Serving", target, keep=5, origin=m.uri).version
        for m in (first, second)
    ]
    both = ([first, second], [blessing(10, first), blessing(11, second)], "day 3", target)
    assert resolve(*both) == [2]
    rollback(target)
    assert resolve(*both) == [1]
    rollback(target, versions[1])
    assert resolve(*both) == [2]
