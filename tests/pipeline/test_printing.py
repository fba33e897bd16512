"""What commands print is never read as markup, and never reaches a terminal as a command to it."""

import ast
import io
from collections.abc import Iterator

import pytest
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from fullpass.pipeline import printing
from fullpass.pipeline.printing import plain
from tests.source_tree import trees

WILD = ("[/red]", "[red]x[/]", "[link=http://x]y[/link]", "[", "\\[b]", ":bug:", "[@click=quit]z", "[/b]x", "[[]]")
ROUND_IT = {"Console", "get_console", "print_json", "from_markup", "render_markup", "rich_print", "secho", "inspect"}
"""Names by which text reaches rich or a stream without `printing`."""
ALLOWED = {
    ("pipeline/printing.py", "typer.echo"),  # print_text and print_data
    # Answers of one process to another, as JSON, and the text of a lock file: no person reads them.
    ("pipeline/scheduling/drift.py", "sys.stdout.write"),
    ("pipeline/running/tracking/record_in_mlflow.py", "sys.stdout.write"),
    ("components/serving_check/probe.py", "sys.stdout.write"),
    ("kubeflow/image_requirements.py", "sys.stdout.write"),
    # From the probe into the log of a node.
    ("components/serving_check/component.py", "sys.stderr.write"),
}


def calls_that_print(tree: ast.Module) -> Iterator[str]:
    """Yields the name of every call in a file that prints past `printing`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        last = name.rpartition(".")[2]
        if name in ("print", "typer.echo", "click.echo", "rich.print") or last in ROUND_IT:
            yield name
        if name in ("sys.stdout.write", "sys.stderr.write", "sys.__stdout__.write"):
            yield name
        if any(keyword.arg in ("markup", "emoji") for keyword in node.keywords):
            yield f"{name}(markup=)"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("print(x)", ["print"]),
        ("from rich.console import Console\nConsole(file=f)", ["Console"]),
        ("import rich.console\nrich.console.Console()", ["rich.console.Console"]),
        ("typer.echo(x)", ["typer.echo"]),
        ("Text.from_markup(x)", ["Text.from_markup"]),
        ("console.print(x, markup=True)", ["console.print(markup=)"]),
        ("console.print(x)\nsay(x)\nTable(title=x)", []),
    ],
)
def test_what_prints_past_the_one_way_is_found(source, found):
    assert list(calls_that_print(ast.parse(source))) == found


@pytest.mark.integration
def test_everything_is_printed_in_the_one_way():
    may_print = "|".join(["print", "echo", r"\.write", "markup", "emoji", *ROUND_IT])
    assert {(path, call) for path, tree in trees(may_print) for call in calls_that_print(tree)} == ALLOWED


def printed(what, **options) -> str:
    file = io.StringIO()
    printing.console(file, **options).print(what)
    return file.getvalue()


@pytest.mark.parametrize("wild", WILD)
def test_no_string_is_markup_wherever_it_stands(wild):
    table = Table(title=wild, caption=wild)
    table.add_column(wild, footer=wild)
    table.add_row(wild)
    tree = Tree(wild)
    tree.add(wild)
    assert printed(table).count(wild) == 4
    assert printed(tree).count(wild) == 2
    assert printed(wild) == wild + "\n" == printed(Text(wild))


@pytest.mark.parametrize("harm", ["\x1b[2J", "\x9b31m", "\x1b]0;title\x07", "\u202egpj.exe", "a\rb", "\x00", "\udcff"])
def test_nothing_reaches_a_terminal_as_a_command(harm, capsys):
    printing.print_text(harm)
    table = Table(title=harm)
    table.add_row(harm, Text(harm))
    for text in (capsys.readouterr().out, printed(table), printed(table, force_terminal=True, color_system=None)):
        assert not {"\x1b", "\x9b", "\x07", "\x00", "\r", "\u202e", "\udcff"} & set(text)
        text.encode("utf-8")


def test_plain_text_stays_as_it_is():
    text = "Zürich\t3 °C\n日本語 🙂 [ok] \\x1b"
    assert plain(text) == text


def test_colours_of_our_own_stay():
    assert "\x1b[31m" in printed(Text("bad", style="red"), force_terminal=True, color_system="standard")
