"""The targets, one module per kind of file; see `tests/fuzz/__main__.py`."""
