"""Writes the build folder of a container image that serves one version of a model."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from string import Template

from fullpass.base.errors import UserError
from fullpass.components.portable.targets import Server
from fullpass.components.predict.exported import describe_export
from fullpass.trainer.export.export_files import EXTRA, verify_export

_REQUEST = "request.json"


@dataclass(frozen=True)
class _Serving:
    """A server in an image.

    Attributes:
        title: What readers call it.
        base: The image that it comes in.
        image: The rest of the Dockerfile, after the model.
        ports: Those of REST and, if there is one, of gRPC.
    """

    title: str
    base: str
    image: str
    ports: tuple[int, ...]


_SERVERS: dict[Server, _Serving] = {
    "tensorflow": _Serving(
        "TensorFlow Serving", "tensorflow/serving:2.20.0", "ENV MODEL_NAME=$name", ports=(8501, 8500)
    ),
    "fullpass": _Serving(
        "`fullpass serve`",
        "fullpass:0.1.0",  # its entry point is `fullpass`
        'CMD ["serve", "/models/$name", "--name", "$name", "--host", "0.0.0.0"]',
        ports=(8501,),
    ),
}
_DOCKERFILE = """\
# Version $version of the model $name, served by $server. README.md says how to build and ask it.
ARG BASE=$base
FROM $${BASE}
COPY models /models
$image
USER 65532:0
EXPOSE $exposed
"""
_COMPOSE = """\
services:
  "$name":
    build: .
    image: "$name:$version"
    ports: [$ports]
    read_only: true
    tmpfs: [/tmp]
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    restart: unless-stopped
    healthcheck:
      test:
        - CMD
        - bash
        - -c
        - >-
          exec 3<>/dev/tcp/127.0.0.1/8501 &&
          printf 'GET /v1/models/$name HTTP/1.0\\r\\n\\r\\n' >&3 && grep -q AVAILABLE <&3
      interval: 10s
      start_period: 60s
"""
_README = """\
# $name, version $version

An image with the model and $server. It needs no other file, and runs as any user with a read-only root.

    docker build -t $name:$version .
    docker run --rm $published $name:$version
    curl -d @$request localhost:8501/v1/models/$name/versions/$version:predict

Or `docker compose up --build`, which also tells whether the model answers. podman takes the same commands. The base is
`$base`; another is `--build-arg BASE=IMAGE`.$base_from
"""
_BASE_FROM = """ Build it from Fullpass's own sources:

    docker build -f kubeflow/Dockerfile -t $base .
"""


def write_image(path: Path, out: Path, server: Server, rows: object = None) -> str:
    """Writes Dockerfile, compose.yaml, README.md, a request and a copy of the model; returns `name:version`.

    Args:
        path: Folder of an export, or of pushed models, of which the newest is taken. Links in it become files.
        out: The folder to write; it appears when it is complete.
        rows: None, as nothing is compared.

    Raises:
        UserError: There is no export, a file of it is damaged or missing, `out` exists, or rows are given.
    """
    if rows is not None:
        raise UserError(f"{rows}: rows are not for an image, which holds the SavedModel itself. Leave them out.")
    if out.exists():
        raise UserError(f"{out} already exists. Name another folder with --out, or remove it.")
    export, description = describe_export(path)
    name, version = description["name"], export.name if export.name.isdigit() else "1"
    serving = _SERVERS[server]
    facts = {
        "name": name,
        "version": version,
        "server": serving.title,
        "base": serving.base,
        "request": _REQUEST,
        "exposed": " ".join(map(str, serving.ports)),
        "ports": ", ".join(f'"127.0.0.1:{port}:{port}"' for port in serving.ports),
        "published": " ".join(f"-p {port}:{port}" for port in serving.ports),
    }
    facts["image"] = Template(serving.image).substitute(facts)
    facts["base_from"] = Template(_BASE_FROM).substitute(facts) if server == "fullpass" else ""
    texts = {"Dockerfile": _DOCKERFILE, "compose.yaml": _COMPOSE, "README.md": _README}
    pending = out.with_name(f"{out.name}.tmp")
    shutil.rmtree(pending, ignore_errors=True)
    try:
        model = pending / "models" / name / version
        shutil.copytree(export, model)
        verify_export(str(model))
        shutil.copy(export / EXTRA / _REQUEST, pending)
        for file, text in texts.items():
            (pending / file).write_text(Template(text).substitute(facts), encoding="utf-8")
        os.replace(pending, out)
    except shutil.Error as error:
        raise UserError(f"{export}: files of the model cannot be copied: {error}") from error
    finally:
        shutil.rmtree(pending, ignore_errors=True)
    return f"{name}:{version}"
