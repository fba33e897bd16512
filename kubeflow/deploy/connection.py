"""Connects to an installation of Kubeflow Pipelines: by URL or port-forward, with a token or a cookie."""

import ipaddress
import os
import re
import selectors
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fullpass.base.errors import UserError

if TYPE_CHECKING:
    from kfp_server_api import ApiClient

HOST = "KF_PIPELINES_ENDPOINT"
TOKEN = "FULLPASS_KUBEFLOW_TOKEN"
COOKIE = "FULLPASS_KUBEFLOW_COOKIE"
AUTHORITY = "FULLPASS_KUBEFLOW_CA"
MOUNTED_TOKEN = "KF_PIPELINES_SA_TOKEN_PATH"
"""Variable that Kubeflow sets in the pods of a profile: the path of a token file, which is renewed."""
_FORWARD_SECONDS = 30
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")


@dataclass(frozen=True)
class Connection:
    """The location of an installation.

    host: URL before /apis/v2beta1. forward: namespace of an installation to which kubectl forwards a port instead.
    context: kubeconfig context for the port-forward. namespace: namespace of a profile, in multi-user installations.
    """

    host: str | None = None
    forward: str | None = None
    context: str | None = None
    namespace: str | None = None


@contextmanager
def connected(connection: Connection, variables: Mapping[str, str] = os.environ) -> Iterator["ApiClient"]:
    """Yields kfp's client for an installation; a port-forward lasts as long as the context.

    Args:
        connection: the location of the installation.
        variables: environment variables, which hold the credentials.

    Raises:
        UserError: There is no URL, credentials cannot be read or would be sent unencrypted, or the port-forward failed.
    """
    host = connection.host or variables.get(HOST)
    if connection.forward is not None:
        with _forwarded(connection.forward, connection.context) as local:
            yield client(local, variables)
    elif host:
        yield client(host, variables)
    else:
        raise UserError(
            f"no address of Kubeflow Pipelines. Give --host (or the variable {HOST}), such as "
            "https://kubeflow.example/pipeline, or --port-forward to reach it with kubectl."
        )


def client(host: str, variables: Mapping[str, str]) -> "ApiClient":
    """Returns kfp's client for a URL, with the credentials in `variables`.

    Raises:
        UserError: See `connected`.
    """
    import kfp_server_api
    from urllib3 import Retry

    host = host.rstrip("/")
    if urlsplit(host).scheme not in ("http", "https") or not urlsplit(host).hostname:
        raise UserError(f"the address of Kubeflow Pipelines begins with https:// or http://. Received: {host!r}.")
    token, cookie = _credential(TOKEN, variables), _credential(COOKIE, variables)
    mounted = variables.get(f"{TOKEN}_FILE") or variables.get(MOUNTED_TOKEN)
    if (token or cookie) and not _is_private(host):
        raise UserError(f"credentials are not sent to {host}, because the connection is not encrypted. Use https://.")
    configuration = kfp_server_api.Configuration(host=host)
    # Redirects are not followed, as they would send a package to a login page. Sent requests are not repeated.
    configuration.retries = Retry(total=None, connect=2, read=False, redirect=False, status=False, other=False)
    authority = variables.get(AUTHORITY)
    if authority:
        configuration.ssl_ca_cert = str(_readable_file(AUTHORITY, authority))
    if token:
        configuration.api_key_prefix["authorization"] = "Bearer"
        configuration.api_key["authorization"] = token
        if mounted and not variables.get(TOKEN):
            # Mounted tokens are renewed in place, and a run can outlive several of them.
            configuration.refresh_api_key_hook = lambda used: used.api_key.update(
                authorization=_read_secret(mounted, TOKEN)
            )
    return kfp_server_api.ApiClient(configuration, cookie=cookie)


def _credential(name: str, variables: Mapping[str, str]) -> str | None:
    if variables.get(name):
        return variables[name].strip()
    file = variables.get(f"{name}_FILE") or (variables.get(MOUNTED_TOKEN) if name == TOKEN else None)
    return _read_secret(file, name) if file else None


def _read_secret(file: str, name: str) -> str:
    text = _readable_file(f"{name}_FILE", file).read_text(encoding="utf-8").strip()
    if not text:
        raise UserError(f"{name}_FILE: {file} is empty.")
    return text


def _readable_file(name: str, file: str) -> Path:
    path = Path(file)
    if not path.is_file() or not os.access(path, os.R_OK):
        raise UserError(f"{name}: {file} is not a readable file.")
    return path


def _is_private(host: str) -> bool:
    """Returns whether requests are private: encrypted, local to this machine, or inside the cluster."""
    parts = urlsplit(host)
    name = parts.hostname or ""
    if parts.scheme == "https" or name == "localhost" or name.endswith((".svc", ".svc.cluster.local")):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


@contextmanager
def _forwarded(namespace: str, context: str | None) -> Iterator[str]:
    # The service of the UI also serves the API, so links work while the port is forwarded.
    command = ["kubectl", *(["--context", context] if context else []), "--namespace", namespace]
    command += ["port-forward", "--address", "127.0.0.1", "service/ml-pipeline-ui", ":80"]
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0)
    except FileNotFoundError as error:
        raise UserError("--port-forward needs kubectl on PATH.") from error
    try:
        yield f"http://127.0.0.1:{_port(process, namespace)}"
    finally:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _port(process: "subprocess.Popen[bytes]", namespace: str) -> str:
    """Returns the local port of the port-forward, parsed from kubectl's output."""
    output = process.stdout
    if output is None:
        raise UserError("kubectl has no output to read.")
    received, ends = b"", time.monotonic() + _FORWARD_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while time.monotonic() < ends and selector.select(ends - time.monotonic()):
            chunk = os.read(output.fileno(), 4096)
            received += chunk
            found = _FORWARDING.search(received.decode(errors="replace"))
            if found:
                return found[1]
            if not chunk:
                break
    raise UserError(
        f"kubectl forwards no port of service/ml-pipeline-ui in namespace {namespace}: "
        f"{' '.join(received.decode(errors='replace').split()) or f'no output for {_FORWARD_SECONDS} s'}. "
        "Check `kubectl config current-context` and where Kubeflow Pipelines is installed."
    )
