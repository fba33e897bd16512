"""TFRecords of Ingest, damaged before the next node reads them: same records, or an error that names the file."""

import random
from pathlib import Path

from fullpass.base.errors import UserError
from fullpass.trainer.records.record_files import record_batches
from tests.fuzz.damage import damaged, flip_one
from tests.record_files import write_records


def try_one(seed: int, folder: Path) -> str:
    """Reads a damaged file, either plain or gzipped."""
    rng = random.Random(seed)
    written = [rng.randbytes(rng.randint(0, 300)) for _ in range(50)]
    gzipped = seed % 2 == 0
    path = folder / ("records.tfrecord.gz" if gzipped else "records.tfrecord")
    write_records(path, written)
    before = path.read_bytes()
    path.write_bytes(flip_one(bytearray(before), rng) if rng.random() < 0.5 else damaged(before, rng))
    found = []
    try:
        for batch in record_batches(str(path), rows=7):
            found += batch
    except UserError as error:
        assert str(path) in str(error) and found == written[: len(found)], error
        return "refused"
    # A file that is cut between two records is valid; nodes compare the number of rows with the manifest.
    assert found == written[: len(found)], "other records"
    return "read" if found == written else "rows missing"
