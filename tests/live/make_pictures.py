"""`make pictures`: runs the taxi example and the notebook, and draws the pictures of the README and the docs."""

import fcntl
import io
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from PIL import Image
from rich.console import Console
from rich.text import Text

from tests import REPOSITORY
from tests.live.browser import Page, find_chromium, open_browser

FOLDER = REPOSITORY / "docs" / "pictures"
COLUMNS, LINES = 104, 70
TRIPS = "package:tfx/examples/chicago_taxi_pipeline/data/simple/data.csv"
REPORTS = {"payment_type": "report-classes.png", "fare": "report-regression.png"}
"""Labels of the trips, and the pictures of their untouched models' reports."""
CHANGES = (("epochs: 10", "epochs: 3"), ("dropout: 0.1", "dropout: 0"), ("kind: wide_deep", "kind: mlp"))
"""What is changed in the taxi example before each further run of the page of its root."""
LARGEST_BYTES = 300_000
_NOTEBOOK_STYLE = (
    "body{font:14px sans-serif;margin:16px} .jp-InputArea,.input_area{background:#f3f3f3;padding:4px 8px;margin:10px 0}"
    " pre{margin:0} .jp-InputPrompt,.jp-OutputPrompt,.prompt,.anchor-link{display:none}"
)
_CONTROL = re.compile(r"(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)")


def run_in_terminal(command: list[str]) -> str:
    """Returns the output of a command in a terminal of this size, including its errors.

    Raises:
        RuntimeError: The command failed.
    """
    here, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=env)
    os.close(terminal)
    written = io.BytesIO()
    try:
        while chunk := os.read(here, 1 << 16):
            written.write(chunk)
    except OSError:
        pass  # Linux reports the end of a terminal by this error.
    finally:
        os.close(here)
    text = written.getvalue().decode(errors="replace")
    if process.wait() != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{text}")
    return text


def final_screen(output: str) -> list[str]:
    """Returns the final lines of a terminal, with colors as escape sequences.

    It supports the sequences of rich's live display, which clears and rewrites whole lines.
    """
    lines, row = [""], 0
    for part in _CONTROL.split(output):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part.endswith("A") and part.startswith("\x1b["):
            row -= int(part[2:-1] or 1)
        elif part == "\x1b[2K":
            lines[row] = ""
        elif part != "\r" and not (part.startswith("\x1b[") and not part.endswith("m")):
            lines[row] += part
    return lines


