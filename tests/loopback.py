"""HTTP servers for tests, on loopback."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class QuietHandler(BaseHTTPRequestHandler):
    """A handler that prints nothing."""

    def log_message(self, *_):
        pass

    def content(self) -> bytes:
        """Returns the body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def reply(self, content: Any, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        """Sends text, or an object as JSON."""
        data = (content if isinstance(content, str) else json.dumps(content)).encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serves until the end of the block, and yields the URL, which begins with `http` with TLS, too."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)


@contextmanager
def receiver():
    """A server that takes JSON: yields its address, and the list of what it has received."""
    got = []

    class Handler(QuietHandler):
        def do_POST(self):
            got.append(json.loads(self.content()))
            self.reply({})

    with serving(Handler) as address:
        yield address, got
