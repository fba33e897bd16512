"""The trained exports of the tests of the trainer."""

from tests.trainer.conftest import exported, planted

__all__ = ["exported", "planted"]
