"""The arguments and options that several commands take; the last by which they read rows otherwise than in training."""

from pathlib import Path
from typing import Annotated, Any, get_args

from typer import Argument, BadParameter, Option

from fullpass.base.errors import did_you_mean


def one_of(kind: str, literal: Any) -> dict[str, Any]:
    """Returns the arguments of an `Option` that accepts a value of a `Literal`; the shell completes it.

    Args:
        kind: What a value is, in the message about another.
    """
    names = get_args(literal)

    def parse(name: str) -> str:
        if name not in names:
            raise BadParameter(f'"{name}" is no {kind}.{did_you_mean(name, names)} Accepted: {", ".join(names)}.')
        return name

    def complete(start: str) -> list[str]:
        return [name for name in names if name.startswith(start)]

    return {"parser": parse, "metavar": "|".join(names), "autocompletion": complete}


USUAL = Path("pipeline.yaml")
"""The YAML that a command takes if none is given."""
File = Annotated[Path, Argument(metavar="FILE", help="The pipeline YAML.")]
NeededFile = Annotated[Path, Argument(metavar="FILE", help="The pipeline YAML.", show_default=False)]
NamedFile = Annotated[Path, Option("--file", "-f", metavar="FILE", help="The pipeline YAML.")]
Target = Annotated[
    Path, Argument(metavar="FILE|DIR", help="The pipeline YAML, or the folder that models are pushed to.")
]
Model = Annotated[
    Path, Argument(metavar="MODEL", help="A model's folder, the folder models are pushed to, or the YAML.")
]
Root = Annotated[Path | None, Option(help="Folder of the runs, instead of root of the YAML.")]
RunRoot = Annotated[Path | None, Option(help="Folder of artifacts, metadata and logs, instead of root of the YAML.")]
Json = Annotated[bool, Option("--json", help="Print JSON.")]
Format = Annotated[
    str | None,
    Option(
        "--format", metavar="FORMAT", help="Format of the rows: csv, tsv, jsonl, parquet ...", show_default="by name"
    ),
]
Separator = Annotated[str | None, Option(metavar="CHARACTER", help="Separator of the cells of a CSV file.")]
Columns = Annotated[str | None, Option(metavar="A,B,...", help="Column names of a CSV file that has no header line.")]
Header = Annotated[
    bool, Option("--header", help="The CSV file has a header line, although those of training had none.")
]
Missing = Annotated[
    list[str] | None,
    Option(metavar="TEXT", help="Text that means missing, instead of the texts of training; repeatable."),
]
Encoding = Annotated[str | None, Option(help="Encoding of a CSV or text file, such as latin-1.")]
Others = Annotated[
    list[str] | None,
    Option(metavar="KEY=VALUE", help="Any other key of data.source, with its value in YAML; repeatable."),
]
