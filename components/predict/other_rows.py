"""The other rows that rows to predict need: joined tables, and the events of histories, by the code of Ingest."""

from collections.abc import Collection, Mapping, Sequence
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
from fullpass.components.predict.exported import Exported
from fullpass.components.predict.input_rows import OtherRows
from fullpass.components.predict.input_source import input_files, input_source
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.config import in_order_of_keys
from fullpass.preprocessing.features.history import History, list_group
from fullpass.trainer.export.export_files import column_of


def other_rows(model: Exported, tables: Mapping[str, str], histories: Mapping[str, str], folder: str) -> OtherRows:
    """Returns the rows that complete inputs of a model that lack joined columns, or lists of histories.

    The events are the rows of the given files, and no others: rows to predict see each other only if they are in them.

    Args:
        tables: Name of a join -> file, folder, glob or address of its table.
        histories: Name of a history -> file, folder, glob or address of its events, read like the training data.
        folder: Folder for the sorted rows, which must exist while rows are predicted.

    Raises:
        UserError: The model has no such join or history, or its rows cannot be read.
    """
    for name in tables:
        if name in model.training.lookups:
            raise UsageError(
                f"--join {name}={tables[name]}: the model contains this table (serve: lookup). Leave out --join "
                f"{name}; `fullpass refresh` pushes the model with a new table."
            )
    _check_known("join", "joins", tables, model.training.joins)
    _check_known("history", "histories", histories, model.training.events.get("histories", {}))
    columns = with_keys({**_of_events(model), **model.columns}.values(), _keys(model))
    order = filter(tables.__contains__, in_order_of_keys(_keys_of_joins(model)))
    indexes = [_table(model, name, tables[name], columns.values(), folder) for name in order]
    events = [one for name, path in histories.items() for one in _events(model, name, path, indexes, folder)]
    return OtherRows(indexes, events)


def _check_known(kind: str, kinds: str, given: Mapping[str, str], known: Collection[str]) -> None:
    for name, path in given.items():
        if name not in known:
            raise UsageError(
                f"--{kind} {name}={path}: the model has no such {kind}.{did_you_mean(name, known)} Its {kinds}: "
                f"{listed(list(known)) or 'none'}."
            )


def _table(model: Exported, name: str, path: str, columns: Collection[RawColumn], folder: str) -> JoinIndex:
    declared = model.training.joins[name]
    how = input_source(declared["source"], path, {})
    join = Join.model_validate({**declared, "source": how.source})
    found = Tables(tuple(input_files(how.source, path)))
    return build_index(name, join, found, columns, model.training.most_bad, folder, how.text)


def _events(model: Exported, name: str, path: str, tables: Sequence[JoinIndex], folder: str) -> Sequence[EventIndex]:
    training = model.training
    how = input_source(training.source, path, {})
    config = IngestConfig(
        source=how.source,
        split=RandomSplit(method="random"),
        records=RecordsConfig(),
        bad_rows=BadRows(),
        derive=training.events["derive"],
        joins={table.name: table.join for table in tables},
        history={name: History.model_validate(training.events["histories"][name])},
    )
    lists = [column for column in model.columns.values() if column.group == list_group(name)]
    span = SpanRequest(0, "", 0, "", tuple(input_files(how.source, path)))
    request = Request(config, (), (*lists, *_of_events(model).values()), gzip=False, spans=(span,))
    ingestion = replace(ingestion_of(request, span, folder), text_rules=how.text, joins=tuple(tables))
    with prefix_errors(f"--history {name}={path}"):
        (ingestion,) = with_histories([ingestion], request, f"{folder}/history-{name}", most_bad=training.most_bad)
    return ingestion.histories


def _keys(model: Exported) -> list[str]:
    histories = [History.model_validate(declared) for declared in model.training.events.get("histories", {}).values()]
    of_histories = [name for history in histories for name in (*history.keys, history.at)]
    return [*chain.from_iterable(_keys_of_joins(model).values()), *of_histories]


def _keys_of_joins(model: Exported) -> dict[str, tuple[str, ...]]:
    return {n: left_columns(join["on"], (join["as_of"] or {}).get("left")) for n, join in model.training.joins.items()}


def _of_events(model: Exported) -> dict[str, RawColumn]:
    return {column["name"]: column_of(column) for column in model.training.events.get("columns", ())}
