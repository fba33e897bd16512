"""Encodes the rows of a sample as the records that Ingest would write."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from fullpass.components.ingest.writing.encode import encode
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.profile.sample import Sample
from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID, RawColumn
from fullpass.preprocessing.values.convert import convert_raw


def to_records(loaded: Loaded, sample: Sample, columns: Mapping[str, RawColumn]) -> pa.BinaryArray:
    """Returns each sampled row as the record that Ingest would write, numbered by its index in the sample."""
    text = loaded.config.data.source.raw_text
    arrays = {
        name: convert_raw(sample.columns[name], raw, text).flat
        for name, raw in columns.items()
        if name in sample.columns
    }
    arrays[RAW_ROW_ID] = pa.array(np.arange(sample.rows, dtype=np.int64))
    return encode(arrays)
