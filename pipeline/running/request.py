"""What a run is asked to do: the options of `fullpass run`, of the Python API and of scheduled runs."""

import sys
from collections.abc import Collection
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from fullpass.base.errors import UsageError, did_you_mean
from fullpass.components.ingest.spans.spans import has_spans
from fullpass.pipeline.config import PipelineConfig
from fullpass.trainer.config import RunFn

_OPTIONS = {"from_node": "--from", "to_node": "--to"}


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """The options of one run.

    Attributes:
        root: Folder of artifacts, metadata and logs, instead of `root:` of the YAML plus the pipeline's name.
        from_node: The first node to run, with the outputs of the newest earlier run that has them.
        to_node: The last node to run.
        fresh: Run every node, even if nothing has changed.
        span: The newest span to train on, as a date or number, or A:B; by default the newest existing span.
        gate: `warn` trains even if the data gate would stop the run, reports the findings, and releases the stopped
            spans of the window for later runs.
        parallel: Maximum number of nodes that run at a time; by default one more than the cores this process
            may use, but one on a single core.
        wait: Wait for another run on the same root, instead of refusing.
        summary: File for a copy of the JSON summary, which is also written beside the logs.
        events: Whether to print the events of the nodes for the process that started the run
            (pipeline/record/events.py), not for people.
    """

    root: Path | None = None
    from_node: str | None = None
    to_node: str | None = None
    fresh: bool = False
    span: str | None = None
    gate: Literal["stop", "warn"] = "stop"
    parallel: int | None = None
    wait: bool = False
    summary: Path | None = None
    events: bool = False

    @property
    def whole(self) -> bool:
        """Whether all nodes are asked for."""
        return self.from_node is None and self.to_node is None

    def check_nodes(self, known: Collection[str]) -> None:
        """Checks that the named nodes exist; known: the ids of all nodes.

        Raises:
            UsageError: There is no such node.
        """
        for option, node_id in (("from", self.from_node), ("to", self.to_node)):
            if node_id is not None and node_id not in known:
                raise UsageError(
                    f'--{option}: there is no node "{node_id}".{did_you_mean(node_id, known)}\n'
                    f"The nodes are: {', '.join(known)}."
                )

    def command(self, file: Path) -> list[str]:
        """Returns the command line of this run of a YAML, with this interpreter and these modules.

        Example:
            >>> RunRequest(to_node="Ingest", wait=True).command(Path("taxi.yaml"))[2:]
            ['-m', 'fullpass', 'run', 'taxi.yaml', '--to', 'Ingest', '--wait']
        """
        # -P: files in the working folder must not shadow installed modules.
        words = [sys.executable, "-P", "-m", "fullpass", "run", str(file)]
        for field in fields(self):
            option, value = _OPTIONS.get(field.name, f"--{field.name}"), getattr(self, field.name)
            if value is True:
                words.append(option)
            elif value != field.default:
                words += [option, str(value)]
        return words


DEFAULTS = RunRequest()
"""The request for a whole run."""


def node_names(config: PipelineConfig) -> tuple[str, ...]:
    """Returns the ids of the nodes of `build_nodes`, in its order, without building them."""
    of_tfx = isinstance(config.model, RunFn)
    return (
        "Ingest",
        *(["Window"] if has_spans(config.data) else []),
        *("StatisticsGen", "Schema", *(["SchemaGen"] if of_tfx else [])),
        *("SchemaComparison", "ExampleValidator", "SpanComparison", "DataGate", "LastBlessedModel", "Transform"),
        *(["Tuner"] if config.tuning is not None else []),
        *(("Trainer", "Evaluator") if of_tfx else ("Trainer", "Parity", "Evaluator", "ServingCheck")),
        *("Pusher", "Report"),
    )
