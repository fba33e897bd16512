"""Tells receivers of an event. Whatever becomes of that, the run stays what it was."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any

from pipeline.notify.config import Hook
from pipeline.notify.payload import Payload

Say = Callable[[str], None]
_SHOWN = 200


class _Refused(Exception):
    """A receiver that could not be told. again: whether another try may help."""

    def __init__(self, why: str, *, again: bool) -> None:
        super().__init__(why)
        self.again = again


def notify(
    hooks: Iterable[Hook],
    payload: Payload,
    *,
    folder: Path,
    say: Say,
    environment: Mapping[str, str] = os.environ,
    wait: Callable[[float], bool] | None = None,
) -> int:
    """Tells every hook that wants to hear of the event; returns how many could not be told.

    Args:
        hooks: `notify:` of the YAML.
        payload: the event.
        folder: of the YAML, in which commands run.
        say: prints a line for a receiver that could not be told. No address and no token is in it.
        environment: holds addresses and tokens.
        wait: waits some seconds between tries, and returns whether to leave it at that. By default it never does.
    """
    failed = 0
    for number, hook in enumerate(hooks):
        if payload.event not in hook.on:
            continue
        try:
            _told(hook, payload, folder, environment, wait or _patiently)
        except _Refused as error:
            failed += 1
            say(f"notify[{number}]: {_name(hook)} could not be told of {payload.event}: {error}")
    return failed


def _told(
    hook: Hook, payload: Payload, folder: Path, environment: Mapping[str, str], wait: Callable[[float], bool]
) -> None:
    for attempt in range(hook.retries + 1):
        try:
            if hook.command is not None:
                _run(hook, payload, folder, environment)
            else:
                _post(hook, payload, environment)
            return
        except _Refused as error:
            if not error.again or attempt == hook.retries or wait(2.0**attempt):
                raise


def _patiently(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _run(hook: Hook, payload: Payload, folder: Path, environment: Mapping[str, str]) -> None:
    command = list(hook.command or ())
    try:
        done = subprocess.run(  # noqa: S603
            command,
            input=json.dumps(payload.facts()).encode(),
            cwd=folder,
            env={**environment, **payload.variables()},
            capture_output=True,
            timeout=hook.timeout,
            check=False,
            # Ctrl-C in a terminal is meant for the run, which has ended.
            process_group=0,
        )
    except subprocess.TimeoutExpired:
        raise _Refused(f"it took longer than {hook.timeout} s and was stopped.", again=False) from None
    except OSError as error:
        raise _Refused(f"{error.strerror or error}.", again=False) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-_SHOWN:]
        # A program has its own ideas of trying again, and may have told half of the world already.
        raise _Refused(f"exit code {done.returncode}{': ' if said else ''}{said}", again=False)


def _post(hook: Hook, payload: Payload, environment: Mapping[str, str]) -> None:
    address = _secret(hook.url_env, environment)
    headers = {"Content-Type": "application/json", "User-Agent": "fullpass"}
    if hook.token_env is not None:
        headers["Authorization"] = f"Bearer {_secret(hook.token_env, environment)}"
    if not address.startswith(("http://", "https://")):
        raise _Refused(f"{hook.url_env} holds no address that begins with https:// or http://.", again=False)
    try:
        request = urllib.request.Request(address, json.dumps(payload.facts()).encode(), headers)  # noqa: S310
        with _OPENER.open(request, timeout=hook.timeout) as answer:
            answer.read(_SHOWN)
    except urllib.error.HTTPError as error:
        error.close()
        raise _Refused(f"it answered {error.code}.", again=error.code == 429 or error.code >= 500) from None
    except urllib.error.URLError as error:
        raise _Refused(f"{_reason(error.reason)}.", again=True) from None
    except ValueError:
        raise _Refused(f"{hook.url_env} holds no address, or {hook.token_env} no token.", again=False) from None
    except (OSError, HTTPException) as error:
        raise _Refused(f"{_reason(error)}.", again=True) from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token goes to the address that it was given for, and nowhere else."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def _secret(name: str | None, environment: Mapping[str, str]) -> str:
    value = environment.get(name or "", "").strip()
    if not value:
        raise _Refused(f"the environment variable {name} is not set.", again=False)
    return value


def _reason(error: object) -> str:
    """Returns what went wrong, without the address in it."""
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


def _name(hook: Hook) -> str:
    return f"the command {hook.command[0]}" if hook.command else f"the address in {hook.url_env}"
