"""A proxy on loopback in front of a server, which fails chosen requests by an error or a closed connection."""

import http.client
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

_BUSY = b'<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>'


class Flaky:
    """Forwards requests to a port. seen: method and path of each request, oldest first."""

    def __init__(self, to: int):
        self.seen: list[str] = []
        self._to = to
        self._faults: list[list[Any]] = []
        self._lock = Lock()
        outer = self

        class Pass(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass(self) -> None:
                outer._serve(self)

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass

            def log_message(self, *args: Any) -> None:
                """Prints nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Pass)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def fail(self, method: str, text: str, times: int, how: str) -> None:
        """Lets the next `times` requests of `method` with `text` in their path fail. how: "busy" (503) or "hang_up"."""
        self._faults.append([method, text, times, how])

    def heal(self) -> None:
        """Forwards all requests again."""
        self._faults.clear()

    def close(self) -> None:
        """Stops the proxy."""
        self._server.shutdown()
        self._thread.join(timeout=10)
        self._server.server_close()

    def _fault(self, request: BaseHTTPRequestHandler) -> str | None:
        with self._lock:
            self.seen.append(f"{request.command} {request.path}")
            for fault in self._faults:
                if fault[0] == request.command and fault[1] in request.path and fault[2]:
                    fault[2] -= 1
                    return str(fault[3])
        return None

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        how = self._fault(request)
        if how == "hang_up":
            request.close_connection = True
            request.connection.close()
            return
        status, headers, content = (503, [], _BUSY) if how else self._ask(request, body)
        request.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                request.send_header(name, value)
        length = next((v for n, v in headers if n.lower() == "content-length"), None)
        request.send_header("Content-Length", str(length if request.command == "HEAD" and length else len(content)))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(content)

    def _ask(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._to, timeout=60)
        try:
            connection.putrequest(request.command, request.path, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():
                connection.putheader(name, value)  # also Host, which is signed
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()
