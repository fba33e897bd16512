"""The bodies of TensorFlow Serving's REST API: requests to predict, in rows or in columns, and their answers.

    {"signature_name": "serving_raw", "instances": [{"fare": 20.0}, {"fare": 3.5}]} -> {"predictions": [{...}, {...}]}
    {"signature_name": "serving_raw", "inputs": {"fare": [20.0, 3.5]}}              -> {"outputs": {...}}

Source: tensorflow_serving/util/json_tensor.cc. One thing differs: where a signature has defaults, an input may be left
out, as over gRPC, unless the request names one that the signature does not have.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fullpass.components.serving.tensors import (
    ABSENT,
    Input,
    RefusedRequest,
    column_of_cells,
    is_named,
    json_shown,
    tensor,
    type_name,
)
from fullpass.trainer.export.export_files import SERVING_DEFAULT

_BYTES = "_bytes"
"""Ends the name of an output whose texts are written as base64."""
Signatures = Mapping[str, Mapping[str, Input]]
"""Signature -> its inputs by name."""


@dataclass(frozen=True)
class PredictRequest:
    """A request to predict.

    Attributes:
        by_row: Whether it is in rows, and the answer too.
        inputs: Input -> its values; those that are left out are missing in every row.
        rows: The length of the longest input.
    """

    signature: str
    by_row: bool
    inputs: Mapping[str, np.ndarray]
    rows: int


def read_document(body: bytes) -> dict[str, Any]:
    """Returns the JSON object of a body; what follows it is ignored.

    Raises:
        RefusedRequest: It is none.
    """
    text = body.decode("utf-8", "surrogateescape").lstrip("\ufeff \t\r\n")
    if not text:
        raise RefusedRequest("JSON Parse error: The document is empty")
    try:
        found, _ = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError as error:
        raise RefusedRequest(f"JSON Parse error: {error.msg} at offset: {error.pos}") from None
    except RecursionError:
        raise RefusedRequest("JSON Parse error: the document is nested too deeply") from None
    except ValueError:
        raise RefusedRequest("JSON Parse error: Number too big to be stored in double.") from None
    if not isinstance(found, dict):
        raise _refused(found, "Is not object")
    return found


def _refused(value: Any, why: str) -> RefusedRequest:
    return RefusedRequest(f"JSON Value: {json_shown(value)} {why}")


def signature_name(document: Mapping[str, Any]) -> str:
    """Returns the signature that a request names, or the default.

    Raises:
        RefusedRequest: The name is no text.
    """
    name = document.get("signature_name", SERVING_DEFAULT)
    if not isinstance(name, str):
        raise _refused(document, "not formatted correctly. 'signature_name' key must be a string value.")
    return name or SERVING_DEFAULT


def taken_column(document: dict[str, Any], name: str | None, declared: Mapping[str, Input]) -> Sequence[str | None]:
    """Returns the caller's column `name` as texts, and takes it out of the request if the signature has no such input.

    It is empty if there is no such column; None stands for a row without it.
    """
    rows, inputs = document.get("instances"), document.get("inputs")
    take = dict.get if name in declared else dict.pop
    found: Any = ()
    if name and isinstance(rows, list):
        found = [take(row, name, None) if isinstance(row, dict) else None for row in rows]
    elif name and isinstance(inputs, dict):
        found = take(inputs, name, ())
    texts = [str(one) if type(one) in (str, int) else None for one in found] if isinstance(found, list) else ()
    return texts if any(texts) else ()


def predict_request(document: Mapping[str, Any], signatures: Signatures) -> PredictRequest:
    """Returns the request to predict of a body.

    Raises:
        RefusedRequest: It is not of the form that the signature needs.
    """
    name = signature_name(document)
    if name not in signatures:
        raise RefusedRequest(f'Serving signature name: "{name}" not found in signature def')
    declared = signatures[name]
    if not declared:
        raise RefusedRequest(f"Failed to get input map for signature: {name}")
    by_row = "instances" in document
    if by_row:
        given = _of_rows(document, declared)
    elif "inputs" in document:
        given = _of_columns(document["inputs"], declared)
    else:
        raise RefusedRequest("Missing 'inputs' or 'instances' key")
    rows = len(document["instances"]) if by_row else max((len(a) for a in given.values() if a.ndim), default=0)
    inputs = {key: _fitting(key, given.get(key), one, rows) for key, one in declared.items()}
    return PredictRequest(name, by_row, inputs, rows)


def _of_rows(document: Mapping[str, Any], declared: Mapping[str, Input]) -> dict[str, np.ndarray]:
    rows = document["instances"]
    if "inputs" in document:
        raise _refused(document, "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist ")
    if not isinstance(rows, list):
        raise _refused(document, "Expecting 'instances' to be an list/array")
    if not rows:
        raise _refused(document, "No values in 'instances' array")
    if not isinstance(rows[0], dict) and len(declared) > 1:
        raise RefusedRequest(
            "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
            "tensorinfo_map"
        )
    if is_named(rows[0]):
        cells = _cells(rows, declared)
        columns = {key: column_of_cells(key, column, declared[key]) for key, column in cells.items()}
        return {key: column for key, column in columns.items() if column is not None}
    objects = [number for number, row in enumerate(rows) if is_named(row)]
    if objects:
        raise RefusedRequest(f"Expecting value/list but got object at item {objects[0]} of input list")
    [(key, one), *_] = declared.items()
    return {key: np.asarray(column_of_cells("", rows, one))}


def _cells(rows: Sequence[Any], declared: Mapping[str, Input]) -> dict[str, list[Any]]:
    """Returns the cells of each input."""
    required = {key for key, one in declared.items() if not one.optional}
    for number, row in enumerate(rows):
        if not is_named(row):
            raise RefusedRequest(f"Expecting object but got list at item {number} of input list")
        if row.keys() == declared.keys():
            continue
        unknown = [key for key in row if key not in declared]
        where = f"Failed to process element: {number}"
        if unknown:
            raise RefusedRequest(
                f"{where} key: {unknown[0]} of 'instances' list. Error: INVALID_ARGUMENT: JSON object: does not have "
                f"named input: {unknown[0]}"
            )
        if not required <= row.keys():
            raise RefusedRequest(
                f"{where} of 'instances' list. JSON object: {json_shown(row)} keys must be equal to: "
                f"{','.join(sorted(declared))}"
            )
    return {key: [row.get(key, ABSENT) for row in rows] for key in declared}


def _of_columns(value: Any, declared: Mapping[str, Input]) -> dict[str, np.ndarray]:
    if not is_named(value):
        if len(declared) > 1:
            raise RefusedRequest(
                "inputs is a plain value/list, but expecting an object as multiple input tensors required as per "
                "tensorinfo_map"
            )
        [(key, one)] = declared.items()
        return {key: tensor(key, value, one)}
    strict = not value.keys() <= declared.keys()
    for key, one in declared.items():
        if key not in value and (strict or not one.optional):
            raise RefusedRequest(f"Missing named input: {key} in 'inputs' object.")
    return {key: tensor(key, value[key], one) for key, one in declared.items() if key in value}


def _fitting(key: str, found: np.ndarray | None, declared: Input, rows: int) -> np.ndarray:
    """Returns the values of an input in the shape that it needs; an empty list of an optional one means no values."""
    if found is None or (declared.optional and not found.size):
        return declared.missing(rows)
    shape = declared.shape
    fits = len(shape) == found.ndim and all(want in (None, size) for want, size in zip(shape, found.shape, strict=True))
    if not fits:
        expected = ",".join("?" if size is None else str(size) for size in shape)
        raise RefusedRequest(
            f"input {key!r} has the shape [{','.join(map(str, found.shape))}], and expects [{expected}]"
        )
    return found


def answer_text(outputs: Mapping[str, np.ndarray], by_row: bool) -> str:
    """Returns the JSON of an answer; NaN and Infinity are written as such.

    Raises:
        RefusedRequest: It is asked for in rows, and an output has no rows, or another number of them.
    """
    plain = {name: plain_values(array, as_bytes=name.endswith(_BYTES)) for name, array in outputs.items()}
    if not by_row:
        return json.dumps({"outputs": plain if len(plain) > 1 else next(iter(plain.values()))}, ensure_ascii=False)
    first = None
    for name, array in outputs.items():
        if not array.ndim:
            raise RefusedRequest(f"Tensor name: {name} has no shape information ")
        if first is not None and len(array) != first:
            raise RefusedRequest(f"Tensor name: {name} has inconsistent batch size: {len(array)} expecting: {first}")
        first = len(array)
    rows = [dict(zip(plain, cells, strict=True)) for cells in zip(*plain.values(), strict=True)]
    found = rows if len(plain) > 1 else next(iter(plain.values()))
    return json.dumps({"predictions": found}, ensure_ascii=False)


def plain_values(array: np.ndarray, *, as_bytes: bool = False) -> Any:
    """Returns an array as JSON takes it, each float with the fewest digits that read back as the same float."""
    if array.dtype.kind == "f":
        return array.astype(str).astype(np.float64).tolist()
    if array.dtype.kind != "O":
        return array.tolist()
    if as_bytes:
        return _mapped(array.tolist(), lambda value: {"b64": base64.b64encode(value).decode("ascii")})
    return _mapped(array.tolist(), lambda value: value.decode("utf-8", "replace"))


def _mapped(value: Any, change: Any) -> Any:
    return [_mapped(one, change) for one in value] if isinstance(value, list) else change(value)


def check_examples(document: Mapping[str, Any]) -> None:
    """Checks the form of a request to classify or regress.

    Raises:
        RefusedRequest: It has no list of examples.
    """
    if "examples" not in document:
        raise _refused(document, "When method is classify, key 'examples' is expected and was not found")
    examples = document["examples"]
    if not isinstance(examples, list):
        raise _refused(document, "Expecting 'examples' value to be an list/array")
    if not examples:
        raise _refused(document, "'examples' value is an empty array")
    wrong = [one for one in examples if not isinstance(one, dict)]
    if wrong:
        raise RefusedRequest(f"Example must be JSON object but got JSON {type_name(wrong[0])}")
