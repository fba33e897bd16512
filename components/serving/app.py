"""The HTTP server of a model: paths, limits and answers of TensorFlow Serving's REST API, as an ASGI application.

    GET  /v1/models/NAME[/versions/N]             the versions, and whether they are available
    GET  /v1/models/NAME[/versions/N]/metadata    the signatures
    POST /v1/models/NAME[/versions/N]:predict     an answer of the model
    GET  /livez, /readyz                          whether the process lives, and whether it takes requests
    GET  /monitoring/prometheus/metrics           counts

Source: tensorflow_serving/model_servers/http_rest_api_handler.cc, http_rest_api_util.cc and http_server.cc.
"""

import asyncio
import json
import re
import time
import traceback
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import tensorflow as tf

from fullpass.components.serving import rest
from fullpass.components.serving.batches import RequestBatches
from fullpass.components.serving.log_rows import LOGGED, Exchange
from fullpass.components.serving.log_writer import RequestLog
from fullpass.components.serving.served_model import ServedModel
from fullpass.components.serving.tensors import RefusedRequest
from fullpass.components.serving.versions import ServedVersions

_MODEL = r"(?i:/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_PREDICTION = re.compile(rf"{_MODEL}:)(?P<method>classify|regress|predict)")
_STATUS = re.compile(rf"{_MODEL}(?:/(?P<metadata>metadata))?)")
_METHODS = {"classify": "classification", "regress": "regression"}
_MOST_VERSION = 2**63
_ID = b"x-request-id"
_REQUEST_ID = re.compile(rb"[!-~]{1,128}")
_LARGE = 1 << 16
"""Bytes of a body from which it is read in a thread: other requests do not wait for it."""
_BAD_INPUTS = (tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError, tf.errors.OutOfRangeError)
_OF_PYTHON = re.compile(r"^Graph execution error:.*<stack traces unavailable>\n| \[Op:\w+\]$", re.DOTALL)
"""What Python adds to a message of the model."""
_JSON, _TEXT = b"application/json", b"text/plain"


@dataclass(frozen=True)
class RequestLimits:
    """What a request may have at most.

    Attributes:
        body: Bytes of its body.
        rows: Rows.
    """

    body: int
    rows: int


