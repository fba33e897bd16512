"""The paths of all files and folders in the root of a pipeline, for all code that writes, reads or removes them.

The root also contains the folders of the nodes, `<root>/<Node>/<output>/<execution>`, which TFX names after the nodes.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from fullpass.components.push.push import require_owner

if TYPE_CHECKING:
    from fullpass.pipeline.authoring.loading.load import Loaded

METADATA = "metadata.sqlite"
HISTORY = "history.sqlite"
RUN_LOCK = ".run.lock"
RUN_FILE = "run.json"
WORK = "work"
SPAN_STATISTICS = "span_statistics"
SPAN_VERDICTS = "span_verdicts"
ANALYZER_CACHE = "analyzer_cache"
IN_FLIGHT_LOCK = ".in_flight.lock"


class RootLayout:
    """The paths in the root of one pipeline.

    Example:
        >>> RootLayout(Path("runs/taxi")).run_logs("20260105-030000")
        PosixPath('runs/taxi/logs/20260105-030000')
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mark = root / ".fullpass-root"
        """The file that tells that Fullpass made the root, so that it may remove files there."""
        self.metadata = root / METADATA
        """The SQLite file of ML Metadata, with every execution and artifact."""
        self.metadata_lock = lock_of(self.metadata)
        """The lock that readers and writers of the metadata hold."""
        self.history = root / HISTORY
        """The SQLite file of the runs' outcomes and of the scheduler's state."""
        self.run_lock = root / RUN_LOCK
        """The lock that a run holds."""
        self.logs = root / "logs"
        """The folder of the logs, one folder for each run."""
        self.schedule = root / "schedule"
        """The folder of the output of scheduled runs and backfills, and of the scheduler's locks."""
        self.work = root / WORK
        """The folder of unfinished training and tuning, from which the next attempt resumes."""
        self.span_index = root / "span_index"
        """The folder of the index of the spans in each source file."""
        self.span_statistics = root / SPAN_STATISTICS
        """The folder of the summaries of spans that the data gate compares."""
        self.span_verdicts = root / SPAN_VERDICTS
        """The folder of the data gate's decisions about spans; nothing else remembers which were stopped."""
        self.watch = root / "watch"
        """The folder of the newest watch of the served model, and of what it compares with."""
        self.analyzer_cache = root / ANALYZER_CACHE
        """The folder of the analyzers' accumulators per span."""
        self.input_cache = root / "input_cache"
        """The folder of parsed examples that training reads again."""
        self.checksums = root / "checksums"
        """The folder of the checksums of artifacts, one file per artifact."""
        self.tables = root / "tables"
        """The folder of the tables in memory that runs were given, one Parquet file per table."""
        self.index = root / "index.html"
        """The page of all runs and models."""
        self.last_full_run = root / "whole_run.json"
        """The state file of the last successful run of all nodes."""

    @property
    def watch_file(self) -> Path:
        """The record of the newest watch."""
        return self.watch / "watch.json"

    @property
    def watch_page(self) -> Path:
        """The page of the newest watch."""
        return self.watch / "watch.html"

    def paths(self) -> tuple[Path, ...]:
        """Returns every file and folder of the root that does not belong to a node."""
        return tuple(path for path in vars(self).values() if path != self.root)

    def run_logs(self, run_id: str) -> Path:
        """Returns the folder of one run's logs."""
        return self.logs / run_id

    def run_file(self, run_id: str) -> Path:
        """Returns the JSON file with the facts of one run (pipeline/record/facts.py)."""
        return self.run_logs(run_id) / RUN_FILE


def lock_of(file: Path) -> Path:
    """Returns the lock file of a SQLite file."""
    return file.with_name(f"{file.name}.lock")


def metadata_above(artifact: Path) -> Path | None:
    """Returns the metadata file of an artifact at `<root>/<Node>/<output>/<execution>`; None for a shorter path."""
    parents = artifact.parents
    return RootLayout(parents[2]).metadata if len(parents) > 2 else None


def pipeline_root(loaded: "Loaded", root: Path | None = None) -> Path:
    """Returns the root of a pipeline: the given folder, or `root:` of the YAML with the pipeline's name."""
    return root.absolute() if root else Path(loaded.resolve(loaded.config.root)) / loaded.config.name


def served_folder(loaded: "Loaded") -> Path:
    """Returns the folder of pushed models (`push.to`).

    Raises:
        UserError: It holds the models of another pipeline.
    """
    target = Path(loaded.resolve(loaded.config.push.to))
    require_owner(target, loaded.config.name)
    return target
