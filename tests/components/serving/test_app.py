"""Requests are answered, and refused, as TensorFlow Serving does.

The refusals are read from its source, commit 9d981c5: util/json_tensor.cc, model_servers/http_rest_api_util.cc,
http_rest_api_handler.cc, server_core.cc, get_model_status_impl.cc, servables/tensorflow/classifier.cc, regressor.cc.
"""

import base64
import json

import numpy as np
import pytest
import tensorflow as tf

from tests.components.serving.conftest import ask
from tests.trainer.conftest import to_examples

pytestmark = pytest.mark.integration
PREDICT = "/v1/models/trips:predict"
RAW = {"signature_name": "serving_raw"}
FULL = {"x": 1.5, "trip_miles": 2.0, "kind": "a", "city": "city 1", "tags": "red", "note": "so", "position": [1.0, 2.0]}


def raw(**changes):
    """A request in rows, whose only row is changed."""
    return {**RAW, "instances": [{**FULL, **changes}]}


ELEMENT = "Failed to process element: 0 key: {} of 'instances' list. Error: INVALID_ARGUMENT: {}"
REFUSED = {
    "nothing": (PREDICT, "", 400, "JSON Parse error: The document is empty"),
    "a list": (PREDICT, "[1, 2]", 400, "JSON Value: [1, 2] Is not object"),
    "a name that is a number": (
        PREDICT,
        '{"signature_name": 5}',
        400,
        'JSON Value: {\n    "signature_name": 5\n} not formatted correctly. '
        "'signature_name' key must be a string value.",
    ),
    "no rows and no columns": (PREDICT, RAW, 400, "Missing 'inputs' or 'instances' key"),
    "another model": ("/v1/models/half:predict", RAW, 404, "Servable not found for request: Latest(half)"),
    "another version": (
        "/v1/models/trips/versions/6:predict",
        RAW,
        404,
        "Servable not found for request: Specific(trips, 6)",
    ),
    "no number of a version": (
        "/v1/models/trips/versions/99999999999999999999:predict",
        RAW,
        400,
        "Failed to convert version: 99999999999999999999 to numeric.",
    ),
    "a label": ("/v1/models/trips/labels/stable:predict", RAW, 400, "Unrecognized servable version label: stable"),
    "another verb": ("/v1/models/trips:guess", RAW, 400, "Malformed request: POST /v1/models/trips:guess"),
    "another signature": (
        PREDICT,
        {"signature_name": "serve", "instances": [1]},
        400,
        'Serving signature name: "serve" not found in signature def',
    ),
    "both": (
        PREDICT,
        {"instances": ["a"], "inputs": ["a"]},
        400,
        'JSON Value: {\n    "instances": ["a"],\n    "inputs": ["a"]\n} Not formatted correctly expecting only one of '
        "'inputs' or 'instances' keys to exist ",
    ),
    "rows that are no list": (
        PREDICT,
        {"instances": "a"},
        400,
        'JSON Value: {\n    "instances": "a"\n} Expecting \'instances\' to be an list/array',
    ),
    "no rows": (
        PREDICT,
        {"instances": []},
        400,
        "JSON Value: {\n    \"instances\": []\n} No values in 'instances' array",
    ),
    "plain rows of several inputs": (
        PREDICT,
        {**RAW, "instances": [1, 2]},
        400,
        "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
        "tensorinfo_map",
    ),
    "plain columns of several inputs": (
        PREDICT,
        {**RAW, "inputs": [1, 2]},
        400,
        "inputs is a plain value/list, but expecting an object as multiple input tensors required as per "
        "tensorinfo_map",
    ),
    "rows and a list": (
        PREDICT,
        {**RAW, "instances": [FULL, [1]]},
        400,
        "Expecting object but got list at item 1 of input list",
    ),
    "lists and a row": (
        PREDICT,
        {"instances": [{"b64": "aaaa"}, {"x": 1}]},
        400,
        "Expecting value/list but got object at item 1 of input list",
    ),
    "an unknown column": (
        PREDICT,
        raw(fair=1.0),
        400,
        ELEMENT.format("fair", "JSON object: does not have named input: fair"),
    ),
    "text for a number": (
        PREDICT,
        raw(x="1.5"),
        400,
        ELEMENT.format("x", 'JSON Value: "1.5" Type: String is not of expected type: float'),
    ),
    "null": (
        PREDICT,
        raw(x=None),
        400,
        ELEMENT.format("x", "JSON Value: null Type: Null is not of expected type: float"),
    ),
    "true": (
        PREDICT,
        raw(x=True),
        400,
        ELEMENT.format("x", "JSON Value: true Type: True is not of expected type: float"),
    ),
    "a number for text": (
        PREDICT,
        raw(kind=3),
        400,
        ELEMENT.format("kind", "JSON Value: 3 Type: Number is not of expected type: string"),
    ),
    "bytes for a number": (
        PREDICT,
        raw(x={"b64": "AA=="}),
        400,
        ELEMENT.format("x", 'JSON Value: {\n    "b64": "AA=="\n} Type: Object is not of expected type: float'),
    ),
    "no base64": (PREDICT, raw(kind={"b64": "***"}), 400, ELEMENT.format("kind", "Unable to base64 decode")),
    "an object for text": (
        PREDICT,
        raw(kind={"text": "a"}),
        400,
        ELEMENT.format("kind", 'JSON Value: {\n    "text": "a"\n} not formatted correctly for base64 data'),
    ),
    "lists of two lengths": (
        PREDICT,
        {**RAW, "instances": [FULL, {**FULL, "position": [1.0]}]},
        400,
        "Failed to process element: 1 key: position of 'instances' list. Error: INVALID_ARGUMENT: Expecting tensor "
        "size: 2 but got: 1",
    ),
    "lists of two shapes": (
        PREDICT,
        {**RAW, "instances": [FULL, {**FULL, "position": [[1.0], [2.0]]}]},
        400,
        "Failed to process element: 1 key: position of 'instances' list. Error: INVALID_ARGUMENT: Expecting shape [2] "
        "but got: [2,1]",
    ),
    "a ragged column": (
        PREDICT,
        {**RAW, "inputs": {"position": [[1.0, 2.0], [3.0]]}},
        400,
        "Encountered list at unexpected size: 1 at level: 1 expected size: 2",
    ),
    "a list too deep": (
        PREDICT,
        {**RAW, "inputs": {"x": [1.0, [2.0]]}},
        400,
        "Encountered list at unexpected level: 1 expected < 1",
    ),
    "a cell too high": (
        PREDICT,
        {**RAW, "inputs": {"position": [[1.0, 2.0], 3.0]}},
        400,
        "JSON Value: 3.0 found at incorrect level: 2 in the JSON DOM. Expected at level: 2",
    ),
    "a column that is missing": (
        PREDICT,
        {"signature_name": "serving_features", "inputs": {}},
        400,
        "Missing named input: {} in 'inputs' object.",
    ),
    "classification": (
        "/v1/models/trips:classify",
        {"examples": [{"x": 1.0}]},
        400,
        "Expected classification signature method_name to be tensorflow/serving/classify. "
        "Was: tensorflow/serving/predict",
    ),
    "regression without examples": (
        "/v1/models/trips:regress",
        {"instances": [1]},
        400,
        "JSON Value: {\n    \"instances\": [1]\n} When method is classify, key 'examples' is expected and was not "
        "found",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_request_is_refused_with_the_words_of_tensorflow_serving(name, api, versions):
    path, body, status, message = REFUSED[name]
    app = api()
    [answer] = ask(app, ("POST", path, body))
    first = next(iter(versions.current.signatures["serving_features"]))
    assert (answer.status_code, answer.json()) == (status, {"error": message.replace("{}", first)})


def test_other_requests_are_refused_too(api):
    deep, huge = '{"a":' + "[" * 100_000, '{"a": ' + "9" * 5000 + "}"
    lone = json.dumps(raw(kind="\ud800"))
    app = api(limits=(200_000, 3))
    sent = [
        deep,
        huge,
        lone,
        '{"instances": [1,]}',
        raw(x=10**400),
        {**RAW, "inputs": {"x": [1.0, 2.0], "kind": ["a"]}},
    ]
    answers = ask(app, *(("POST", PREDICT, body) for body in sent))
    assert [answer.status_code for answer in answers] == [400] * 6
    assert [answer.json()["error"][:17] for answer in answers[:4]] == ["JSON Parse error:"] * 4
    assert answers[5].json()["error"].startswith("assertion failed: [columns differ in length; give all the same")
    [large, many, shape, other, verb, model, version] = ask(
        app,
        ("POST", PREDICT, " " * 200_001),
        ("POST", PREDICT, {**RAW, "inputs": {"x": [1.0] * 4}}),
        ("POST", PREDICT, {**RAW, "inputs": {"position": [1.0, 2.0]}}),
        ("GET", "/", b""),
        ("DELETE", "/v1/models/trips", b""),
        ("GET", "/v1/models/half", b""),
        ("GET", "/v1/models/trips/versions/6", b""),
    )
    assert (large.status_code, many.status_code, shape.status_code, other.status_code) == (413, 400, 400, 404)
    assert many.json() == {"error": "4 rows are more than 3 (--most-rows)"}
    assert shape.json() == {"error": "input 'position' has the shape [2], and expects [?,2]"}
    assert (verb.status_code, verb.json()) == (400, {"error": "Malformed request: DELETE /v1/models/trips"})
    assert (model.status_code, model.json()) == (404, {"error": "Could not find any versions of model half"})
    assert (version.status_code, version.json()) == (404, {"error": "Could not find version 6 of model trips"})


@pytest.fixture(scope="module")
def signature(pushed):
    """The signature for serialized examples, of TensorFlow's own loader."""
    loaded = tf.saved_model.load(str(pushed / "7"))
    yield loaded.signatures["serving_default"]


def test_answers_are_those_of_the_model(api, signature, exported):
    rows = exported("binary").prepared.rows["eval"][:12]
    examples = to_examples(rows)
    expected = {name: tensor.numpy() for name, tensor in signature(examples=tf.constant(examples)).items()}
    named = [{key.replace(" ", "_"): v for key, v in row.items() if v is not None} for row in rows]
    named = [{key: v for key, v in row.items() if key in FULL} for row in named]
    columns = {
        "x": [row["x"] for row in named],
        "trip_miles": [row.get("trip_miles", float("nan")) for row in named],
        **{key: [row.get(key, "") for row in named] for key in ("kind", "city", "tags", "note")},
        "position": [row.get("position", [float("nan")] * 2) for row in named],
    }
    serialized = [{"b64": base64.b64encode(one).decode()} for one in examples]
    by_row, by_column, by_example = ask(
        api(),
        ("POST", PREDICT, {**RAW, "instances": named}),
        ("POST", PREDICT, json.dumps({**RAW, "inputs": columns})),
        ("POST", PREDICT, {"instances": serialized}),
    )
    assert set(by_column.json()["outputs"]) == {"scores", "prediction", "probabilities", "classes"}
    for answer in (by_row, by_example):
        found = answer.json()["predictions"]
        assert [row["prediction"] for row in found] == [label.decode() for label in expected["prediction"]]
        np.testing.assert_allclose([row["scores"] for row in found], expected["scores"], rtol=1e-5)
        np.testing.assert_allclose([row["probabilities"] for row in found], expected["probabilities"], rtol=1e-5)
        assert found[0]["classes"] == ["no", "yes"]
    np.testing.assert_allclose(by_column.json()["outputs"]["scores"], expected["scores"], rtol=1e-5)
    # Each number reads back as the model's float32.
    exact = np.float32([row["scores"] for row in by_example.json()["predictions"]])
    assert exact.tobytes() == expected["scores"].tobytes()


def test_what_a_request_leaves_out_is_missing(api):
    without = {key: value for key, value in FULL.items() if key not in ("trip_miles", "position", "kind")}
    rows, columns, misspelt = ask(
        api(),
        ("POST", PREDICT, {**RAW, "instances": [without, FULL]}),
        ("POST", PREDICT, {**RAW, "inputs": {key: [value] for key, value in without.items()} | {"kind": []}}),
        ("POST", PREDICT, {**RAW, "inputs": {"x": [1.5], "citty": ["city 1"]}}),
    )
    [first, second] = [row["scores"] for row in rows.json()["predictions"]]
    assert columns.json()["outputs"]["scores"] == pytest.approx([first]) and first != second
    assert (misspelt.status_code, misspelt.json()["error"][:21]) == (400, "Missing named input: ")


def test_requests_that_are_joined_get_their_own_answers(api):
    """One of them is at fault, and one has another number of rows."""
    bodies = [raw(x=float(n)) for n in range(20)]
    bodies[5] = {**RAW, "inputs": {"x": [1.0, 2.0], "kind": ["a"]}}
    bodies[7] = {**RAW, "instances": [{**FULL, "x": 7.0}, {**FULL, "x": 70.0}]}
    app = api()
    alone = [ask(app, ("POST", PREDICT, body))[0] for body in bodies]
    together = ask(app, *(("POST", PREDICT, body) for body in bodies))
    assert [answer.status_code for answer in together] == [400 if n == 5 else 200 for n in range(20)]
    for one, other in zip(alone, together, strict=True):
        scores = [[row["scores"] for row in answer.json().get("predictions", ())] for answer in (one, other)]
        assert scores[0] == pytest.approx(scores[1], rel=1e-5)
    assert len({answer.text for answer in together}) > 5  # the model is sure where x is large


def test_status_and_metadata_have_the_form_of_tensorflow_serving(api, pushed):
    status, metadata, alive, ready, counts = ask(
        api(),
        ("GET", "/v1/models/trips", b""),
        ("GET", "/v1/models/trips/versions/7/metadata", b""),
        ("GET", "/livez", b""),
        ("GET", "/readyz", b""),
        ("GET", "/monitoring/prometheus/metrics", b""),
    )
    assert status.json() == {
        "model_version_status": [
            {"version": "7", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
        ]
    }
    found = metadata.json()
    assert found["model_spec"] == {"name": "trips", "signature_name": "", "version": "7"}
    default = found["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert default["method_name"] == "tensorflow/serving/predict"
    shape = {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
    assert default["inputs"] == {
        "examples": {"dtype": "DT_STRING", "tensor_shape": shape, "name": "serving_default_examples:0"}
    }
    assert (alive.status_code, ready.status_code) == (200, 200)
    assert 'fullpass_model_version{model="trips"} 7\n' in counts.text


def test_a_server_that_stops_takes_no_more_requests(api):
    app = api()
    app.ready = lambda: False
    ready, alive = ask(app, ("GET", "/readyz", b""), ("GET", "/livez", b""))
    assert (ready.status_code, alive.status_code) == (503, 200)
