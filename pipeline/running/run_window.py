"""The window of a run: the spans of the source, without those that the data gate has stopped if the YAML says so."""

from pathlib import Path

from fullpass.base.users import user_and_host
from fullpass.components.data_gate.gate_verdict import SpanRelease
from fullpass.components.data_gate.span_verdicts import VerdictStore, with_known_verdicts
from fullpass.components.ingest.spans.spans import Window, find_window
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.root.layout import RootLayout


def run_window(loaded: Loaded, root: Path, span: str | None = None, *, gate: str = "stop") -> Window:
    """Returns the spans that a run uses, with what the data gate knows about them.

    Args:
        span: As in `RunRequest`.
        gate: As in `RunRequest`: `warn` releases every stopped span of the window.

    Raises:
        SpanNotFoundError: The requested span does not exist.
        UserError: Files are missing, or a decision of the data gate is damaged.
    """
    found = find_window(loaded.config.data, loaded.resolve, span, index=RootLayout(root).span_index)
    return gated_window(loaded, root, found, gate=gate)


def gated_window(loaded: Loaded, root: Path, window: Window, *, gate: str = "stop") -> Window:
    """Returns a window with what the data gate of a root knows about its spans; see `run_window`."""
    store, config = VerdictStore(str(RootLayout(root).span_verdicts)), loaded.config
    release = SpanRelease(user_and_host(), "--gate warn") if gate == "warn" else None
    return with_known_verdicts(window, store, config.ingest_config, config.gates, release)
