"""The command `fullpass diagnose`, which measures the newest run: its input, or its features."""

import os
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from fullpass.base.errors import UsageError
from fullpass.base.json_text import to_json_text
from fullpass.pipeline import options
from fullpass.pipeline.authoring.checks.check import load_checked
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.diagnose.shorter_pipeline import check_place, write_pipeline
from fullpass.pipeline.printing import print_data, print_text
from fullpass.pipeline.startup import noise_to


def diagnose(
    file: options.File = options.USUAL,
    root: Annotated[Path | None, Option(help="Folder of the run, instead of root of the YAML.")] = None,
    seconds: Annotated[float, Option(min=10, help="Time for all measurements of the input.")] = 60.0,
    features: Annotated[bool, Option("--features", help="Measure the features instead; trains twice.")] = False,
    last: Annotated[
        int | None,
        Option(min=1, help="Features to leave out, with --features.", show_default="by the table, at most ten"),
    ] = None,
    write: Annotated[Path | None, Option(metavar="FILE", help="The shorter YAML to write, with --features.")] = None,
    as_json: options.Json = False,
) -> None:
    """Measure what slows the training of the newest run down and what to set; or what its features are worth."""
    if not features and (last is not None or write is not None):
        raise UsageError("--last and --write are options of --features. Add it.")
    loaded = load_checked(file)
    content, text = _features(loaded, root, last, write) if features else _input(loaded, root, seconds)
    if as_json:
        print_data(to_json_text(content, indent=2))
    else:
        print_text(text)


def _input(loaded: Loaded, root: Path | None, seconds: float) -> tuple[dict[str, Any], str]:
    with noise_to(Path(os.devnull)):
        from fullpass.pipeline.diagnose.diagnose import diagnose as diagnose_input
        from fullpass.pipeline.diagnose.diagnosis import diagnosis_json, diagnosis_lines

    found = diagnose_input(loaded, root=root, seconds=seconds, say=_say)
    return diagnosis_json(found), diagnosis_lines(found)


def _features(loaded: Loaded, root: Path | None, last: int | None, write: Path | None) -> tuple[dict[str, Any], str]:
    with noise_to(Path(os.devnull)):
        from fullpass.pipeline.diagnose.diagnose_features import diagnose_features, feature_lines, features_json

    if write is not None:
        check_place(loaded, write)
    found = diagnose_features(loaded, write or loaded.file, root=root, last=last, say=_say)
    text = feature_lines(found)
    if write is not None:
        write_pipeline(found.shorter)
        text += f"\nThe shorter YAML: {write}"
    return features_json(found), text


def _say(text: str) -> None:
    print_text(f"measuring {text}", err=True)
