"""The paths of all files and folders in the root of a pipeline, for all code that writes, reads or removes them.

The root also contains the folders of the nodes, `<root>/<Node>/<output>/<execution>`, which TFX names after the nodes.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fullpass.pipeline.authoring.loading.load import Loaded

METADATA = "metadata.sqlite"
HISTORY = "history.sqlite"
MARK = ".fullpass-root"
RUN_LOCK = ".run.lock"
LOGS = "logs"
SUMMARY = "summary.json"
SCHEDULE = "schedule"
WORK = "work"
SPAN_INDEX = "span_index"
SPAN_STATISTICS = "span_statistics"
ANALYZER_CACHE = "analyzer_cache"
INPUT_CACHE = "input_cache"
CHECKSUMS = "checksums"
WHOLE_RUN = "whole_run.json"
IN_FLIGHT_LOCK = ".in_flight.lock"
LOCK_SUFFIX = ".lock"


@dataclass(frozen=True)
class RootLayout:
    """The paths in the root of one pipeline.

    Example:
        >>> RootLayout(Path("runs/taxi")).run_logs("20260105-030000")
        PosixPath('runs/taxi/logs/20260105-030000')
    """

    root: Path

    @property
    def mark(self) -> Path:
        """The file that tells that Fullpass made the root, so that it may remove files there."""
        return self.root / MARK

    @property
    def metadata(self) -> Path:
        """The SQLite file of ML Metadata, with every execution and artifact."""
        return self.root / METADATA

    @property
    def metadata_lock(self) -> Path:
        """The lock that readers and writers of the metadata hold."""
        return lock_of(self.metadata)

    @property
    def history(self) -> Path:
        """The SQLite file of the runs' outcomes and of the scheduler's state."""
        return self.root / HISTORY

    @property
    def run_lock(self) -> Path:
        """The lock that a run holds."""
        return self.root / RUN_LOCK

    @property
    def logs(self) -> Path:
        """The folder of the logs, one folder for each run."""
        return self.root / LOGS

    def run_logs(self, run_id: str) -> Path:
        """Returns the folder of one run's logs."""
        return self.logs / run_id

    def run_summary(self, run_id: str) -> Path:
        """Returns the JSON file with the outcome of one run."""
        return self.run_logs(run_id) / SUMMARY

    @property
    def schedule(self) -> Path:
        """The folder of the output of scheduled runs and backfills, and of the scheduler's locks."""
        return self.root / SCHEDULE

    @property
    def work(self) -> Path:
        """The folder of unfinished training and tuning, from which the next attempt resumes."""
        return self.root / WORK

    @property
    def span_index(self) -> Path:
        """The folder of the index of the spans in each source file."""
        return self.root / SPAN_INDEX

    @property
    def span_statistics(self) -> Path:
        """The folder of the summaries of spans that the data gate compares."""
        return self.root / SPAN_STATISTICS

    @property
    def analyzer_cache(self) -> Path:
        """The folder of the analyzers' accumulators per span."""
        return self.root / ANALYZER_CACHE

    @property
    def input_cache(self) -> Path:
        """The folder of parsed examples that training reads again."""
        return self.root / INPUT_CACHE

    @property
    def checksums(self) -> Path:
        """The folder of the checksums of artifacts, one file per artifact."""
        return self.root / CHECKSUMS

    @property
    def last_full_run(self) -> Path:
        """The state file of the last successful run of all nodes."""
        return self.root / WHOLE_RUN

    def paths(self) -> tuple[Path, ...]:
        """Returns every file and folder of the root that does not belong to a node."""
        return (
            self.mark,
            self.metadata,
            self.metadata_lock,
            self.history,
            self.run_lock,
            self.logs,
            self.schedule,
            self.work,
            self.span_index,
            self.span_statistics,
            self.analyzer_cache,
            self.input_cache,
            self.checksums,
            self.last_full_run,
        )


def lock_of(file: Path) -> Path:
    """Returns the lock file of a SQLite file."""
    return file.with_name(f"{file.name}{LOCK_SUFFIX}")


def metadata_above(artifact: Path) -> Path | None:
    """Returns the metadata file of an artifact at `<root>/<Node>/<output>/<execution>`; None for a shorter path."""
    parents = artifact.parents
    return RootLayout(parents[2]).metadata if len(parents) > 2 else None


def pipeline_root(loaded: "Loaded", root: Path | None = None) -> Path:
    """Returns the root of a pipeline: the given folder, or `root:` of the YAML with the pipeline's name."""
    return root.absolute() if root else Path(loaded.resolve(loaded.config.root)) / loaded.config.name
