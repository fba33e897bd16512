"""The words between the tables of the reference pages."""

CONFIG = """
# The pipeline YAML

<!-- Written by `make docs` from the config models; change those. -->

One file describes data, features, label, model and where the model goes. A small one:

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

`fullpass check FILE` finds every mistake with its line, `fullpass show FILE` prints the file with every default filled
in, and `fullpass schema` prints a JSON Schema. An editor with a YAML language server completes and checks as you type
if the file begins with

```yaml
# yaml-language-server: $schema=pipeline.schema.json
```

and `fullpass schema > pipeline.schema.json` was run beside it.

## Rules

- YAML 1.2: `no` and `2013-07-01` are text, `true` is a boolean, keys are text. Anchors, aliases and `<<` work.
- Unknown keys, duplicate keys and values of another type are errors.
- Relative paths begin at the file's folder. `package:NAME/PATH` is a file inside an installed Python package.
- Variables such as `${HOME}` are not filled in, and credentials are refused: the file is copied into artifacts and
  reports. Cloud credentials come from the environment of the run.

## Commands and exit codes

| command | does |
|---|---|
| `fullpass init DATA` | writes such a file from a look at data, with the reason beside every line |
| `fullpass check FILE` | every mistake, with line, what was received, what is accepted; then an overview |
| `fullpass show FILE` | the file with every default filled in; can be loaded again |
| `fullpass schema` | the JSON Schema |
| `fullpass run FILE` | runs the pipeline here; `--root`, `--from`, `--to`, `--fresh`, `--parallel`, `--wait` |
| `fullpass predict MODEL INPUT` | predictions of a pushed model for raw rows |
| `fullpass rollback FILE` | serves an earlier model again; takes the folder of pushed models too |
| `fullpass models FILE` | the pushed models: metrics, spans, configuration, code, which is served |
| `fullpass lineage MODEL` | what made a model: spans, configuration, code, transform graph, metrics, gates |
| `fullpass gc FILE` | removes what no kept run, pushed model or window needs; `--dry-run` |
| `fullpass version` | versions of Fullpass and its engine |

| exit code | meaning |
|---|---|
| 0 | done; for `run`: the model is blessed, or evaluation was not asked for |
| 1 | a run, a prediction or a rollback failed |
| 2 | the YAML or the command line is wrong |
| 3 | the run ended well, but the model did not reach its thresholds and was not pushed |

`--debug` shows the traceback of an error, anywhere on the line.

## All keys
"""

METRICS = """
## Metrics

Of `evaluation.metrics` and `evaluation.thresholds`.
"""

FEATURES = """
# Features and transforms

<!-- Written by `make docs` from the config models; change those. -->

A feature reads one or more columns and gives one or more transformed features. A bare type is enough: `fare: number`.
All statistics come from the train split only.

## Feature types
"""

TRANSFORMS = """
## Transforms

Of number and duration features (`pca`: of vectors), applied in order. Input is a float32 column in which a missing
value is NaN; it stays missing through all transforms, so statistics describe present values only. A value outside
the domain of a transform, such as the square root of -1, becomes missing. After the last transform missing values
become what the feature's `missing` says.
"""

IDS = """
## Ids and encodings

Everything that becomes a category has ids by one contract: 0 is missing, then the OOV buckets, then the vocabulary.
Sizes are read from the transform graph and are never written twice.

`encoding` says how the model takes ids: `one_hot` (multi-hot where a cell holds several values), `{embedding: 16}`, or
`auto`: one-hot up to 32 ids, an embedding above.
"""

CROSSES = """
## Crosses
"""

DATES = """
## Dates
"""

EXPRESSIONS = """
# Expressions

<!-- Written by `make docs` from the function table; change that. -->

Derived columns are computed in the transform graph, so they serve as they train:

```yaml
data:
  derive:
    big_tipper: tips > 0.2 * fare
    rush_hour: hour in (7, 8, 9) and not is_missing(`trip miles`)
    payment: coalesce(lower(payment_type), "unknown")
```

## Syntax

Syntax and precedence are Python's, for: numbers, `"strings"`, `true`, `false`, columns, arithmetic, comparisons and
chains of them (`0 < a <= 5`), `in`, `not in`, `and`, `or`, `not`, and the functions below. There is nothing else: no
attributes, no indexing, no other calls. A column whose name has other signs than letters, digits and `_` stands in
backticks. An expression may read derived columns that stand above it.

## Types

Values are numbers (float32), strings and booleans. A raw column has the type that the features reading it give it; one
that only expressions read is a number unless `data.types` says `string`. A boolean may stand for a number (true is 1,
false 0); nothing else is converted but by functions.

## Missing values

- An operator or function gives missing wherever one of its arguments is missing. A comparison too: `x == y` with x
  missing is neither true nor false.
- `and`, `or` and `not` follow three-valued logic: `false and missing` is false, `true or missing` is true.
- `where`, `coalesce`, `is_missing` and `missing_if` treat missing values as the table says.
- A result that is no finite number is missing: division by zero, log of 0, overflow.
- A binary label that is missing gives its row weight 0.

## Operators and functions
"""
