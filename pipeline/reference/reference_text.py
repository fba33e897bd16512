"""The text between the tables of the reference pages."""

CONFIG = """
# The pipeline YAML

<!-- Written by `make docs` from the config models; change those. -->

A mapping has a section of its own below; a key whose default is null also accepts null. Let `fullpass init` write the
file from your data ([init.md](init.md)), or begin with

```yaml
name: taxi-tips
data:
  source: {format: csv, path: trips/*.csv}
  derive: {big_tipper: tips > 0.2 * fare}
label: {name: big_tipper, task: binary}
features:
  fare: number
  company: category
```

`fullpass check FILE` finds every mistake; `fullpass show FILE` prints the file with all defaults. For completion in an
editor, run `fullpass schema > pipeline.schema.json` and begin the file with

```yaml
# yaml-language-server: $schema=pipeline.schema.json
```

## Rules

- YAML 1.2: `no` and `2013-07-01` are text, `true` is a boolean, keys are text. Anchors, aliases and `<<` work.
- Unknown keys, duplicate keys and values of another type are errors.
- Relative paths begin at the file's folder. `package:NAME/PATH` is a file inside an installed Python package.
- Variables such as `${HOME}` are not substituted. Credentials are refused, because the file is copied into artifacts
  and reports; they come from the environment of the run.

## Exit codes
"""

KEYS = """
A stopped `fullpass schedule run` without `--once` ends with 0; `fullpass backfill` with the code of its last step, or 1
if it was interrupted.

## All keys
"""

METRICS = """
## Metrics

For `evaluation.metrics` and `evaluation.thresholds`.
"""

FEATURES = """
# Features and transforms

<!-- Written by `make docs` from the config models; change those. -->

To use a column, name a feature after it and choose a type; a bare type is enough: `fare: number`. All statistics come
from the train split, called train below.

| the column holds | type |
|---|---|
| a quantity; several numbers side by side, or a list of them | [number](#number); [vector](#vector) |
| one of many values, or several per cell; how often each occurs | [category](#category); [count](#count) |
| true or false | [boolean](#boolean) |
| a date; the time between two | [date](#date); [duration](#duration) |
| words | [text](#text) |
| anything else | [custom](#custom), a TensorFlow function of your own |

## Feature types
"""

TRANSFORMS = """
## Transforms

For numbers and durations (`z_score` also, `pca` only for vectors), applied in order; output is float32 unless stated.
Statistics describe present values only. A value outside the domain of a transform, such as the square root of -1,
becomes missing. `missing` of the feature replaces missing values after the last transform.
"""

IDS = """
## Ids and encodings

All categories have ids by the same contract: 0 is missing, then the OOV buckets, then the vocabulary.

`encoding` is `one_hot` (multi-hot if a cell holds several values), `{embedding: 16}`, or `auto`: one-hot up to 32 ids,
an embedding above.
"""

CROSSES = """
## Crosses
"""

SEQUENCES = """
## Sequences
"""

DATES = """
## Dates
"""

EXPRESSIONS = """
# Expressions

<!-- Written by `make docs` from the function table; change that. -->

To compute a column from others, give it a name and an expression. It is computed in the transform graph, so training
and serving agree:

```yaml
data:
  derive:
    big_tipper: tips > 0.2 * fare
    rush_hour: hour in (7, 8, 9) and not is_missing(`trip miles`)
    payment: coalesce(lower(payment_type), "unknown")
```

## Syntax

Syntax and precedence are Python's, for numbers, `"strings"`, `true`, `false`, columns, the operators and functions
below, and chains of comparisons (`0 < a <= 5`). A column name with characters other than letters, digits and `_`
is written in backticks. An expression may read derived columns above it.

## Types

Values are numbers (float32), strings and booleans. A raw column has the type of the features that read it; a column
that only expressions read is a number unless `data.types` says `string`. A boolean counts as a number (true is 1,
false 0); only functions convert anything else.

## Missing values

- The result of an operator or function is missing if one of its arguments is: `x == y` with x missing is neither true
  nor false.
- `and`, `or` and `not` follow three-valued logic: `false and missing` is false, `true or missing` is true.
- `where`, `coalesce`, `is_missing` and `missing_if` treat missing values as the table states.
- A result that is no finite number is missing: division by zero, log of 0, overflow.
- A binary label that is missing gives its row weight 0.

## Operators and functions
"""
