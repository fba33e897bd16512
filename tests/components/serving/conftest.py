"""A served folder with a trained model, and a client of the application that serves it."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.trainer.conftest import exported, planted

__all__ = ["exported", "planted"]


@pytest.fixture(scope="session")
def pushed(exported, tmp_path_factory) -> Path:
    """A folder with version 7 of a model."""
    folder = tmp_path_factory.mktemp("serving")
    shutil.copytree(exported("binary").directory, folder / "7")
    return folder


@pytest.fixture(scope="session")
def versions(pushed) -> Iterator[Any]:
    from fullpass.components.serving.versions import ServedVersions

    found = ServedVersions(pushed, tell=pytest.fail)
    yield found
    found.close()


@pytest.fixture
def api(versions) -> Iterator[Callable[..., Any]]:
    """Returns the function that makes the application, with a log or without."""
    from fullpass.components.serving.app import RequestLimits, RestApi

    made = []

    def make(limits: tuple[int, int] = (1 << 20, 100), **options: Any) -> RestApi:
        made.append(RestApi("trips", versions, RequestLimits(*limits), pytest.fail, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def ask(app: Any, *requests: tuple[str, str, Any], headers: dict[str, str] | None = None) -> list[httpx.Response]:
    """Sends requests at the same time: method, path, and a body as text, as bytes, or as what becomes JSON."""

    async def all_of_them() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://server", headers=headers) as client:
            sent = [
                client.request(method, path, **({"content": body} if isinstance(body, str | bytes) else {"json": body}))
                for method, path, body in requests
            ]
            return await asyncio.gather(*sent)

    return asyncio.run(all_of_them())
