"""Reads the rows of a split as training reads them, but each once, in order and whatever its weight.

Parity compares these rows with those of the export. Therefore they come from where training takes them: from the
columns beside the TFRecord files if there are any, else from the records.
"""

import logging
from collections.abc import Iterator, Sequence

from fullpass.preprocessing.columns.outputs import LABEL
from fullpass.trainer.input.decoder import Decode, read_blocks, stored_layout
from fullpass.trainer.records.blocks import Block
from fullpass.trainer.records.column_files import DamagedColumns
from fullpass.trainer.records.columns import find_columns

_LOG = logging.getLogger(__name__)


def read_trained_rows(files: Sequence[str], decode: Decode, rows: int) -> Iterator[Block]:
    """Yields all rows in the order of the files, in blocks of at most `rows`.

    If a column file is damaged, the remaining rows are decoded from the records, as in training.
    """
    done = 0
    columns = find_columns(files, stored_layout(decode))
    if columns is not None:
        try:
            for block in columns.blocks(rows):
                yield block
                done += _rows(block)
            return
        except DamagedColumns as error:
            _LOG.warning("%s", error)
    for block in read_blocks(files, decode, readers=1, rows=rows):
        if done < _rows(block):
            yield {name: value[done:] for name, value in block.items()}
        done = max(done - _rows(block), 0)


def _rows(block: Block) -> int:
    return int(block[LABEL].shape[0])
