"""A trained model that answers: `fullpass.open_model` and `Run.model` return it."""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fullpass.base.errors import UserError, listed
from fullpass.components.pages import notebook_html as html
from fullpass.components.portable.targets import Server, Target
from fullpass.pipeline.api.frames import Rows, as_arrow, concatenated, like, write_parquet
from fullpass.pipeline.authoring.loading.load import YAML_ENDINGS, Loaded
from fullpass.pipeline.printing import print_text
from fullpass.pipeline.registry.locate_model import find_export, lineage_at, pushed_to
from fullpass.pipeline.startup import set_notebook_environment

if TYPE_CHECKING:
    from fullpass.components.portable.export_portable import PortableComparison
    from fullpass.components.predict.explanation import Explanation
    from fullpass.components.predict.exported import Exported
    from fullpass.components.predict.predict import Predictions
    from fullpass.pipeline.registry.compare import Comparison
    from fullpass.pipeline.registry.compare_several import Comparisons
    from fullpass.pipeline.registry.evaluate import Evaluation


@dataclass(frozen=True)
class Model:
    """An exported model, loaded.

    Example:
        >>> model = fullpass.open_model("serving")
        >>> model.columns, model.classes
        ({'company': 'string', 'fare': 'number'}, ['0', '1'])
        >>> model.predict([{"fare": 30.0, "company": "Acme"}])["prediction"].to_pylist()
        ['1']

    Attributes:
        exported: The export, with the signature that is called.
    """

    exported: "Exported"

    @property
    def folder(self) -> Path:
        """Folder of the SavedModel."""
        return self.exported.directory

    known_as = folder
    """The path by which `find_model` finds it."""

    @property
    def columns(self) -> dict[str, str]:
        """Raw columns that the model reads, with their types."""
        return {name: f"{column.type}{', several' * column.many}" for name, column in self.exported.columns.items()}

    @property
    def classes(self) -> list[str]:
        """Class names; empty for regression."""
        return list(self.exported.classes)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the export says of itself: columns, label, source, and where it was trained."""
        from fullpass.components.predict.exported import describe_export

        return describe_export(self.folder)[1]

    @property
    def lineage(self) -> Mapping[str, Any]:
        """The lineage of the model, like `fullpass lineage --json`.

        Raises:
            UserError: It was not recorded.
        """
        return lineage_at(self.folder).lineage

    def predict(self, rows: Rows, **read_as: Any) -> Any:
        """Returns rows with `prediction`, `probability_<class>` per class, and `bad_row`, like `fullpass predict`.

        Args:
            rows: A table in memory, or the path of a file, folder or glob. An absent column counts as missing, and is
                named on standard error. Rows of a list of dicts may differ in types, as JSON lines may.
            read_as: Keys of `data.source` that differ from those of the model's training data; only for files.

        Returns:
            A pandas or polars DataFrame if the rows are one, with the index and the column types of the rows; else an
            Arrow table.

        Raises:
            UserError: The rows cannot be read, or none of them can be used.
        """
        return self._predicted(rows, read_as, explained=False)[0]

    def explain(self, rows: Rows, **read_as: Any) -> "Explanation":
        """Explains predictions, like `fullpass predict --explain --page`; a notebook shows a picture per row.

        Its `rows` are what `predict` returns, with `base` and columns `effect_<column>`, which add up to the score: a
        regression's prediction, or the probability of class 1 or of the likeliest class. An effect is by how much a
        column moved the score of its row from `base`, the score if every column is missing.
        """
        predicted, predictions = self._predicted(rows, read_as, explained=True)
        return predictions.explanation(predicted)

    def _predicted(self, rows: Rows, read_as: Mapping[str, Any], *, explained: bool) -> "tuple[Any, Predictions]":
        from fullpass.components.predict.predict import predict_table, predict_tables

        if isinstance(rows, Path | str):
            predictions = predict_tables(self.exported, str(rows), read_as, explained=explained)
            predicted = concatenated(predictions)
        elif read_as:
            raise UserError(f"{listed(read_as)}: settings by which files are read. These rows are in memory.")
        else:
            predictions = predict_table(self.exported, as_arrow(rows, row_by_row=True), explained=explained)
            predicted = like(rows, pa.concat_tables(predictions), given=list(map(str, getattr(rows, "columns", ()))))
        for line in predictions.tally.notes():
            print_text(line, err=True)
        return predicted, predictions

    def evaluate(self, rows: Rows, **read_as: Any) -> "Evaluation":
        """Measures the model on labelled rows with the metrics, intervals and slices of the Evaluator.

        Args:
            rows, read_as: As in `predict`.

        Raises:
            UserError: The rows cannot be read, or none of them has a usable label.
        """
        return evaluate(str(self.folder), rows, read_as)

    def compare(self, *others: Any, rows: Rows = None, **read_as: Any) -> "Comparison | Comparisons":
        """Compares the model with others, like `fullpass compare`: settings and data, metrics and slices.

        Args:
            others: Models, runs, pipelines or their YAMLs (their newest run), or folders. One gives a `Comparison`,
                several give the `pairs` of this model with each, on the rows that all have.
            rows: Labelled rows as in `predict`; None takes those of the eval split.

        Raises:
            UserError: There is no such model, or the rows cannot be read.
        """
        return compare(str(self.folder), others, rows, read_as)

    def export(
        self, to: Target, out: Path | str, rows: Path | str | None = None, *, server: Server = "tensorflow"
    ) -> "PortableComparison | None":
        """Writes the model for LiteRT or ONNX Runtime, if it answers like the SavedModel, or as a container image.

        It is `fullpass export`. Of an image it writes the folder to build it from, and returns None.

        Args:
            out: The folder to write; it must not exist.
            rows: File of raw rows to compare on; None takes the eval split of its run.
            server: What answers in an image.

        Raises:
            UserError: The model has no such form, it answers differently, or the rows of its run are gone.
        """
        if to == "image":
            from fullpass.components.portable.write_image import write_image

            write_image(self.folder, Path(out), server, rows)
            return None
        from fullpass.pipeline.registry.write_portable import write_portable

        return write_portable(self.exported, to, Path(out), None if rows is None else str(rows))

    def _repr_html_(self) -> str:
        answers = {"classes": self.classes, "quantiles": [f"{level:g}" for level in self.exported.levels]}
        facts = [("folder", self.folder), *((name, listed(values)) for name, values in answers.items())]
        return html.block("Model", html.facts(facts), html.table(("column", "type"), self.columns.items()))


def open_model(model: Loaded | Path | str, *, version: int | None = None, warm: bool = False) -> Model:
    """Loads an exported model by its own folder, by its push folder (the served version), or by the pipeline YAML.

    Example:
        >>> fullpass.open_model("serving").classes
        ['0', '1']

    Args:
        model: The folder, the YAML, or the pipeline.
        version: A version in the push folder, instead of the served one.
        warm: Whether to predict a row first, so that the first answer comes as fast as later ones.

    Raises:
        UserError: There is no such model, or Fullpass did not write it.
    """
    set_notebook_environment()
    from fullpass.components.predict.exported import load_export

    place = Path(model.file if isinstance(model, Loaded) else model).absolute()
    exported = load_export(pushed_to(place) if version is None else find_export(str(version), place))
    if warm:
        exported.warm_up()
    return Model(exported)


def evaluate(model: str, rows: Rows, read_as: Mapping[str, Any]) -> "Evaluation":
    """Measures a model, named as `find_model` names it; see `Model.evaluate`."""
    set_notebook_environment()
    from fullpass.pipeline.registry.evaluate import evaluate_model

    with ExitStack() as stack:
        data, how = _labelled(stack, rows, read_as)
        found = evaluate_model(model, data, Path(), how)
    return found if isinstance(rows, Path | str) else replace(found, data="the table")


def compare(model: str, others: Sequence[Any], rows: Rows, read_as: Mapping[str, Any]) -> "Comparison | Comparisons":
    """Compares a model, named as `find_model` names it, with others; see `Model.compare`."""
    set_notebook_environment()
    from fullpass.pipeline.registry.compare_several import compare_several

    if not others:
        raise UserError("compare: no other model is given. Accepted: models, runs, pipelines, YAMLs, folders.")
    with ExitStack() as stack:
        data, how = (None, read_as) if rows is None else _labelled(stack, rows, read_as)
        found = compare_several(model, [_name(other) for other in others], Path(), data, how)
    if rows is not None and not isinstance(rows, Path | str):
        found = replace(found, pairs=tuple(replace(pair, rows="the table") for pair in found.pairs))
    return found if len(others) > 1 else found.pairs[0]


def _name(model: Any) -> str:
    known_as = model.file if isinstance(model, Loaded) else getattr(model, "known_as", None)
    if known_as is not None:
        return str(known_as)
    if isinstance(model, Path | str) and (Path(model).is_dir() or Path(model).suffix in YAML_ENDINGS):
        return str(model)
    raise UserError(
        f"Received: {model!r:.100}. Accepted: a model, a run, a pipeline, or the path of a YAML or of a model's "
        "folder. fullpass.open_model(FILE, version=N) opens a version, and pipeline.runs()[ID] is a run."
    )


def _labelled(stack: ExitStack, rows: Rows, read_as: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Returns the path of labelled rows and how to read them; rows in memory become a temporary file."""
    if isinstance(rows, Path | str):
        return str(rows), read_as
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    return str(write_parquet(rows, Path(folder))), {"format": "parquet"}
