"""Posts a request within a time limit, whatever the server does."""

import contextlib
import http.client
import queue
import socket
import threading
import urllib.request
from typing import Any

_READ_BYTES = 200


def send_within(seconds: float, request: urllib.request.Request) -> None:
    """Sends a request and reads the beginning of the answer. Redirects are not followed: a token is for one address.

    The timeout of a socket applies to one read, so a server that sends a byte now and then would never exceed it. Here
    one limit applies to the sum of name lookup, connecting, sending and reading.

    Args:
        seconds: The limit.
        request: The request.

    Raises:
        TimeoutError: The request was not finished after `seconds`.
        OSError, HTTPException, ValueError: See `urllib.request.urlopen`.
    """
    sockets: list[socket.socket] = []
    ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()

    def send() -> None:
        try:
            with _opener(sockets).open(request, timeout=seconds) as answer:
                answer.read(_READ_BYTES)
            ended.put(None)
        except Exception as error:
            ended.put(error)

    threading.Thread(target=send, daemon=True).start()
    try:
        error = ended.get(timeout=seconds)
    except queue.Empty:
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)  # ends the read, and with it the thread
        raise TimeoutError from None
    if error is not None:
        raise error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirects."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


def _opener(sockets: list[socket.socket]) -> urllib.request.OpenerDirector:
    """Returns an opener that adds the sockets of its connections to a list."""

    def kept(connection: type[http.client.HTTPConnection]) -> Any:
        class Kept(connection):  # type: ignore[misc, valid-type]
            def connect(self) -> None:
                super().connect()
                sockets.append(self.sock)

        return Kept

    class Http(urllib.request.HTTPHandler):
        def http_open(self, request: urllib.request.Request) -> Any:
            return self.do_open(kept(http.client.HTTPConnection), request)

    class Https(urllib.request.HTTPSHandler):
        def https_open(self, request: urllib.request.Request) -> Any:
            return self.do_open(kept(http.client.HTTPSConnection), request)

    return urllib.request.build_opener(_NoRedirect, Http, Https)