class RestApi:
    """The application.

    Attributes:
        name: Name of the model in the paths.
        ready: Tells whether it takes requests.
    """

    def __init__(
        self,
        name: str,
        versions: ServedVersions,
        limits: RequestLimits,
        tell: Callable[[str], None],
        log: RequestLog | None = None,
        id_column: str | None = None,
    ):
        self.name, self._versions, self._limits, self._tell = name, versions, limits, tell
        self._log, self._id_column = log, id_column
        self._batches = RequestBatches(threads=1)
        self._counts: Counter[int] = Counter()
        self._seconds = 0.0
        self.ready: Callable[[], bool] = lambda: True

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """Answers a request."""
        started = time.perf_counter()
        headers, kind = dict(scope["headers"]), _JSON
        exchange = Exchange(_request_id(headers), datetime.now(UTC), self._versions.current)
        asked = _PREDICTION.fullmatch(scope["path"]) if scope["method"] == "POST" else None
        try:
            if asked:
                text = await self._predicted(asked, await self._body(headers, receive, exchange), exchange)
            else:
                text, kind = self._shown(scope["method"], scope["path"])
        except ConnectionAbortedError:
            return
        except Exception as error:
            exchange.status, exchange.error = self._explained(error)
            text = json.dumps({"error": exchange.error})
        exchange.latency = time.perf_counter() - started
        if asked:
            self._account(exchange)
        answer = text.encode("utf-8", "replace")
        given = {b"content-type": kind, b"content-length": str(len(answer)).encode(), _ID: exchange.id.encode()}
        await send({"type": "http.response.start", "status": exchange.status, "headers": list(given.items())})
        await send({"type": "http.response.body", "body": answer})

    def close(self) -> None:
        """Ends the threads."""
        self._batches.close()

    async def _body(self, headers: Mapping[bytes, bytes], receive: Any, exchange: Exchange) -> bytes:
        """Returns the body of a request.

        Raises:
            ConnectionAbortedError: The client is gone.
        """
        body, more = bytearray(), int(headers.get(b"content-length", b"0")) <= self._limits.body
        while more and len(body) <= self._limits.body:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionAbortedError
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if not more:
                exchange.size = len(body)
                return bytes(body)
        raise RefusedRequest(f"the body has more than {self._limits.body:,} bytes (--most-mb)", 413)

    async def _predicted(self, asked: re.Match[str], body: bytes, exchange: Exchange) -> str:
        async def run(function: Callable[..., Any], *args: Any) -> Any:
            return await asyncio.to_thread(function, *args) if len(body) > _LARGE else function(*args)

        request = await run(self._read, asked, body, exchange)
        outputs = await self._batches.outputs(exchange.model, request)
        text = await run(rest.answer_text, outputs, request.by_row)
        exchange.outputs = outputs
        return text

    def _read(self, asked: re.Match[str], body: bytes, exchange: Exchange) -> rest.PredictRequest:
        document = rest.read_document(body)
        exchange.signature, method = rest.signature_name(document), asked["method"]
        if method != "predict":
            rest.check_examples(document)
        exchange.model = model = self._model(asked)
        if method != "predict":
            raise RefusedRequest(_no_method(method, exchange.signature, model))
        ids = rest.taken_column(document, self._id_column, model.signatures.get(exchange.signature, {}))
        request = rest.predict_request(document, model.signatures)
        if request.rows > self._limits.rows:
            raise RefusedRequest(f"{request.rows:,} rows are more than {self._limits.rows:,} (--most-rows)")
        if exchange.signature in LOGGED:
            exchange.rows, exchange.inputs = request.rows, request.inputs
            exchange.ids = ids if len(ids) == request.rows else ()
        return request

    def _model(self, asked: re.Match[str]) -> ServedModel:
        """Returns the version that a path asks for."""
        name, version, label = asked["name"], asked["version"], asked["label"]
        if label is not None:
            raise RefusedRequest(f"Unrecognized servable version label: {label}")
        if version is not None and int(version) >= _MOST_VERSION:
            raise RefusedRequest(f"Failed to convert version: {version} to numeric.")
        model = self._versions.current
        if name != self.name or version is not None and int(version) != model.version:
            which = f"Latest({name})" if version is None else f"Specific({name}, {int(version)})"
            raise RefusedRequest(f"Servable not found for request: {which}", 404)
        return model

    def _shown(self, method: str, path: str) -> tuple[str, bytes]:
        """Returns what a GET asks for, and its type."""
        if method == "GET" and path in ("/livez", "/readyz"):
            if path == "/readyz" and not self.ready():
                raise RefusedRequest("the server is stopping", 503)
            return "ok\n", _TEXT
        if method == "GET" and path == "/monitoring/prometheus/metrics":
            return self._metrics(), _TEXT
        asked = _STATUS.fullmatch(path) if method == "GET" else None
        if asked and asked["metadata"]:
            model = self._model(asked)
            spec = {"name": self.name, "signature_name": "", "version": str(model.version)}
            shown = {"model_spec": spec, "metadata": {"signature_def": {"signature_def": model.metadata}}}
        elif asked:
            shown = {"model_version_status": self._statuses(asked["name"], asked["version"])}
        elif path.lower().startswith("/v1/"):
            raise RefusedRequest(f"Malformed request: {method} {path}")
        else:
            raise RefusedRequest(f"no such path: {path}", 404)
        return json.dumps(shown, indent=1), _JSON

    def _statuses(self, name: str, version: str | None) -> list[dict[str, Any]]:
        found = self._versions.statuses() if name == self.name else {}
        if version is not None:
            found = {number: status for number, status in found.items() if number == int(version)}
        if not found:
            which = f"find version {version}" if version is not None else "find any versions"
            raise RefusedRequest(f"Could not {which} of model {name}", 404)
        return list(found.values())

    def _explained(self, error: Exception) -> tuple[int, str]:
        """Returns status and text of the answer to a request that failed."""
        if isinstance(error, RefusedRequest):
            return error.status, str(error)
        if isinstance(error, _BAD_INPUTS):
            return 400, _OF_PYTHON.sub("", error.message)
        self._tell("".join(traceback.format_exception(error)))
        return 500, "internal error; the log of the server has more"

    def _account(self, exchange: Exchange) -> None:
        self._counts[exchange.status] += 1
        self._seconds += exchange.latency
        logged = exchange.signature in LOGGED or exchange.error
        if self._log is not None and logged and self._log.chosen():
            self._log.add(exchange)

    def _metrics(self) -> str:
        model = f'model="{self.name}"'
        found: dict[str, float] = {
            f'fullpass_requests_total{{{model},status="{code}"}}': n for code, n in sorted(self._counts.items())
        }
        found[f"fullpass_request_seconds_total{{{model}}}"] = round(self._seconds, 6)
        found[f"fullpass_model_version{{{model}}}"] = self._versions.current.version
        logged = self._log.counts if self._log is not None else {}
        found |= {f'fullpass_log_rows_total{{{model},outcome="{name}"}}': n for name, n in sorted(logged.items())}
        return "".join(f"{name} {value}\n" for name, value in found.items())


def _request_id(headers: Mapping[bytes, bytes]) -> str:
    given = headers.get(_ID, b"")
    return given.decode() if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def _no_method(method: str, signature: str, model: ServedModel) -> str:
    if signature not in model.methods:
        return f"No signature was found with the name: {signature}"
    return (
        f"Expected {_METHODS[method]} signature method_name to be tensorflow/serving/{method}. "
        f"Was: {model.methods[signature]}"
    )
