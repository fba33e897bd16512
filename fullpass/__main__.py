"""`python -m fullpass`: the command line."""

import sys

if not sys.flags.safe_path:
    # `python -m` searches the working directory first, where a module of the user's may have the name of a library.
    del sys.path[0]

from fullpass.pipeline.cli import main  # noqa: E402

main()