def draw_terminal(page: Page, lines: list[str], title: str, path: Path) -> None:
    """Draws lines as the picture of a terminal window."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in lines:
        console.print(Text.from_ansi(line), soft_wrap=True, highlight=False)
    # The style sheet would load a web font; the browser's own monospaced font is used instead.
    svg = re.sub(r"@font-face\s*{.*?}", "", console.export_svg(title=title), flags=re.DOTALL)
    html = f"<!DOCTYPE html><body style='margin:0;background:transparent'>{svg}</body>"
    with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as file:
        file.write(html)
        file.flush()
        page.show(Path(file.name).as_uri(), width=1000)
        height = page.evaluate("Math.ceil(document.querySelector('svg').getBoundingClientRect().height)")
        page.screenshot(path, height=height)


def draw_notebook(page: Page, folder: Path, path: Path) -> None:
    """Draws the example notebook after its cells ran in a folder."""
    notebook = nbformat.read(REPOSITORY / "examples" / "notebook" / "trips.ipynb", 4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    # The usual template would load scripts from the internet.
    body, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    file = folder / "notebook.html"
    body = body.replace(str(folder), "~/taxi")
    file.write_text(f"<!DOCTYPE html><meta charset=utf-8><style>{_NOTEBOOK_STYLE}</style>{body}", encoding="utf-8")
    page.show(file.as_uri(), width=1000)
    page.screenshot(path, height=1200)


def draw_report(page: Page, fullpass: list[str], label: str, folder: Path, path: Path) -> None:
    """Draws the report of the model that `init` and `run` make for a label of the trips."""
    made = folder / label / "pipeline.yaml"
    made.parent.mkdir()
    subprocess.run([*fullpass, "init", TRIPS, "--label", label, "-o", str(made)], check=True)
    subprocess.run([*fullpass, "run", str(made)], check=False)  # a model that is refused has a report too
    report = next(made.parent.glob("runs/*/Report/report/*/report.html"))
    draw_page(page, report, path, height=1600, folder=folder, shown="~")


def draw_page(page: Page, file: Path, path: Path, *, height: int, folder: Path, shown: str = "~/taxi") -> None:
    """Draws the top of a page, in which another name is shown for the folder of the run."""
    file.write_text(file.read_text(encoding="utf-8").replace(str(folder), shown), encoding="utf-8")
    page.show(file.as_uri(), width=1000)
    page.draw_charts()
    page.screenshot(path, height=height)


def shrink(path: Path) -> None:
    """Reduces a picture to 256 colors, which takes less than half of the size and looks the same."""
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    size = path.stat().st_size
    if size > LARGEST_BYTES:
        raise RuntimeError(f"{path} has {size:,} bytes, more than {LARGEST_BYTES:,}.")
    print(f"{path.relative_to(REPOSITORY)}: {size:,} bytes")


def main() -> None:
    program = find_chromium()
    if program is None:
        sys.exit("No Chromium on PATH. Install it ('apt install chromium'), or give CHROMIUM=PROGRAM.")
    FOLDER.mkdir(exist_ok=True)
    fullpass = [sys.executable, "-m", "fullpass"]
    with tempfile.TemporaryDirectory(prefix="t") as folder, open_browser(program) as page:
        yaml = Path(folder) / "pipeline.yaml"
        shutil.copy(REPOSITORY / "examples" / "taxi" / "pipeline.yaml", yaml)
        output = run_in_terminal([*fullpass, "run", str(yaml)]).replace(folder, "~/taxi")
        lines = final_screen(output)
        while not lines[-1].strip():
            del lines[-1]
        draw_terminal(page, lines, "fullpass run pipeline.yaml", FOLDER / "run.png")

        report = next(Path(folder).glob("runs/taxi/Report/report/*/report.html"))
        draw_page(page, report, FOLDER / "report.png", height=1500, folder=Path(folder))
        data = Path(folder) / "data.html"
        subprocess.run([*fullpass, "check", str(yaml), "--data", "--page", str(data)], check=True)
        draw_page(page, data, FOLDER / "data.png", height=1500, folder=Path(folder))
        page.show(report.as_uri(), width=390, phone=True, dark=True)
        page.draw_charts()
        page.screenshot(FOLDER / "report-phone.png", height=1000)

        other = yaml.with_name("without_company.yaml")
        text = yaml.read_text(encoding="utf-8").replace("name: taxi", "name: without-company", 1)
        text = text.replace("to: serving", "to: others")
        kept = [line for line in text.splitlines(keepends=True) if "company:" not in line and "company_" not in line]
        other.write_text("".join(kept), encoding="utf-8")
        subprocess.run([*fullpass, "run", str(other)], check=True)
        comparison = Path(folder) / "comparison.html"
        compared = ["compare", str(yaml), str(other), "--page", str(comparison)]
        subprocess.run([*fullpass, *compared], check=True)
        draw_page(page, comparison, FOLDER / "comparison.png", height=1000, folder=Path(folder))
        for old, new in CHANGES:
            yaml.write_text(yaml.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
            subprocess.run([*fullpass, "run", str(yaml)], check=False)  # a worse model is refused
        draw_page(
            page, Path(folder) / "runs" / "taxi" / "index.html", FOLDER / "runs.png", height=2000, folder=Path(folder)
        )
        draw_notebook(page, Path(folder), FOLDER / "notebook.png")
        for label, name in REPORTS.items():
            draw_report(page, fullpass, label, Path(folder), FOLDER / name)
    for name in (
        "run.png",
        "report.png",
        "report-phone.png",
        "data.png",
        "comparison.png",
        "runs.png",
        "notebook.png",
        *REPORTS.values(),
    ):
        shrink(FOLDER / name)


if __name__ == "__main__":
    main()
