"""Reads TFRecord files of a user-defined protocol buffer message, by its descriptors."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from fullpass.base.errors import UserError, did_you_mean
from fullpass.components.ingest.readers.objects import array_of
from fullpass.components.ingest.readers.readable import check_columns, readable
from fullpass.components.ingest.readers.reader import Reader
from fullpass.components.ingest.readers.rows import Reading, Rows, numbered_batches, select_rows
from fullpass.components.ingest.readers.tfrecord import parsed_messages
from fullpass.components.ingest.sources.config import ProtoSource
from fullpass.components.ingest.sources.files import Resolve, SourceFile, nearby
from fullpass.components.ingest.sources.storage import find, open_binary, open_raw
from fullpass.trainer.records.frames import read_frames

_WRAPPED = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
_WELL_KNOWN: dict[str, Callable[[Any], Any]] = {
    **{f"google.protobuf.{kind}Value": lambda message: message.value for kind in _WRAPPED},
    "google.protobuf.Timestamp": lambda message: message.ToDatetime(),
    "google.protobuf.Duration": lambda message: message.ToTimedelta(),
}


class ProtoReader(Reader[ProtoSource]):
    """Records are numbered from 1; gzip is recognized by the file's first bytes."""

    def __init__(self, file: SourceFile, source: ProtoSource):
        super().__init__(file, source)
        self._descriptor = find_message(file.address, source.message)
        self._fields = source.fields

    @classmethod
    def inputs(cls, source: ProtoSource, resolve: Resolve) -> list[SourceFile]:
        """Returns the files with the path of their descriptors, whose version is a part of each file's version."""
        files = super().inputs(source, resolve)
        descriptors = find(path := resolve(source.descriptor_set))
        if len(descriptors) != 1:
            raise UserError(
                f"data.source.descriptor_set: {source.descriptor_set!r} is no file.{nearby(path)} Looked for: {path}."
            )
        version = f"{descriptors[0].size} {descriptors[0].version}"
        return [replace(file, version=f"{file.version} {version}", address=path) for file in files]

    def columns(self) -> list[str]:
        """Fields of inner messages are `a.b`. Keys of maps are omitted: only rows contain them."""
        return list(dict.fromkeys([*self._fields, *_names(self._descriptor, "", ())]))

    def rows(self, reading: Reading) -> Iterator[Rows]:
        paths = {column: _path(self._descriptor, self._fields.get(column, column)) for column in reading.columns}
        unknown = [column for column, path in paths.items() if path is None]
        if unknown:
            check_columns(self._path, unknown, self.columns())
        others = self.columns() if reading.all_columns else ()
        paths |= {name: _path(self._descriptor, self._fields.get(name, name)) for name in others}
        kind = message_factory.GetMessageClass(self._descriptor)
        with readable(self._path, reading), open_binary(self._path) as stream:
            for batch, numbers in numbered_batches(read_frames(stream), len):
                messages, kept = parsed_messages(kind, batch, numbers, reading, self._descriptor.full_name)
                columns = [array_of([path.value(m) for m in messages]) for path in paths.values() if path]
                yield select_rows(pa.table(columns, names=list(paths)), kept, reading)


def find_message(descriptor_set: str, name: str) -> Descriptor:
    """Returns a message's descriptor.

    Args:
        name: Name of the message, with its package.

    Raises:
        UserError: The file is no FileDescriptorSet, lacks an imported file, or has no such message.
    """
    try:
        with open_raw(descriptor_set) as stream:
            files = descriptor_pb2.FileDescriptorSet.FromString(stream.read()).file
    except (OSError, DecodeError) as error:
        raise UserError(
            f"data.source.descriptor_set: {descriptor_set} cannot be read as a FileDescriptorSet: {error}. "
            "Write it with `protoc --include_imports --descriptor_set_out=FILE`."
        ) from error
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in files:
            pool.Add(file)
        return pool.FindMessageTypeByName(name)
    except KeyError:
        known = [full for file in files for full in _messages(file.message_type, file.package)]
    except TypeError as error:
        raise UserError(
            f"data.source.descriptor_set: {descriptor_set} lacks a file that it imports: {error}. "
            "Write it with `protoc --include_imports`."
        ) from error
    raise UserError(
        f'data.source.message: {descriptor_set} has no message "{name}".{did_you_mean(name, known)} '
        f"Its messages: {', '.join(known)}."
    )


