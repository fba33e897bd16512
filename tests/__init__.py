"""The tests, in folders that mirror the packages."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
