"""The command `fullpass serve`."""

import signal
import socket
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from typer import Option

from fullpass.base.errors import UserError
from fullpass.components.serving_log.columns import LogFormat, refuse_own_names
from fullpass.pipeline import options
from fullpass.pipeline.printing import print_text
from fullpass.pipeline.registry.locate_model import pushed_to
from fullpass.pipeline.startup import large_imports, without_keras

if TYPE_CHECKING:
    from fullpass.components.serving.app import RestApi

_WAITING = 1024
"""Connections that wait to be accepted at most."""
_STOP_SECONDS = 30
"""Seconds in which a server that is stopped answers the requests that it has."""


def serve(
    target: options.Target = options.USUAL,
    host: Annotated[str, Option(help="Address to listen at; 0.0.0.0 for all of this machine.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port; 0 for a free one.")] = 8501,
    name: Annotated[
        str | None, Option(help="Name of the model in the paths.", show_default="the pipeline's name")
    ] = None,
    log: Annotated[Path | None, Option(metavar="FOLDER", help="Log requests and answers into this folder.")] = None,
    sample: Annotated[float, Option(min=0, max=1, help="Share of the requests that is logged, by chance.")] = 1.0,
    log_format: Annotated[
        LogFormat, Option(help="Format of the log.", **options.one_of("format of the log", LogFormat))
    ] = "jsonl",
    log_id: Annotated[
        str | None, Option(metavar="COLUMN", help="Column of a request with the caller's id of a row.")
    ] = None,
    leave_out: Annotated[
        list[str] | None, Option(metavar="COLUMN", help="Raw column that is not logged; repeatable.")
    ] = None,
    rotate_mb: Annotated[float, Option(min=0.001, help="Size of a file of the log at most.")] = 64,
    rotate_seconds: Annotated[float, Option(min=0.1, help="Age of a file of the log at most.")] = 60,
    most_mb: Annotated[float, Option(min=0.001, help="Size of a request at most.")] = 32,
    most_rows: Annotated[int, Option(min=1, help="Rows of a request at most.")] = 10_000,
) -> None:
    """Serve the newest pushed model over HTTP, with TensorFlow Serving's REST API. A newer version takes its place."""
    if find_spec("uvicorn") is None:
        raise UserError("fullpass serve needs uvicorn: pip install 'fullpass[serve]'")
    folder, tell = pushed_to(target), partial(print_text, err=True)
    without_keras()
    with large_imports():
        from fullpass.components.serving.app import RequestLimits, RestApi
        from fullpass.components.serving.log_writer import LogOptions, RequestLog
        from fullpass.components.serving.versions import ServedVersions

    versions = ServedVersions(folder, tell)
    written = None
    if log is not None:
        refuse_own_names(versions.current.columns)
        kept = LogOptions(log, sample, log_format, frozenset(leave_out or ()), int(rotate_mb * 2**20), rotate_seconds)
        written = RequestLog(kept, lambda: versions.current, tell)
    limits = RequestLimits(int(most_mb * 2**20), most_rows)
    api = RestApi(name or versions.current.name, versions, limits, tell, written, log_id)
    try:
        _run(api, host, port, f"Serves version {versions.current.version} of {folder} at")
    finally:
        versions.close()
        api.close()
        if written is not None:
            written.close()


def _run(api: "RestApi", host: str, port: int, message: str) -> None:
    """Answers requests until the process is told to end; then those that it has."""
    import uvicorn

    # With the protocol named, asyncio sends the second part of an answer without a wait for the receipt of the first.
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, proto=socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(_WAITING)
    except OSError as error:
        raise UserError(f"cannot listen at {host}, port {port}: {error.strerror}. --port gives another.") from error
    config = uvicorn.Config(
        cast(Any, api), lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=_STOP_SECONDS
    )
    server = uvicorn.Server(config)
    api.ready = lambda: not server.should_exit

    def stop(*_: object) -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn sends itself the signal again when it has stopped
        signal.signal(number, stop)
    shown = f"[{host}]" if ":" in host else host
    print_text(f"{message} http://{shown}:{listening.getsockname()[1]}/v1/models/{api.name}")
    server.run(sockets=[listening])