@dataclass(frozen=True)
class _Path:
    """A path from a message to a value: a sequence of fields and of keys of maps."""

    path: tuple[FieldDescriptor | Any, ...]

    @property
    def is_list(self) -> bool:
        """Whether a field on the path is repeated."""
        return any(_is_repeated(field) for field in self.path if isinstance(field, FieldDescriptor))

    def value(self, message: Message) -> Any:
        """Returns the value, None if it is not set. If a field is repeated, returns one list across all messages."""
        values = list(_walk(message, self.path))
        return values if self.is_list else next(iter(values), None)


def _walk(value: Any, path: tuple[Any, ...]) -> Iterator[Any]:
    if not path:
        yield value
        return
    field, rest = path[0], path[1:]
    if not isinstance(field, FieldDescriptor):  # the key of a map
        if field in value:
            yield from _walk(_leaf(value[field], rest[0]), rest[1:])
    elif field.has_presence and not value.HasField(field.name):
        return
    elif _is_map(field):
        yield from _walk(getattr(value, field.name), rest)
    else:
        inner = getattr(value, field.name)
        for item in inner if _is_repeated(field) else (inner,):
            yield from _walk(_leaf(item, field), rest)


def _leaf(value: Any, field: FieldDescriptor) -> Any:
    """Returns an enum value's name, or its number if it has no name; the plain value of a well-known message."""
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else str(value)
    if field.message_type is not None and field.message_type.full_name in _WELL_KNOWN:
        return _WELL_KNOWN[field.message_type.full_name](value)
    return value


def _path(descriptor: Descriptor, name: str) -> _Path | None:
    """Returns the path of a dotted name, or None if there is no such field or the field is a message."""
    path: list[Any] = []
    inner: Descriptor | None = descriptor
    parts = name.split(".")
    while parts:
        field = inner.fields_by_name.get(parts.pop(0)) if inner is not None else None
        if field is None:
            return None
        path.append(field)
        if _is_map(field):
            if not parts:
                return None
            kinds = field.message_type.fields_by_name
            key = parts.pop(0)
            path += [key if kinds["key"].cpp_type == FieldDescriptor.CPPTYPE_STRING else int(key), kinds["value"]]
            field = kinds["value"]
        inner = _inner(field)
    return None if inner is not None else _Path(tuple(path))


def _names(descriptor: Descriptor, prefix: str, above: tuple[str, ...]) -> Iterator[str]:
    """Yields the names of the fields with values. A message inside itself is not entered."""
    for field in descriptor.fields:
        inner = _inner(field)
        if inner is None:
            yield prefix + field.name
        elif not _is_map(field) and inner.full_name not in above:
            yield from _names(inner, f"{prefix}{field.name}.", (*above, descriptor.full_name))


def _inner(field: FieldDescriptor) -> Descriptor | None:
    message = field.message_type
    return None if message is None or message.full_name in _WELL_KNOWN else message


def _is_repeated(field: FieldDescriptor) -> bool:
    if hasattr(field, "is_repeated"):  # protobuf 6, where `label` warns; protobuf 4 knows only `label`
        repeated = field.is_repeated
    else:
        repeated = field.label == FieldDescriptor.LABEL_REPEATED
    return bool(repeated and not _is_map(field))


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _messages(types: Any, prefix: str) -> Iterator[str]:
    for kind in types:
        full = f"{prefix}.{kind.name}" if prefix else kind.name
        if not kind.options.map_entry:
            yield full
            yield from _messages(kind.nested_type, full)
