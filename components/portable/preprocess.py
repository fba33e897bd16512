"""The preprocessing of a model with NumPy alone. This file and `preprocessing.json` belong together.

    preprocessing = Preprocessing("preprocessing.json")
    scores = run_the_model(preprocessing.features([{"fare": 12.5, "company": "Flash Cab"}]))
    preprocessing.answers(scores)

`preprocessing.json` lists the steps that lead from raw columns to the inputs of the model, in order. A step has a
name, its inputs and its options; `STEPS` computes it. A text is bytes, and a category is looked up in `tables`.
"""

import functools
import json
from pathlib import Path

import numpy as np

from fullpass.components.portable.steps.array_steps import ARRAY_STEPS
from fullpass.components.portable.steps.elements import each, encoded, object_array
from fullpass.components.portable.steps.number_steps import NUMBER_STEPS, flushed
from fullpass.components.portable.steps.text_steps import TEXT_STEPS


class Preprocessing:
    """Raw rows -> inputs of the model, and scores of the model -> answers.

    Attributes:
        columns: Raw column -> `type` (number, string, vector), whether its cells are lists (`many`), and the `decimal`
            sign of numbers that are given as its text.
    """

    def __init__(self, file):
        read = json.loads(Path(file).read_text(encoding="utf-8"))
        self.columns, self._feeds, self._inputs = read["columns"], read["feeds"], read["inputs"]
        self._answer, self._steps, self._values = read["answer"], [], {}
        tables = {name: {encoded(k): v for k, v in table.items()} for name, table in read["tables"].items()}
        for name, inputs, outputs, options in read["steps"]:
            if name == "Const":
                self._values[outputs[0]] = _array(options["value"], options["dtype"]).reshape(options["shape"])
            elif name == "LookupTableFindV2":
                self._steps.append((functools.partial(_look_up, tables[options["table"]]), inputs, outputs, options))
            else:
                self._steps.append((STEPS[name], inputs, outputs, options))

    def features(self, rows):
        """Returns the inputs of the model for rows, each a dict of raw columns; an absent column is missing.

        Numbers are numbers or None, texts str, bytes or None, lists and vectors lists of them.
        """
        known = dict(self._values)
        for name, feed in self._feeds.items():
            known.update(zip(feed, _sparse([row.get(name) for row in rows], self.columns[name]), strict=True))
        with np.errstate(all="ignore"):
            for compute, inputs, outputs, options in self._steps:
                made = compute(*[known[name] for name in inputs], **options)
                known.update(zip(outputs, made if isinstance(made, (list, tuple)) else [made], strict=True))
        return {key: _dense([known[part] for part in parts], len(rows)) for key, parts in self._inputs.items()}

    def answers(self, scores):
        """Returns a dict per row with `prediction`, and `probabilities` by class or `quantiles` by level."""
        classes, threshold = self._answer["classes"], self._answer["threshold"]
        found = []
        for row in np.asarray(scores, np.float64):
            if not classes:
                quantiles = dict(zip(self._answer["levels"], row[1:].tolist(), strict=True))
                found.append({"prediction": float(row[0]), **({"quantiles": quantiles} if quantiles else {})})
                continue
            if self._answer["separator"] is not None:
                prediction = self._answer["separator"].join(c for c, p in zip(classes, row, strict=True) if p >= 0.5)
            elif threshold is not None:
                prediction = classes[int(row[1] > threshold)]
            else:
                prediction = classes[int(np.argmax(row))]
            found.append({"prediction": prediction, "probabilities": dict(zip(classes, row.tolist(), strict=True))})
        return found


def _written(value, decimal):
    return str(value).replace(".", decimal) if isinstance(value, float) else value


def _array(values, dtype):
    return object_array([encoded(value) for value in values]) if dtype == "string" else np.array(values, dtype)


def _is_missing(value):
    return value is None or value in ("", b"") or value != value


def _sparse(cells, column):
    """Returns a column as TensorFlow parses it: positions int64 [n, 2], values [n], and shape int64 [2]."""
    single = column["type"] != "vector" and not column["many"]
    lists = [[cell] if single else list(cell or ()) for cell in cells]
    positions, values = [], []
    for row, found in enumerate(lists):
        while found and _is_missing(found[-1]):
            found = found[:-1]
        positions += [(row, place) for place in range(len(found))]
        values += found
    if column["type"] == "string":
        made = object_array(
            [encoded(_written(value, column["decimal"])) if value is not None else b"" for value in values]
        )
    else:
        made = flushed(np.array([np.nan if value is None else value for value in values], np.float32))
    width = max([1, *map(len, lists)])
    return np.array(positions, np.int64).reshape(-1, 2), made, np.array([len(cells), width], np.int64)


def _dense(parts, rows):
    """Returns an input of the model; a sparse one becomes rows that begin at the left, padded with 0."""
    if len(parts) == 1:
        return np.ascontiguousarray(parts[0])
    owners, values = parts[0][:, 0], parts[1]
    lengths = np.bincount(owners, minlength=rows)
    made = np.zeros((rows, max(1, lengths.max(initial=0))), values.dtype)
    made[owners, np.arange(len(owners)) - np.repeat(np.cumsum(lengths) - lengths, lengths)] = values
    return made


def _look_up(ids, keys, default, **_):
    return each(lambda key: ids.get(key, int(default)), np.int64)(keys)


STEPS = NUMBER_STEPS | ARRAY_STEPS | TEXT_STEPS
"""Name of a step, as TensorFlow calls it -> its function from arrays and options to an array, or to several."""
