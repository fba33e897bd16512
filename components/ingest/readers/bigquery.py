"""Reads tables and query results of BigQuery as Arrow batches, with Google's client."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.readable import check_columns, load_package
from fullpass.components.ingest.readers.reader import Reader
from fullpass.components.ingest.readers.rows import Reading, Rows
from fullpass.components.ingest.readers.tables import columns_of_schema, rows_of_tables
from fullpass.components.ingest.sources.config import BigQuerySource
from fullpass.components.ingest.sources.files import SourceFile

EMULATOR = "BIGQUERY_EMULATOR_HOST"
"""Environment variable with the address of an emulator, which Google's client supports. It needs no credentials."""
_KEY_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
_LOGIN = "application_default_credentials.json"


class BigQueryReader(Reader[BigQuerySource]):
    """Rows are numbered in the order of their arrival; there is one part. Columns would take a request and seconds."""

    def __init__(self, file: SourceFile, source: BigQuerySource):
        super().__init__(file, source)
        self._query = file.path.strip().rstrip(";")
        self._name = f"data.source.query {file.path!r}"

    def rows(self, reading: Reading) -> Iterator[Rows]:
        exceptions = load_package("google.api_core.exceptions", package="google-api-core", needed_by="format: bigquery")
        auth = load_package("google.auth.exceptions", package="google-auth", needed_by="format: bigquery")
        try:
            yield from rows_of_tables(self._tables(reading), 1, reading)
        except (exceptions.GoogleAPIError, auth.GoogleAuthError) as error:
            raise UserError(f"{self._name}: BigQuery says: {getattr(error, 'message', error)}") from error

    def _tables(self, reading: Reading) -> Iterator[pa.Table]:
        bigquery = load_package("google.cloud.bigquery", package="google-cloud-bigquery", needed_by="format: bigquery")
        options: dict[str, Any] = {"project": self._source.project, "location": self._source.location}
        if EMULATOR in os.environ:
            credentials = load_package("google.auth.credentials", package="google-auth", needed_by="format: bigquery")
            options["credentials"] = credentials.AnonymousCredentials()
        with bigquery.Client(**options) as client:
            is_table = not any(character.isspace() for character in self._query)
            rows = client.query(f"SELECT * FROM `{self._query}`" if is_table else self._query).result()
            for batch in rows.to_arrow_iterable(bqstorage_client=self._storage_client()):
                check_columns(self._name, list(reading.columns), columns_of_schema(batch.schema))
                reading.seen.update(reading.columns)
                yield pa.Table.from_batches([batch])

    def _storage_client(self) -> Any:
        """Returns a client of the Storage API, which is many times as fast as JSON pages; None for an emulator."""
        if EMULATOR in os.environ:
            return None
        package = "google-cloud-bigquery-storage"
        storage = load_package("google.cloud.bigquery_storage", package=package, needed_by="format: bigquery")
        return storage.BigQueryReadClient()


def has_credentials() -> bool:
    """Returns whether Google's client would find credentials on this machine. Only files and variables are inspected.

    Credentials are a key file named by an environment variable, a gcloud login, or a machine of Google Cloud. An
    emulator needs none.
    """
    if EMULATOR in os.environ:
        return True
    if _KEY_FILE in os.environ:
        return Path(os.environ[_KEY_FILE]).is_file()
    folder = Path(os.environ.get("CLOUDSDK_CONFIG", Path.home() / ".config" / "gcloud"))
    product = Path("/sys/class/dmi/id/product_name")
    return (folder / _LOGIN).is_file() or (product.is_file() and product.read_text("utf-8").startswith("Google"))
