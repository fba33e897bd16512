"""The tests. Their folders mirror those of the packages."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
