"""Checks of whole rows and their labels: bad rows, splits, duplicates; missing labels, rare classes, and leaks."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.components.ingest.config import HashSplit, RandomSplit
from fullpass.components.ingest.history.shifted_index import repeated_time
from fullpass.components.ingest.joins.join_index import keys_of, times_of
from fullpass.components.ingest.splitting.assign import NO_SPLIT, columns_of_split, reads_whole_rows
from fullpass.pipeline.authoring.data_check.sampled_data import SampledData, in_quotes
from fullpass.pipeline.authoring.loading.load import Finding, warning
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.pipeline.authoring.profile.column_profile import shown
from fullpass.pipeline.authoring.profile.sample import MOST_PARTED, parted_by_label, row_keys
from fullpass.pipeline.authoring.rules import rule
from fullpass.preprocessing.columns.raw_columns import request_columns

_FEW_EVAL_ROWS = 100
"""Rows of eval below which a metric has a standard error of 0.05 or more."""
_MANY_DUPLICATES = 0.01
"""Share of repeated rows from which on they matter."""
MOSTLY = 0.5
"""Share of rows above which the same fault is an error, or no accident."""
SOURCE_PATH: Keys = ("data", "source", "path")


def check_bad_rows(sampled: SampledData) -> Iterator[Finding]:
    """Rows that cannot be read stay within `data.bad_rows`."""
    sample, budget, keys = sampled.sample, sampled.config.data.bad_rows, ("data", "bad_rows")
    if not sample.malformed:
        return
    total, first = sample.seen + sample.malformed, sample.bad[0]
    what = f"{sample.malformed:,} of {total:,} rows ({sample.bad_share:.2%}) cannot be read: {first.reason}"
    what += f"; for example {shown(first.text, 60)!r}."
    if sample.malformed > budget.max_fraction * total or sample.malformed > (budget.max_rows or np.inf):
        fix = "Fix the file, check separator and quoting, or raise max_fraction."
        yield Finding(keys, f"{what} data.bad_rows allows {budget.max_fraction:.2%}. {fix}")
    else:
        yield warning(keys, f"{what} They are set aside.")


def check_times_of_forecast(sampled: SampledData) -> Iterator[Finding]:
    """An entity has one row per time if the label is its later value."""
    shifted, columns = sampled.config.label.shifted, sampled.sample.seen_columns
    if shifted is None or not {*shifted.keys, shifted.at} <= columns.keys():
        return
    table, text = pa.table(dict(columns)), sampled.config.data.source.raw_text
    keys, (times, known, _) = keys_of(table, shifted.keys, text), times_of(table, shifted.at, text, shifted.format)
    rows = np.flatnonzero(keys.present & known)
    rows = rows[np.lexsort((times[rows], keys.second[rows], keys.first[rows]))]
    same = np.array(True)
    for values in (keys.first, keys.second, times):
        same = same & (values[rows[1:]] == values[rows[:-1]])
    if same.any():
        row = int(rows[int(same.argmax())])
        yield Finding(("label", "forecast"), repeated_time(keys.texts[row].as_py(), int(times[row])))


def check_splits(sampled: SampledData) -> Iterator[Finding]:
    """Every row falls into a split, every split gets rows, and the eval split gets enough."""
    data, sample = sampled.config.data, sampled.sample
    indices = sampled.split_indices
    if indices is None:
        return
    keys: Keys = SOURCE_PATH if sample.splits else ("data", "split")
    unsplit = float((indices == NO_SPLIT).mean())
    if unsplit > data.bad_rows.max_fraction:
        columns = columns_of_split(data.split)
        known = sampled.values.get(columns[0]) if columns else None
        examples = known.in_tokens().texts[:3] if known else ()
        what = f"{unsplit:.1%} of rows fit no split by {', '.join(columns)}"
        yield Finding(keys, f"{what}; commonest values: {in_quotes(examples)}.")
    for index, name in enumerate(data.split_names):
        rows = int((indices == index).sum())
        about = rows * sample.seen / max(sample.rows, 1)
        if not rows:
            yield Finding(keys, f"no row falls into split {name}.")
        elif name == "eval" and sample.whole and about < _FEW_EVAL_ROWS:
            yield warning(keys, f"split eval gets about {about:.0f} rows; metrics of so few are mostly chance.")


@rule("check of duplicates", otherwise=())
def check_duplicates(sampled: SampledData) -> Iterator[Finding]:
    """Rows differ from each other in the columns that the run reads."""
    # Rows with a history are as different as their entities and times.
    shifted = sampled.config.label.shifted
    of_events = [name for history in sampled.config.data.history.values() for name in (*history.keys, history.at)]
    of_events += [*shifted.keys, shifted.at] if shifted else []
    rows = row_keys(sampled.sample, [*sampled.raw, *of_events])
    repeated = len(rows) - len(rows.unique())
    share = repeated / max(len(rows), 1)
    if share < _MANY_DUPLICATES:
        return
    split = sampled.config.data.split
    keys: Keys = ("data", "split")
    label = sampled.raw.keys() - request_columns(sampled.config.preprocessing_config).keys()
    parted = parted_by_label(sampled.sample, label)
    if sampled.sample.splits:
        keys, where = SOURCE_PATH, ""
    elif parted > MOST_PARTED:
        where = f" {parted:.1%} have equals that differ in the label alone."
        if reads_whole_rows(split):
            where += " A split by content parts them by label: split by {method: random}."
    elif reads_whole_rows(split):
        where = " Rows that are equal in every column of the data stay in one split."
    elif isinstance(split, HashSplit) and sampled.raw.keys() >= set(columns_of_split(split)):
        where = f" They have the same key ({', '.join(columns_of_split(split))}), so they stay in one split."
    elif share > MOSTLY:
        where = " With so few different rows, train contains most rows of eval, whatever the split."
    elif isinstance(split, RandomSplit):
        where = " They can fall into both train and eval: split by {method: hash} instead."
    else:
        where = " Equal rows may be in several splits."
    what = f"{repeated:,} of {len(rows):,} rows ({share:.1%}) repeat an earlier row in all columns that are read."
    yield warning(keys, f"{what}{where}")


def check_split_leakage(sampled: SampledData) -> Iterator[Finding]:
    """No row of another given split also appears in train."""
    splits = sampled.sample.all_splits
    if "train" not in splits:
        return
    rows = row_keys(sampled.sample, list(sampled.raw))
    train = rows.filter(pa.array(splits["train"])).unique()
    for name, chosen in splits.items():
        others = rows.filter(pa.array(chosen))
        if name == "train" or not len(others):
            continue
        both = int(pc.sum(pc.is_in(others, value_set=train)).as_py() or 0)
        share = both / len(others)
        what = f"{both:,} of {len(others):,} rows of {name} ({share:.1%}) are also in train, equal in all columns read"
        if share > MOSTLY:
            yield Finding((*SOURCE_PATH, name), f"{what}. Is it the same file?")
        elif both:
            yield warning((*SOURCE_PATH, name), f"{what}; the model has seen them in training.")
