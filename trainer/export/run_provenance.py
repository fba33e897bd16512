"""Facts of a run for its nodes: its id, configuration and code.

They travel beside the parameters of nodes: among those, a comment in the YAML would train every model anew.
"""

import json
import os
from pathlib import Path
from typing import Any

from fullpass.preprocessing.secrets.redact import redact_tree

RUN_FACTS_VARIABLE = "FULLPASS_RUN_FACTS"
"""The environment variable that holds the path of a JSON file."""
TRAINING_FILE = "training.json"
"""The record of a training, in the folder of its model run."""


def read_run_facts() -> dict[str, Any]:
    """Returns `run`, `config` (`hash` and `yaml`) and `code`; an empty dict if the run gave none.

    A missing file does not fail a training: it is among the logs, which may be removed at any time.
    """
    path = os.environ.get(RUN_FACTS_VARIABLE)
    if not path or not Path(path).is_file():
        return {}
    return redact_tree(json.loads(Path(path).read_text(encoding="utf-8")))
