"""The sides of `bench_serve`, each in its own process: a bare FastAPI with the same model, and the clients."""

import argparse
import json
import socket
import statistics
import threading
import time
from pathlib import Path
from typing import Any


def bare(model: Path, port: int) -> None:
    """Serves the rows of a request with FastAPI and the model, without anything else."""
    from fullpass.pipeline.startup import set_environment, without_keras

    set_environment()
    without_keras()
    import numpy as np
    import uvicorn
    from fastapi import FastAPI

    from fullpass.components.predict.exported import load_export

    app, exported = FastAPI(), load_export(model)
    exported.warm_up()

    @app.post("/predict")
    def predict(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        inputs = {}
        for name, column in exported.columns.items():
            absent, dtype = ("", object) if column.type == "string" else (float("nan"), np.float32)
            inputs[name] = np.array([row.get(name, absent) for row in rows], dtype)
        answers = exported.outputs(inputs)
        labels = [label.decode() for label in answers["prediction"]]
        return [{"score": s, "label": label} for s, label in zip(answers["scores"].tolist(), labels, strict=True)]

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


class Client(threading.Thread):
    """A client with one connection, which asks again as soon as it is answered.

    Attributes:
        seconds: The latency of each request.
        answers: Body of an answer -> how often it came.
    """

    def __init__(self, port: int, requests: list[bytes]):
        super().__init__()
        self._port, self._requests = port, requests
        self.seconds: list[float] = []
        self.answers: dict[bytes, int] = {}

    def run(self) -> None:
        with socket.create_connection(("127.0.0.1", self._port)) as connection:
            for request in self._requests:
                start = time.perf_counter()
                connection.sendall(request)
                answer = self._answer(connection)
                self.seconds.append(time.perf_counter() - start)
                self.answers[answer] = self.answers.get(answer, 0) + 1

    def _answer(self, connection: socket.socket) -> bytes:
        found = b""
        while b"\r\n\r\n" not in found:
            found += self._received(connection)
        head, _, body = found.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        while len(body) < length:
            body += self._received(connection)
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise ConnectionError(f"refused: {head!r} {body[:1000]!r}")
        return body

    def _received(self, connection: socket.socket) -> bytes:
        found = connection.recv(1 << 16)
        if not found:
            raise ConnectionError("the server closed the connection")
        return found


def ask(port: int, path: str, bodies: Path, clients: int, requests: int) -> None:
    """Sends the bodies of a file in turn, and prints the rate and the latencies as JSON."""
    made = []
    for body in bodies.read_bytes().splitlines():
        head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        made.append(head.encode() + b"\r\n\r\n" + body)
    each = requests // clients
    running = [Client(port, [made[(first + n) % len(made)] for n in range(each)]) for first in range(clients)]
    start = time.perf_counter()
    for client in running:
        client.start()
    for client in running:
        client.join()
    seconds = time.perf_counter() - start
    latencies = sorted(one for client in running for one in client.seconds)
    if len(latencies) != each * clients:
        raise SystemExit(f"{len(latencies)} of {each * clients} requests were answered")
    print(
        json.dumps(
            {
                "rate": len(latencies) / seconds,
                "p50_ms": 1e3 * statistics.median(latencies),
                "p99_ms": 1e3 * latencies[int(0.99 * len(latencies))],
            }
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=["bare", "ask"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--path")
    parser.add_argument("--bodies", type=Path)
    parser.add_argument("--clients", type=int)
    parser.add_argument("--requests", type=int)
    arguments = parser.parse_args()
    if arguments.side == "bare":
        bare(arguments.model, arguments.port)
    else:
        ask(arguments.port, arguments.path, arguments.bodies, arguments.clients, arguments.requests)


if __name__ == "__main__":
    main()
