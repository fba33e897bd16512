"""A pipeline whose rows are a table instead of those of `data.source`."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fullpass.base.errors import UserError
from fullpass.components.ingest.sources.config import ParquetSource
from fullpass.components.ingest.spans.spans import has_spans
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.show_config import resolved_yaml


@contextmanager
def with_table(loaded: Loaded, table: Path) -> Iterator[Loaded]:
    """Yields the pipeline with a Parquet file as its source, in a file beside its YAML that exists until the end.

    The file must lie there, since paths and modules of a pipeline are relative to its folder.

    Raises:
        UserError: The pipeline has spans or data per split, which one table has not.
    """
    source, data = loaded.config.data.source, loaded.config.data
    if source.given_splits or has_spans(data):
        raise UserError(
            f"{loaded.file}: its data has {'a source per split' if source.given_splits else 'spans'}, and a table has "
            "not. Run it without a table, or with a YAML whose data.source is one file."
        )
    of_table = ParquetSource(format="parquet", path=str(table), missing=source.missing, missing_in=source.missing_in)
    config = loaded.config.model_copy(update={"data": data.model_copy(update={"source": of_table})})
    text = resolved_yaml(config)
    file = loaded.folder / f".{loaded.file.stem}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.yaml"
    file.write_text(text, encoding="utf-8")
    try:
        yield replace(loaded, config=config, file=file, text=text)
    finally:
        file.unlink(missing_ok=True)
