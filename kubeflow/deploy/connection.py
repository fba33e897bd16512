"""Connects to an installation of Kubeflow Pipelines, with a token or a cookie."""

import ipaddress
import os
from collections.abc import Mapping
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
