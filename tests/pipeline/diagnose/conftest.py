"""The prepared rows of the tests of the trainer."""

from tests.trainer.conftest import planted

__all__ = ["planted"]
