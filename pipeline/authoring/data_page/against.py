"""The other data of a comparison: a path that is read like the source, or spans of the source itself."""

import re
from dataclasses import replace
from pathlib import Path

from fullpass.base.errors import UserError
from fullpass.base.files import is_address
from fullpass.components.ingest.readers.read_source import columns_of_file
from fullpass.components.ingest.sources.config import FileSource
from fullpass.components.ingest.spans.spans import has_spans
from fullpass.components.predict.input_source import input_files, input_source
from fullpass.components.serving_log.columns import STATUS
from fullpass.pipeline.authoring.data_check.data_check import sample_data
from fullpass.pipeline.authoring.data_check.sampled_data import SampledData
from fullpass.pipeline.authoring.loading.load import Loaded

_LOG = {"format": "serving_log"}
"""How a request log is read: without refused requests."""
_SPANS = re.compile(r"[\w:-]+")


def other_data(loaded: Loaded, against: str, *, rows: int) -> SampledData:
    """Returns sampled rows of other data, as the file reads its own.

    Args:
        against: A file, folder, glob or address, which may be of another format, such as a request log; or spans of the
            source, as `--span` names them.

    Raises:
        UserError: There is no such data, it cannot be read, or it has none of the columns.
    """
    data = loaded.config.data
    if has_spans(data) and _SPANS.fullmatch(against) and not Path(against).exists():
        other = replace(loaded, span=against)
    else:
        trained, path = data.source.model_dump(), against if is_address(against) else str(Path(against).absolute())
        log = input_source(trained, path, _LOG).source
        source = log if _is_log(log, path) else input_source(trained, path, {}).source
        changed = data.model_copy(update={"source": source, "span": None})
        other = replace(loaded, span=None, config=loaded.config.model_copy(update={"data": changed}))
    sampled, findings = sample_data(other, rows=rows, every_column=True)
    if sampled is None:
        why = "; ".join(finding.message for finding in findings)
        raise UserError(f"{against}: nothing to compare with: {why}")
    return sampled


def _is_log(log: FileSource, path: str) -> bool:
    try:
        return STATUS.name in (columns_of_file(input_files(log, path)[0], log) or ())
    except UserError:
        return False
