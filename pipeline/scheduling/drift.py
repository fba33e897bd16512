"""Decides before a run whether the newest span has drifted, from its raw files and the summaries of earlier spans.

`fullpass run` makes the same decision from its records. The scheduler needs the decision before it starts a run.
"""

import json
import subprocess
import sys
from pathlib import Path

from fullpass.base.errors import UserError
from fullpass.base.files import is_address
from fullpass.base.json_text import parse_json, to_json_text
from fullpass.base.processes import run_bounded
from fullpass.base.user_modules import use_modules_of
from fullpass.components.data_gate.gate_verdict import GateVerdict, parse_verdict
from fullpass.components.data_gate.span_verdicts import KnownVerdicts, VerdictStore
from fullpass.components.ingest.spans.ingest_request import Request
from fullpass.pipeline.authoring.loading.load import Loaded, load
from fullpass.pipeline.root.layout import RootLayout, pipeline_root
from fullpass.pipeline.running.run_window import run_window
from fullpass.pipeline.startup import set_environment

_MOST_SECONDS = 3600
"""Seconds after which reading a new span is given up, so that a source that hangs ends no schedule."""
_ERROR = "error"
_MOST_CHARACTERS = 2000
"""Characters of the end of a process's errors in a message: a traceback with its last frames."""


def drift(loaded: Loaded, *, root: Path | None = None, span: str | None = None) -> GateVerdict:
    """Returns the data gate's verdict on a span, without Beam, ingestion or a run.

    Spans that no run and no earlier call has summarized are read here, row by row. So the first call for a new span
    costs a pass over its files; its summary is stored for the run. TensorFlow computes derived labels, and it must not
    start in a process that forks nodes later: use `drift_in_a_process` there.

    Args:
        span: The span, like `fullpass run --span`; by default the newest.

    Raises:
        SpanNotFoundError: The requested span does not exist.
        UserError: A file cannot be read.
    """
    from fullpass.components.data_gate.judge_window import WindowJudge
    from fullpass.components.data_gate.series import SeriesSource
    from fullpass.components.data_gate.span_summary import SummaryStore
    from fullpass.components.data_gate.summarize import summarize_raw

    config = loaded.config
    layout = RootLayout(root or pipeline_root(loaded))
    preprocessing = config.preprocessing_config
    window = run_window(loaded, layout.root, span)
    source = SeriesSource.of(preprocessing, window.unit)
    store = SummaryStore(str(layout.span_statistics), source)
    gzip = config.data.records.gzip(remote=is_address(str(layout.root)))
    request = Request(config.ingest_config, config.data.split_names, source.columns, gzip=gzip)
    request = request.with_window(window, ())
    summaries = []
    for one in request.spans:
        summary = store.read(one.number, one.fingerprint)
        if summary is None:
            summary = summarize_raw(request, one, source)
            store.write(summary)
        summaries.append(summary)
    if config.label.forecast is not None:  # the newest spans have no labels yet; the data gate leaves them out, too
        labelled = [number for number, summary in enumerate(summaries, start=1) if summary.rows]
        summaries = summaries[: max(labelled, default=len(summaries))]
    contents = {one.number: one.content for one in request.spans[: len(summaries)]}
    known, verdicts = parse_json(KnownVerdicts, window.gate), VerdictStore(str(layout.span_verdicts))
    judge = WindowJudge.of(store, verdicts, source, config.gates, window.unit, known, contents)
    return judge.verdict(summaries).verdict


def drift_in_a_process(file: Path, *, root: Path | None = None, span: str | None = None) -> GateVerdict:
    """Returns the result of `drift` for a pipeline file, computed in a separate process.

    Raises:
        UserError: `drift` raised an error, or the process was killed or took longer than an hour.
    """
    arguments = to_json_text({"file": str(file), "root": root and str(root), "span": span})
    try:
        command = [sys.executable, "-P", "-m", "fullpass.pipeline.scheduling.drift", arguments]
        done = run_bounded(command, seconds=_MOST_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{file}: reading the new span took longer than {_MOST_SECONDS // 60} minutes.") from error
    told = (
        json.loads(done.stdout.splitlines()[-1])
        if done.stdout
        else {_ERROR: done.stderr.decode(errors="replace")[-_MOST_CHARACTERS:]}
    )
    if _ERROR in told:
        raise UserError(f"{file}: drift could not be measured: {told[_ERROR]}")
    return parse_verdict(told)


def main() -> None:
    """Prints the verdict for `drift_in_a_process`."""
    set_environment()
    told = json.loads(sys.argv[1])
    loaded = load(Path(told["file"]))
    use_modules_of(loaded.folder)
    try:
        found = drift(loaded, root=Path(told["root"]) if told["root"] else None, span=told["span"])
        answer = found.to_json()
    except UserError as error:
        answer = {_ERROR: str(error)}
    sys.stdout.write(to_json_text(answer) + "\n")


if __name__ == "__main__":
    main()
