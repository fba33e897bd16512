"""Connects to an installation of Kubeflow Pipelines, with a token or a cookie; its errors name the fix."""

import ipaddress
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
LOGIN = (
    "Give a token (FULLPASS_KUBEFLOW_TOKEN, or FULLPASS_KUBEFLOW_TOKEN_FILE for a mounted one) or the cookie of a "
    "session (FULLPASS_KUBEFLOW_COOKIE or FULLPASS_KUBEFLOW_COOKIE_FILE)."
)
_MAX_SHOWN = 2_000
"""Characters of a server's message that an error shows."""
_BY_STATUS = {
    401: f"{{host}} requires authentication. {LOGIN}",
    403: "not allowed at {host}. In a multi-user installation give the namespace of your profile (--namespace), and "
    "have its owner grant you the role kubeflow-edit; otherwise the token or cookie has expired or belongs to another "
    "audience.",
    404: "{host} has no such object. Either it was deleted, or the URL is not that of Kubeflow Pipelines 2: give the "
    "part before /apis/v2beta1.",
    409: "it exists already at {host}.",
}
"""Status -> message; other statuses have rules of their own."""


def client(host: str | None, variables: Mapping[str, str]) -> "ApiClient":
    """Returns kfp's client for a URL, with the credentials in environment variables.

    Raises:
        UserError: There is no URL, or credentials cannot be read or would be sent unencrypted.
    """
    import kfp_server_api
    from urllib3 import Retry

    if not host:
        raise UserError(
            f"no address of Kubeflow Pipelines. Give --host (or the variable {HOST}), such as "
            "https://kubeflow.example/pipeline. For a cluster without its own address, forward a port with kubectl "
            "(docs/kubeflow.md, Submit)."
        )
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
    if authority := variables.get(AUTHORITY):
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


class Unreachable(UserError):
    """The API does not answer or has a server error; the same request may succeed later."""


@contextmanager
def explain_errors(host: str, action: str) -> Iterator[None]:
    """Converts errors of kfp's client to a `UserError` that names the request, the host and the fix.

    Raises:
        Unreachable: The API does not answer or has a server error.
        UserError: The API rejects the request.
    """
    from kfp_server_api.exceptions import ApiException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ApiException as error:
        if not error.status:
            raise _connection_error(host, action, str(error.reason)) from error
        raise error_for_status(host, action, error.status, error_text(error.body)) from error
    except HTTPError as error:
        raise _connection_error(host, action, str(error)) from error
    except (ValueError, AttributeError, TypeError) as error:
        if isinstance(error, UserError):
            raise
        # kfp's client received text instead of fields: a page of another server.
        raise UserError(
            f"{action}: the response of {host} is not from Kubeflow Pipelines ({type(error).__name__}: {error}). Give "
            "the part of the URL before /apis/v2beta1; behind Kubeflow's dashboard it ends in /pipeline."
        ) from error


def error_for_status(host: str, action: str, status: int, message: str) -> UserError:
    """Returns the error for an HTTP status and the server's message."""
    quoted = f' Server message: "{message}"' if message else ""
    if status in (429, 502, 503, 504):
        return Unreachable(f"{action}: {host} is temporarily unavailable (status {status}).{quoted}")
    if status >= 500:
        return Unreachable(f"{action}: {host} failed (status {status}).{quoted} Its log: deployment/ml-pipeline.")
    if 300 <= status < 400:
        text = f"{host} requires authentication (it redirects to a login page). {LOGIN}"
    elif status == 400 and "namespace" in message.lower():
        text = f"{host} rejects the namespace. Give the namespace of your profile (--namespace)."
    else:
        text = _BY_STATUS.get(status, "{host} rejected the request (status {status}).").format(host=host, status=status)
    return UserError(f"{action}: {text}{quoted}")


def error_text(body: object) -> str:
    """Returns the message in a response body, which is one of the API's two error formats or plain text."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else str(body or "")
    try:
        fields = json.loads(text)
    except ValueError:
        fields = {}
        if "<html" in text.lower():
            text = ""
    if isinstance(fields, dict):
        text = str(fields.get("error_message") or fields.get("message") or fields.get("error") or text)
    return " ".join(text.split())[:_MAX_SHOWN]


def _connection_error(host: str, action: str, message: str) -> UserError:
    if "CERTIFICATE_VERIFY_FAILED" in message or "SSL" in message:
        return UserError(
            f"{action}: the certificate of {host} is not trusted. Set FULLPASS_KUBEFLOW_CA to the file of "
            f"its certificate authority. ({message})"
        )
    return Unreachable(
        f"{action}: nothing answers at {host}. Check the address, the network, and a port that kubectl forwards. "
        f"({message})"
    )
