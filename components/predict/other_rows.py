"""The other rows that rows to predict need: joined tables, and the events of histories, by the code of Ingest."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from fullpass.base.errors import UsageError, did_you_mean, listed, prefix_errors
from fullpass.components.ingest.config import BadRows, IngestConfig, RandomSplit, RecordsConfig
from fullpass.components.ingest.events_pass import with_histories
from fullpass.components.ingest.history.event_index import EventIndex
from fullpass.components.ingest.ingestion import ingestion_of
from fullpass.components.ingest.joins.build_index import build_index
from fullpass.components.ingest.joins.config import Join, left_columns
from fullpass.components.ingest.joins.join_index import JoinIndex, with_keys
from fullpass.components.ingest.joins.tables import Tables
from fullpass.components.ingest.spans.ingest_request import Request, SpanRequest
from fullpass.components.predict.input_source import input_files, input_source
from fullpass.components.predict.predict import Exported
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.config import in_order_of_keys
from fullpass.preprocessing.features.history import History, list_group
from fullpass.trainer.export.export_files import column_of


def with_tables(model: Exported, paths: Mapping[str, str], folder: str) -> Exported:
    """Returns a model whose inputs are joined with tables, if they lack the joined columns.

    Args:
        paths: Name of a join -> file, folder, glob or address of its table.
        folder: Folder for the sorted tables, which must exist while rows are predicted.

    Raises:
        UserError: The model has no such join, or a table cannot be read.
    """
    tables: list[JoinIndex] = []
    columns = with_keys({**_of_events(model), **model.columns}.values(), _keys(model))
    for name, path in paths.items():
        if name in model.lookups:
            raise UsageError(
                f"--join {name}={path}: the model contains this table (serve: lookup). Leave out --join {name}; "
                "`fullpass refresh` pushes the model with a new table."
            )
        if name not in model.joins:
            raise UsageError(
                f"--join {name}={path}: the model has no such join.{did_you_mean(name, model.joins)} Its joins: "
                f"{listed(list(model.joins)) or 'none'}."
            )
    for name in filter(paths.__contains__, in_order_of_keys(_keys_of_joins(model))):
        path = paths[name]
        how = input_source(model.joins[name]["source"], path, {})
        join = Join.model_validate({**model.joins[name], "source": how.source})
        found = Tables(tuple(input_files(how.source, path)))
        tables.append(build_index(name, join, found, columns.values(), model.most_bad, folder, how.text))
    return replace(model, tables=tables)


def with_events(model: Exported, paths: Mapping[str, str], folder: str) -> Exported:
    """Returns a model whose inputs get the lists of histories, if they lack them.

    The events are the rows of the given files, and no others: rows to predict see each other only if they are in them.

    Args:
        paths: Name of a history -> file, folder, glob or address of its events, read like the training data.
        folder: Folder for the sorted events, which must exist while rows are predicted.

    Raises:
        UserError: The model has no such history, or the events cannot be read.
    """
    declared = model.events.get("histories", {})
    found: list[EventIndex] = []
    for name, path in paths.items():
        if name not in declared:
            raise UsageError(
                f"--history {name}={path}: the model has no such history.{did_you_mean(name, declared)} Its histories: "
                f"{listed(list(declared)) or 'none'}."
            )
        how = input_source(model.source, path, {})
        config = IngestConfig(
            source=how.source,
            split=RandomSplit(method="random"),
            records=RecordsConfig(),
            bad_rows=BadRows(),
            derive=model.events["derive"],
            joins={table.name: table.join for table in model.tables},
            history={name: History.model_validate(declared[name])},
        )
        lists = [column for column in model.columns.values() if column.group == list_group(name)]
        span = SpanRequest(0, "", 0, "", tuple(input_files(how.source, path)))
        request = Request(config, (), (*lists, *_of_events(model).values()), gzip=False, spans=(span,))
        ingestion = replace(ingestion_of(request, span, folder), text_rules=how.text, joins=tuple(model.tables))
        with prefix_errors(f"--history {name}={path}"):
            (ingestion,) = with_histories([ingestion], request, f"{folder}/history-{name}", most_bad=model.most_bad)
        found += ingestion.histories
    return replace(model, histories=found)


def _keys(model: Exported) -> list[str]:
    histories = [History.model_validate(declared) for declared in model.events.get("histories", {}).values()]
    of_histories = [name for history in histories for name in (*history.keys, history.at)]
    return [*chain.from_iterable(_keys_of_joins(model).values()), *of_histories]


def _keys_of_joins(model: Exported) -> dict[str, tuple[str, ...]]:
    return {n: left_columns(join["on"], (join["as_of"] or {}).get("left")) for n, join in model.joins.items()}


def _of_events(model: Exported) -> dict[str, RawColumn]:
    return {column["name"]: column_of(column) for column in model.events.get("columns", ())}
