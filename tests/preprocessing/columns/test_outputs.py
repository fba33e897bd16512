"""The outputs of the transform graph, known before any data."""

import re

from fullpass.preprocessing.columns import compute_at
from fullpass.preprocessing.columns.outputs import count_name, outputs, vocabulary_name
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.output import Output


def test_outputs_in_the_order_of_the_yaml():
    config = PreprocessingConfig.model_validate(
        {
            "features": {
                "fare": {"type": "number", "indicator": True},
                "miles": {"type": "number", "transforms": [{"bucketize": {"buckets": 4}}]},
                "genres": {"type": "category", "separator": "|", "encoding": {"embedding": 8}},
                "open": "boolean",
                "at": {"type": "date", "parts": ["hour", "weekend", "epoch"], "cyclic": True},
                "review": {"type": "text", "output": "tf_idf"},
                "zip": "count",
                "place": {"type": "vector", "columns": ["lat", "lon"]},
                "own": {"type": "custom", "function": "m:f", "columns": {"fare": "number"}, "ids": 3},
            },
            "crosses": [{"inputs": ["miles", "open"]}],
            "label": {"name": "tip", "task": "binary"},
        }
    )
    eight = config.features["genres"].encoding
    assert outputs(config) == (
        Output("fare_xf", "fare", "dense"),
        Output("fare.missing_xf", "fare", "dense"),
        Output("miles_xf", "miles", "ids", unseen=1),
        Output("genres_xf", "genres", "ids", multi=True, encoding=eight, unseen=2),
        Output("open_xf", "open", "ids", encoding="one_hot", unseen=1),
        Output("at.hour_xf", "at", "dense"),
        Output("at.weekend_xf", "at", "ids", unseen=1),
        Output("at.epoch_xf", "at", "dense"),
        Output("review_xf", "review", "ids", multi=True, weights="review.weight_xf", tf_idf=True),
        Output("zip_xf", "zip", "dense"),
        Output("place_xf", "place", "dense"),
        Output("own_xf", "own", "ids"),
        Output("miles_x_open_xf", "miles_x_open", "ids", unseen=1),
    )


def test_names_of_files_are_safe_and_different():
    features = ["city", "city 1", "city-1", "city_1", "größe", "grösse", "a/b", "a\\b", "..", "日本", "中国", "x" * 300]
    for name in (vocabulary_name, count_name):
        names = [name(feature) for feature in features]
        assert len(set(names)) == len(features)
        assert all(re.fullmatch(r"\w{1,150}", n, re.ASCII) for n in names)
    assert vocabulary_name("city") == "vocabulary_city"


def test_the_work_for_a_column_does_not_grow_with_their_number(monkeypatch):
    """If each output searched all features, 5,000 features would take 25 million steps."""
    features = {f"column {i}": {"type": "number"} for i in range(5000)}
    config = PreprocessingConfig.model_validate({"features": features, "label": {"name": "y", "task": "binary"}})
    looks, owner_of = [], PreprocessingConfig.vocabulary_owner
    monkeypatch.setattr(
        PreprocessingConfig, "vocabulary_owner", lambda own, name: looks.append(name) or owner_of(own, name)
    )
    reads, columns_of = [], compute_at.raw_columns
    monkeypatch.setattr(compute_at, "raw_columns", lambda given: reads.append(given) or columns_of(given))
    assert len(outputs(config)) == 5000
    assert not compute_at.string_features(config, features)
    assert len(looks) <= 3 * 5000 and len(reads) == 1
