"""Notifications of events: one flat JSON object for each. A failed delivery never changes the outcome of a run."""

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any

from fullpass.base.json_text import to_json_text
from fullpass.base.processes import in_thread, run_bounded
from fullpass.base.redact import redact_tree
from fullpass.pipeline.config import Hook
from fullpass.pipeline.printing import plain, shortened
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.startup import SAFE_PATH

_MAX_TEXT = 200
_READ_BYTES = 200
_PREFIX = "FULLPASS_"
_MOST_CHARACTERS = 10_000


@dataclass(frozen=True)
class Payload:
    """An event of a pipeline, in a sentence and with the facts that notifications hold. Unknown facts are null."""

    event: str
    text: str
    facts: RunFacts
    host: str = field(default_factory=socket.gethostname)
    time: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @property
    def fields(self) -> dict[str, Any]:
        """The JSON object to send; it holds no secret, and of the versions only one that the run has pushed."""
        told = self.facts.marked("told")
        told["run_id"] = told["run_id"] or None
        told["pushed_to"] = told["pushed_to"] if self.facts.newly_pushed else None
        return redact_tree({"event": self.event, "text": self.text, **told, "host": self.host, "time": self.time})

    def to_json(self) -> bytes:
        """Returns the JSON object as UTF-8."""
        return to_json_text(self.fields).encode()

    def variables(self) -> dict[str, str]:
        """Returns the text and number fields as environment variables of a command, FULLPASS_EVENT and so on.

        A variable cannot hold NUL, and the system refuses long variables. So control characters are escaped, and a
        text is cut after 10,000 characters and ends in `...`.
        """
        given = {name: value for name, value in self.fields.items() if isinstance(value, str | int | float)}
        return {_PREFIX + key.upper(): shortened(plain(str(value)), _MOST_CHARACTERS) for key, value in given.items()}


def payload_of(facts: RunFacts) -> Payload:
    """Returns the event that a run has ended.

    Example:
        >>> payload_of(RunFacts(pipeline="taxi", outcome="gate_stop", span="2013-01-05", message="fare moved")).text
        'taxi: gate stop on data up to 2013-01-05: fare moved'
    """
    of_span = f" on data up to {facts.span}" if facts.span else ""
    why = f": {facts.message}" if facts.message else "."
    return Payload(facts.outcome, f"{facts.pipeline}: {facts.outcome.replace('_', ' ')}{of_span}{why}", facts)


class _DeliveryError(Exception):
    """A notification that was not delivered.

    Attributes:
        retry: Whether another attempt may succeed.
    """

    def __init__(self, why: str, *, retry: bool = False) -> None:
        super().__init__(why)
        self.retry = retry


def notify(
    hooks: Iterable[Hook],
    payload: Payload,
    *,
    folder: Path,
    say: Callable[[str], None],
    environment: Mapping[str, str] = os.environ,
    wait: Callable[[float], object] = time.sleep,
) -> int:
    """Sends an event to every hook that subscribes to it; returns the number of failed deliveries.

    Args:
        folder: The folder of the YAML, in which commands run.
        say: Prints a line for each failed delivery, without addresses or tokens.
        environment: Holds the addresses and tokens.
        wait: Waits the given seconds between attempts, and returns whether to give up.
    """
    failed = 0
    for number, hook in enumerate(hooks):
        if payload.event not in hook.on:
            continue
        try:
            _deliver(hook, payload, folder, environment, wait)
        except Exception as error:
            # A problem with one receiver does not affect the others.
            failed += 1
            why = error if isinstance(error, _DeliveryError) else f"{_reason(error)}."
            receiver = f"the command {hook.command[0]}" if hook.command else f"the address in {hook.url_env}"
            say(f"notify[{number}]: {receiver} could not be notified of {payload.event}: {why}")
    return failed


def _deliver(
    hook: Hook, payload: Payload, folder: Path, environment: Mapping[str, str], wait: Callable[[float], object]
) -> None:
    for attempt in range(hook.retries + 1):
        try:
            if hook.command is not None:
                _run(hook, payload, folder, environment)
            else:
                _post(hook, payload, environment)
            return
        except _DeliveryError as error:
            if not error.retry or attempt == hook.retries or wait(2.0**attempt):
                raise


def _run(hook: Hook, payload: Payload, folder: Path, environment: Mapping[str, str]) -> None:
    try:
        done = run_bounded(
            hook.command or (),
            seconds=hook.timeout,
            stdin=payload.to_json(),
            folder=folder,
            # PYTHONSAFEPATH is only for Fullpass's own processes: a script may import modules from its folder.
            environment={n: v for n, v in environment.items() if n != SAFE_PATH} | payload.variables(),
        )
    except subprocess.TimeoutExpired:
        raise _DeliveryError(f"it took longer than {hook.timeout} s and was stopped.") from None
    except OSError as error:
        raise _DeliveryError(f"{error.strerror or error}.") from None
    if done.returncode:
        message = done.stderr.decode(errors="replace").strip()[-_MAX_TEXT:]
        # No retry: a program may have delivered a part already, and can retry by itself.
        raise _DeliveryError(f"exit code {done.returncode}{': ' if message else ''}{message}")


def _post(hook: Hook, payload: Payload, environment: Mapping[str, str]) -> None:
    address = _required_variable(hook.url_env, environment)
    headers = {"Content-Type": "application/json", "User-Agent": "fullpass"}
    if hook.token_env is not None:
        headers["Authorization"] = f"Bearer {_required_variable(hook.token_env, environment)}"
    if not address.startswith(("http://", "https://")):
        raise _DeliveryError(f"{hook.url_env} holds no address that begins with https:// or http://.")
    try:
        _send_within(hook.timeout, urllib.request.Request(address, payload.to_json(), headers))  # noqa: S310
    except TimeoutError:
        raise _DeliveryError(f"it took longer than {hook.timeout} s.", retry=True) from None
    except urllib.error.HTTPError as error:
        error.close()
        raise _DeliveryError(f"it answered {error.code}.", retry=error.code == 429 or error.code >= 500) from None
    except urllib.error.URLError as error:
        raise _DeliveryError(f"{_reason(error.reason)}.", retry=True) from None
    except ValueError:
        raise _DeliveryError(f"{hook.url_env} holds no address, or {hook.token_env} no token.") from None
    except (OSError, HTTPException) as error:
        raise _DeliveryError(f"{_reason(error)}.", retry=True) from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirects: a token is for one address."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


def _send_within(seconds: float, request: urllib.request.Request) -> None:
    """Sends a request and reads the beginning of the answer, with one limit for the whole.

    The timeout of a socket applies to one read, so a server that sends a byte now and then would never exceed it.
    """

    def send() -> None:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=seconds) as answer:
            answer.read(_READ_BYTES)

    in_thread(send).result(seconds)


def _required_variable(name: str | None, environment: Mapping[str, str]) -> str:
    value = environment.get(name or "", "").strip()
    if not value:
        raise _DeliveryError(f"the environment variable {name} is not set.")
    return value


def _reason(error: object) -> str:
    """Returns the reason of an error without the address in it."""
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
