"""Defaults of `init` and `check --data`, which the command line, the Python API and the code behind them share."""

SAMPLE_ROWS = 20_000
"""Rows of the data to look at."""
SEARCH_SECONDS = 20.0
"""Processor seconds of a search of representations, about."""
FEWEST_SEARCHED = 2_000
"""Labelled rows from which on a search pays: below, trees of a run are chosen by folds, which target means prevent."""
