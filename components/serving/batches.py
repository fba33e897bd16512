"""Calls the model in threads, one call for the requests that came while all threads were busy.

A call of a small model costs about the same for one row and for eight. No request waits for others: a free thread
takes what is there.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from fullpass.components.serving.rest import PredictRequest
from fullpass.components.serving.served_model import ServedModel
from fullpass.components.serving.tensors import RefusedRequest

Outputs = Mapping[str, np.ndarray]
_MOST_ROWS = 1024
"""Rows of a call with several requests at most."""
_MOST_WAITING = 1000
"""Requests that may wait; further ones are refused, because their clients would have given up before their answer."""


@dataclass(frozen=True)
class _Asked:
    model: ServedModel
    request: PredictRequest
    answer: asyncio.Future[Outputs]
    kind: tuple[Any, ...]


class RequestBatches:
    """Answers requests to predict; each of them by one version of the model. Its methods are for one event loop."""

    def __init__(self, threads: int):
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="model")
        self._free = threads
        self._waiting: deque[_Asked] = deque()

    async def outputs(self, model: ServedModel, request: PredictRequest) -> Outputs:
        """Returns the outputs of the model.

        Raises:
            RefusedRequest: Too many requests wait.
            tf.errors.OpError: The model refuses the inputs, or fails.
        """
        if len(self._waiting) >= _MOST_WAITING:
            raise RefusedRequest(f"{_MOST_WAITING} requests wait already; try again later", 503)
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(_Asked(model, request, answer, _kind(model, request)))
        self._start()
        return await answer

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown()

    def _start(self) -> None:
        if not self._waiting or not self._free:
            return
        first = self._waiting[0]
        taken, rows = list[_Asked](), 0
        for one in self._waiting:
            rows += one.request.rows
            if taken and (not one.kind or one.kind != first.kind or rows > _MOST_ROWS):
                break
            taken.append(one)
        for _ in taken:
            self._waiting.popleft()
        self._free -= 1
        call = asyncio.get_running_loop().run_in_executor(self._pool, _answers, taken)
        call.add_done_callback(lambda done: self._give(taken, done))

    def _give(self, asked: Sequence[_Asked], done: asyncio.Future[list[Any]]) -> None:
        self._free += 1
        for one, found in zip(asked, done.result(), strict=True):
            if one.answer.done():  # its client is gone
                continue
            if isinstance(found, Exception):
                one.answer.set_exception(found)
            else:
                one.answer.set_result(found)
        self._start()


def _kind(model: ServedModel, request: PredictRequest) -> tuple[Any, ...]:
    """Returns what requests have in common that one call can answer; empty if the request needs a call of its own."""
    if not all(array.ndim and len(array) == request.rows for array in request.inputs.values()):
        return ()
    return model.version, request.signature, *((key, array.shape[1:]) for key, array in request.inputs.items())


def _answers(asked: Sequence[_Asked]) -> list[Any]:
    """Returns the outputs of each request, or the error that it ends with."""
    if len(asked) > 1:
        try:
            return _together(asked)
        except Exception:  # one of them is at fault; each gets its own answer
            pass
    found: list[Any] = []
    for one in asked:
        try:
            found.append(one.model.outputs(one.request.signature, one.request.inputs))
        except Exception as error:
            found.append(error)
    return found


def _together(asked: Sequence[_Asked]) -> list[Outputs]:
    first, ends = asked[0], np.cumsum([one.request.rows for one in asked])
    inputs = {key: np.concatenate([one.request.inputs[key] for one in asked]) for key in first.request.inputs}
    outputs = first.model.outputs(first.request.signature, inputs)
    if any(not array.ndim or len(array) != ends[-1] for array in outputs.values()):
        raise ValueError("an output is not of the rows")
    parts = {key: np.split(array, ends[:-1]) for key, array in outputs.items()}
    return [{key: part[number] for key, part in parts.items()} for number in range(len(asked))]
