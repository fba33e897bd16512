"""Files of a pipeline with three nodes of the user: a check that may refuse the model, BulkInferrer, a container."""

import random
import shutil
from pathlib import Path

from tests import REPOSITORY

EXAMPLE = REPOSITORY / "examples" / "own_nodes"
_CONTAINER = """

Checksums = tfx.dsl.experimental.create_container_component(
    name="Checksums",
    image="busybox:1.36",
    inputs={"model": standard_artifacts.Model},
    outputs={"sums": standard_artifacts.String},
    parameters={"files": str},
    command=[
        "sh",
        "-c",
        'cd "$0" && find . -name "$1" -exec sha256sum {} + | sort -k 2 > "$2"',
        tfx.dsl.placeholders.input("model")[0].uri,
        tfx.dsl.placeholders.exec_property("files"),
        tfx.dsl.placeholders.output("sums")[0].uri,
    ],
)
"""


def write(folder: Path) -> None:
    """Writes pipeline.yaml, own_nodes.py and trips.csv: the example, with a container component beside its nodes."""
    shutil.copy(EXAMPLE / "pipeline.yaml", folder)
    module = (EXAMPLE / "own_nodes.py").read_text()
    module = module.replace("\n\ndef add(", f"{_CONTAINER}\n\ndef add(", 1)
    added = (
        '    sums = Checksums(model=nodes["Trainer"].outputs["model"], files="*.pb")\n    return {sums: ["Report"], '
    )
    (folder / "own_nodes.py").write_text(module.replace("    return {", added, 1))
    drawn = random.Random(5)
    rows = []
    for number in range(1_200):
        miles, payment = drawn.uniform(0, 10), drawn.choice(["card", "cash"])
        rows.append(f"{number},{miles:.2f},{payment},{int(drawn.random() < miles / 10)}")
    (folder / "trips.csv").write_text("trip_id,miles,payment,tipped\n" + "\n".join(rows) + "\n")
