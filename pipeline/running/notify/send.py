"""Sends notifications. A failed delivery never changes the outcome of a run."""

import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from http.client import HTTPException
from pathlib import Path

from fullpass.base.processes import run_bounded
from fullpass.pipeline.config import Hook
from fullpass.pipeline.process_environment import SAFE_PATH
from fullpass.pipeline.running.notify.payload import Payload
from fullpass.pipeline.running.notify.post import send_within

Say = Callable[[str], None]
_MAX_TEXT = 200


class _DeliveryError(Exception):
    """A notification that was not delivered.

    Attributes:
        retry: whether another attempt may succeed.
    """

    def __init__(self, why: str, *, retry: bool) -> None:
        super().__init__(why)
        self.retry = retry


def notify(
    hooks: Iterable[Hook],
    payload: Payload,
    *,
    folder: Path,
    say: Say,
    environment: Mapping[str, str] = os.environ,
    wait: Callable[[float], bool] | None = None,
) -> int:
    """Sends an event to every hook that subscribes to it; returns the number of failed deliveries.

    Args:
        hooks: Section `notify` of the YAML.
        payload: The event.
        folder: The folder of the YAML, in which commands run.
        say: Prints a line for each failed delivery, without addresses or tokens.
        environment: Holds the addresses and tokens.
        wait: Waits the given seconds between attempts, and returns whether to give up. The default never gives up.
    """
    failed = 0
    for number, hook in enumerate(hooks):
        if payload.event not in hook.on:
            continue
        try:
            _deliver(hook, payload, folder, environment, wait or _sleep)
        except Exception as error:
            # A problem with one receiver does not affect the others.
            failed += 1
            why = error if isinstance(error, _DeliveryError) else f"{_reason(error)}."
            say(f"notify[{number}]: {_receiver(hook)} could not be notified of {payload.event}: {why}")
    return failed


def _deliver(
    hook: Hook, payload: Payload, folder: Path, environment: Mapping[str, str], wait: Callable[[float], bool]
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


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


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
        raise _DeliveryError(f"{_late(hook)} and was stopped.", retry=False) from None
    except OSError as error:
        raise _DeliveryError(f"{error.strerror or error}.", retry=False) from None
    if done.returncode:
        message = done.stderr.decode(errors="replace").strip()[-_MAX_TEXT:]
        # No retry: a program may have delivered a part already, and can retry by itself.
        raise _DeliveryError(f"exit code {done.returncode}{': ' if message else ''}{message}", retry=False)


def _post(hook: Hook, payload: Payload, environment: Mapping[str, str]) -> None:
    address = _required_variable(hook.url_env, environment)
    headers = {"Content-Type": "application/json", "User-Agent": "fullpass"}
    if hook.token_env is not None:
        headers["Authorization"] = f"Bearer {_required_variable(hook.token_env, environment)}"
    if not address.startswith(("http://", "https://")):
        raise _DeliveryError(f"{hook.url_env} holds no address that begins with https:// or http://.", retry=False)
    try:
        request = urllib.request.Request(address, payload.to_json(), headers)  # noqa: S310
        send_within(hook.timeout, request)
    except TimeoutError:
        raise _DeliveryError(f"{_late(hook)}.", retry=True) from None
    except urllib.error.HTTPError as error:
        error.close()
        raise _DeliveryError(f"it answered {error.code}.", retry=error.code == 429 or error.code >= 500) from None
    except urllib.error.URLError as error:
        raise _DeliveryError(f"{_reason(error.reason)}.", retry=True) from None
    except ValueError:
        raise _DeliveryError(f"{hook.url_env} holds no address, or {hook.token_env} no token.", retry=False) from None
    except (OSError, HTTPException) as error:
        raise _DeliveryError(f"{_reason(error)}.", retry=True) from None


def _required_variable(name: str | None, environment: Mapping[str, str]) -> str:
    value = environment.get(name or "", "").strip()
    if not value:
        raise _DeliveryError(f"the environment variable {name} is not set.", retry=False)
    return value


def _reason(error: object) -> str:
    """Returns the reason of an error without the address in it."""
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


def _late(hook: Hook) -> str:
    return f"it took longer than {hook.timeout} s"


def _receiver(hook: Hook) -> str:
    return f"the command {hook.command[0]}" if hook.command else f"the address in {hook.url_env}"
