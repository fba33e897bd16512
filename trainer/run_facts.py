"""What a run says of itself to its nodes: its id, configuration and code; and where a training tells of itself.

They travel beside the parameters of nodes: among those, a comment in the YAML would train every model anew.
"""

import json
import os
from pathlib import Path
from typing import Any

RUN_FACTS_VARIABLE = "FULLPASS_RUN_FACTS"
"""Environment variable: path of a JSON file."""
TRAINING_FILE = "training.json"
"""What a training says of itself, in the folder of its model run."""


def read_run_facts() -> dict[str, Any]:
    """Returns `run`, `config` (`hash` and `yaml`) and `code`; nothing where whoever started the node told nothing.

    No training fails for the lack of it: logs, where the file is, may be cleared away at any time.
    """
    path = os.environ.get(RUN_FACTS_VARIABLE)
    if not path or not Path(path).is_file():
        return {}
    return json.loads(Path(path).read_text(encoding="utf-8"))
