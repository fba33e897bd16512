"""The served model of the tests of the server."""

from tests.components.serving.conftest import api, exported, planted, pushed, versions

__all__ = ["api", "exported", "planted", "pushed", "versions"]
