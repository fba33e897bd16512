"""The options by which a command reads rows otherwise than the training data was read."""

from typing import Annotated

from typer import Option

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
