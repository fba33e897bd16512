"""A small CSV file, and samples of files."""

from fullpass.components.ingest.readers.read_source import columns_of_file
from fullpass.pipeline.authoring.profile.detect_source import infer_source
from fullpass.pipeline.authoring.profile.sample import read_sample

CSV = "a,b\n1,x\n2,y\n3,x\n"


def write(path, text=CSV):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def sample_of(data, folder, rows=None):
    """Returns the sample of a file of a pipeline in a folder."""
    found = infer_source(str(data), folder)
    return read_sample(found.files, found.source, columns_of_file(found.files[0], found.source), rows=rows)
