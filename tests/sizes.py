"""The weight of the project: statements per room and per capability, and files per commit, as `make sizes` prints them.

A statement is one of the syntax tree; docstrings are none. So neither merged lines nor long names make a file lighter.
"""

import ast
import statistics
import subprocess
from collections import Counter
from pathlib import Path

from tests import REPOSITORY
from tests.source_tree import LAYERS, folder_circles, parsed, source_files

AIMS = {"source": 40_000, "tests": 30_000}
"""Statements at most for all that is planned."""
COMMITS = 100
"""The commits whose files are counted: about a week of work, so that one large commit does not move the median."""

CAPABILITIES: dict[str, tuple[int, tuple[str, ...]]] = {
    "init": (1_849, ("pipeline/authoring/init/", "pipeline/authoring/derived_columns")),
    "profile of data": (2_425, ("pipeline/authoring/profile/",)),
    "page of the data": (478, ("pipeline/authoring/data_page/",)),
    "check --data": (766, ("pipeline/authoring/data_check/",)),
    "rules of check": (1_322, ("pipeline/authoring/checks/",)),
    "YAML, messages, schema, reference": (
        1_220,
        ("pipeline/authoring/", "pipeline/config", "pipeline/schedule_config", "pipeline/reference/"),
    ),
    "digest of user code": (150, ("pipeline/authoring/user_code",)),
    "readers": (2_630, ("components/ingest/readers/",)),
    "sources, spans, split, write, account": (2_816, ("components/ingest/",)),
    "joins, histories, forecasts": (740, ("components/ingest/joins/", "components/ingest/history/")),
    "statistics, data gate": (
        1_360,
        ("components/statistics/", "components/data_gate/", "components/declared_schema"),
    ),
    "features, dates, graph, values": (4_730, ("preprocessing/",)),
    "expressions": (790, ("preprocessing/expressions/",)),
    "analysis, Transform, cache": (
        1_460,
        ("preprocessing/analysis/", "components/transform/", "components/accumulate", "components/read_records"),
    ),
    "records, input, data service": (1_855, ("trainer/records/", "trainer/input/")),
    "networks, loop": (3_644, ("trainer/",)),
    "trees, linear, insight": (1_634, ("trainer/trees/", "trainer/linear/", "trainer/insight/")),
    "tuning": (330, ("trainer/tuning/", "components/tuning/")),
    "export": (483, ("trainer/export/",)),
    "export for small devices, as an image": (980, ("trainer/portable/", "components/portable/")),
    "evaluation": (2_444, ("components/evaluation/",)),
    "parity, serving check, push": (887, ("components/parity/", "components/serving_check/", "components/push/")),
    "predict": (948, ("components/predict/",)),
    "serve": (970, ("components/serving/", "components/serving_log/", "pipeline/serving/")),
    "report, pages": (954, ("components/report/", "components/pages/")),
    "compare, evaluate, refresh": (
        753,
        (
            "pipeline/registry/compare",
            "pipeline/registry/evaluate",
            "pipeline/registry/refresh",
            "pipeline/registry/score_models",
        ),
    ),
    "runs, models, bless, lineage": (665, ("pipeline/registry/",)),
    "gc": (275, ("pipeline/registry/retention/",)),
    "diagnose": (920, ("pipeline/diagnose/",)),
    "schedule": (860, ("pipeline/scheduling/",)),
    "MLflow, notify": (310, ("pipeline/running/tracking/", "pipeline/record/notifications")),
    "runner": (1_380, ("pipeline/running/",)),
    "own nodes, components for TFX": (
        524,
        (
            "pipeline/running/own_nodes",
            "pipeline/running/tfx_components",
            "components/container_node",
            "components/training/",
            "components/evaluation/own_checks",
            "components/evaluation/measure/other_model",
        ),
    ),
    "record of a run": (761, ("pipeline/record/",)),
    "shared by the nodes": (160, ("components/",)),
    "Python API": (722, ("pipeline/api/",)),
    "CLI, root": (746, ("pipeline/", "fullpass/__")),
    "ground floor": (740, ("fullpass/base/",)),
    "secrets": (100, ("fullpass/base/redact", "fullpass/base/secret_formats")),
    "watch": (1_630, ("components/watch/", "pipeline/watching/")),
    "Kubeflow": (3_168, ("kubeflow/",)),
}
"""Capability -> its ceiling in statements, and what the paths of its files begin with.

A file belongs to the row with the longest beginning that fits. A change that makes a row heavier raises its ceiling
here, so that it says which capability grew; one that makes it lighter lowers the ceiling.
"""


