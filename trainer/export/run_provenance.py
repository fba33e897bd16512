"""Facts of a run for its nodes: its id, configuration and code.

They are not parameters of nodes, because parameters are part of the cache key: a comment in the YAML would then retrain
every model.
"""

import json
import os
from pathlib import Path
from typing import Any

RUN_FACTS_VARIABLE = "FULLPASS_RUN_FACTS"
"""The environment variable with the path of the JSON file that contains these facts."""
TRAINING_FILE = "training.json"
"""The record of a training, in the folder of its model run."""


def read_run_facts() -> dict[str, Any]:
    """Returns `run`, `occasion` (why it was started), `config` (`hash` and `yaml`) and `code`; {} if there are none.

    A missing file does not fail a training, because it is stored with the logs, which may be removed at any time.
    """
    path = os.environ.get(RUN_FACTS_VARIABLE)
    if not path or not Path(path).is_file():
        return {}
    facts = json.loads(Path(path).read_text(encoding="utf-8"))
    return {
        "run": facts["run_id"] or None,
        "occasion": facts["occasion"],
        "config": facts["config"],
        "code": facts["code"],
    }