def statements(path: Path) -> int:
    """Returns the number of statements of a Python file without its docstrings."""
    nodes = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.stmt)]
    return sum(not _is_text(node) for node in nodes)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def source() -> list[Path]:
    """Returns the source files of all packages."""
    start = [REPOSITORY / "fullpass" / name for name in ("__init__.py", "__main__.py")]
    return [*start, *(path for package in LAYERS for path in source_files(package))]


def rows_of(path: Path) -> list[str]:
    """Returns the capabilities that a source file belongs to; it should be one."""
    name = path.relative_to(REPOSITORY).as_posix()
    fitting = [
        (len(beginning), row)
        for row, (_, beginnings) in CAPABILITIES.items()
        for beginning in beginnings
        if name.startswith(beginning)
    ]
    return [row for length, row in fitting if length == max(fitting)[0]]


def weights() -> Counter[str]:
    """Returns capability -> the statements of its files."""
    found: Counter[str] = Counter()
    for path in source():
        for row in rows_of(path):
            found[row] += statements(path)
    return found


def _rooms() -> Counter[str]:
    """Returns room, which is a folder of a package or the package itself, -> statements."""
    found: Counter[str] = Counter()
    for path in source():
        parts = path.relative_to(REPOSITORY).parts
        found["/".join(parts[:2]) if len(parts) > 2 else parts[0]] += statements(path)
    return found


def _files_per_commit() -> str:
    """Returns the median and the ninth decile of the files of the newest commits; empty where git or they are not."""
    command = ["git", "-C", str(REPOSITORY), "log", f"-{COMMITS}", "--no-merges", "--name-only", "--format=%x00"]
    try:
        log = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
    counts = [len(commit.split()) for commit in log.split("\0")[1:]]
    if len(counts) < 2:
        return ""
    p90 = statistics.quantiles(counts, n=10, method="inclusive")[-1]
    return f"files per commit, last {len(counts)}: median {statistics.median(counts):.0f}, p90 {p90:.0f}"


def sizes() -> str:
    """Returns the tables of rooms and capabilities, the totals with their aims, files per commit, and the circles."""
    rooms = [f"{room:<40} {size:>7,}" for room, size in _rooms().most_common()]
    capabilities = [
        f"{row:<40} {size:>7,}   ceiling {CAPABILITIES[row][0]:>7,}" for row, size in weights().most_common()
    ]
    totals = {
        "source": sum(map(statements, source())),
        "tests": sum(map(statements, sorted((REPOSITORY / "tests").rglob("*.py")))),
    }
    aims = [f"{name:<40} {size:>7,}   aim     {AIMS[name]:>7,}" for name, size in totals.items()]
    pages = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    words = (word for page in pages for word in page.read_text(encoding="utf-8").split())
    # The bars and rules of tables are no words.
    aims.append(f"{'words of docs':<40} {sum(any(map(str.isalnum, word)) for word in words):>7,}")
    circles = [f"circle: {circle}" for circle in folder_circles() or ["none"]]
    tables = {"statements of rooms": rooms, "statements of capabilities": capabilities, "all": aims}
    shown = [line for title, lines in tables.items() for line in (title, *(f"  {line}" for line in lines), "")]
    return "\n".join([*shown, *filter(None, [_files_per_commit()]), *circles])


if __name__ == "__main__":
    print(sizes())
