"""TFRecords of protobuf messages with a descriptor of protoc, written with the message classes."""

import datetime

import pytest
from google.protobuf import descriptor_pb2, message_factory, text_format, timestamp_pb2, wrappers_pb2
from tensorflow_metadata.proto.v0 import path_pb2, schema_pb2

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.proto import find_message
from fullpass.components.ingest.readers.read_source import columns_of
from fullpass.components.ingest.readers.read_source import read_rows as read_source
from fullpass.components.ingest.readers.rows import Reading
from fullpass.components.ingest.sources.config import ProtoSource
from tests.components.ingest.reading_tools import inputs, raw, read_input
from tests.record_files import write_records

# The descriptor that protoc writes for:
#   message Order {
#     enum State { UNKNOWN = 0; PAID = 1; SENT = 2; }
#     message Item { string sku = 1; optional double price = 2; repeated string tags = 3; Item part_of = 4; }
#     int64 id = 1;
#     optional int32 discount = 2;
#     State state = 3;
#     repeated Item items = 4;
#     Item main = 5;
#     map<string, double> scores = 6;
#     google.protobuf.Timestamp at = 7;
#     google.protobuf.BoolValue gift = 8;
#     bytes photo = 9;
#     oneof pay { string card = 10; uint64 voucher = 11; }
#   }
ORDER = """
name: "order.proto" package: "shop.v1" syntax: "proto3"
dependency: "google/protobuf/timestamp.proto" dependency: "google/protobuf/wrappers.proto"
message_type {
  name: "Order"
  field { name: "id" number: 1 label: LABEL_OPTIONAL type: TYPE_INT64 }
  field { name: "discount" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 oneof_index: 1 proto3_optional: true }
  field { name: "state" number: 3 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".shop.v1.Order.State" }
  field { name: "items" number: 4 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".shop.v1.Order.Item" }
  field { name: "main" number: 5 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".shop.v1.Order.Item" }
  field { name: "scores" number: 6 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".shop.v1.Order.ScoresEntry" }
  field { name: "at" number: 7 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" }
  field { name: "gift" number: 8 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.BoolValue" }
  field { name: "photo" number: 9 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "card" number: 10 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
  field { name: "voucher" number: 11 label: LABEL_OPTIONAL type: TYPE_UINT64 oneof_index: 0 }
  nested_type {
    name: "Item"
    field { name: "sku" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "price" number: 2 label: LABEL_OPTIONAL type: TYPE_DOUBLE oneof_index: 0 proto3_optional: true }
    field { name: "tags" number: 3 label: LABEL_REPEATED type: TYPE_STRING }
    field { name: "part_of" number: 4 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".shop.v1.Order.Item" }
    oneof_decl { name: "_price" }
  }
  nested_type {
    name: "ScoresEntry"
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_DOUBLE }
    options { map_entry: true }
  }
  enum_type {
    name: "State"
    value { name: "UNKNOWN" number: 0 } value { name: "PAID" number: 1 } value { name: "SENT" number: 2 }
  }
  oneof_decl { name: "pay" } oneof_decl { name: "_discount" }
}
"""


@pytest.fixture(scope="module")
def descriptors(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proto")
    files = descriptor_pb2.FileDescriptorSet()
    for module in (timestamp_pb2, wrappers_pb2):
        module.DESCRIPTOR.CopyToProto(files.file.add())
    text_format.Parse(ORDER, files.file.add())
    (folder / "order.pb").write_bytes(files.SerializeToString())
    del files.file[:2]
    (folder / "lacking.pb").write_bytes(files.SerializeToString())
    (folder / "order.proto").write_text("message Order {}")
    return folder


def order(descriptors, **fields):
    return message_factory.GetMessageClass(find_message(str(descriptors / "order.pb"), "shop.v1.Order"))(**fields)


def read(tmp_path, descriptors, records, columns, compression="", **options):
    options = {"message": "shop.v1.Order", "descriptor_set": str(descriptors / "order.pb"), **options}
    written = (one if isinstance(one, bytes) else one.SerializeToString() for one in records)
    write_records(tmp_path / "a.tfrecord", written, compression)
    source = ProtoSource(format="proto", path="a.tfrecord", **options)
    (file,) = inputs(source, tmp_path)
    return read_input(file, source, columns)


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_values(tmp_path, descriptors, compression):
    first = order(descriptors, id=2**60, discount=0, state=2, scores={"a": 0.5}, photo=b"\xff", voucher=0)
    first.items.add(sku="x", price=1.5, tags=["t", "u"])
    first.items.add(sku="y", tags=["v"])
    first.main.sku = "x"
    first.at.FromDatetime(datetime.datetime(2024, 2, 29, 13, 5, 59))
    first.gift.value = False
    columns = {
        "id": (2**60, 0),
        "discount": (0, None),  # optional field: set to 0, and unset
        "state": ("SENT", "UNKNOWN"),
        "items.sku": (["x", "y"], []),
        "items.price": ([1.5], []),
        "items.tags": (["t", "u", "v"], []),
        "main.sku": ("x", None),  # the message is unset, so its field is missing
        "main.price": (None, None),
        "scores.a": (0.5, None),
        "at": (datetime.datetime(2024, 2, 29, 13, 5, 59), None),
        "gift": (False, None),
        "photo": (b"\xff", b""),
        "voucher": (0, None),
        "card": (None, None),
    }
    rows, numbers, bad = read(tmp_path, descriptors, [first, order(descriptors)], list(columns), compression)
    assert dict(zip(columns, zip(*rows, strict=True), strict=True)) == columns
    assert numbers == [1, 2] and not bad


def test_an_enum_without_a_name_is_its_number(tmp_path, descriptors):
    assert read(tmp_path, descriptors, [order(descriptors, state=7)], ["state"])[0] == [("7",)]


def test_columns_called_otherwise(tmp_path, descriptors):
    rows, _, _ = read(tmp_path, descriptors, [order(descriptors, id=5)], ["number", "id"], fields={"number": "id"})
    assert rows == [(5, 5)]


def test_a_record_that_is_no_message_is_a_bad_row(tmp_path, descriptors):
    records = [order(descriptors, id=1), b"\xff\xff\xff", order(descriptors, id=3)]
    rows, numbers, bad = read(tmp_path, descriptors, records, ["id"])
    assert (rows, numbers) == ([(1,), (3,)], [1, 3])
    assert [(row.row, row.reason) for row in bad] == [(2, "no shop.v1.Order")]


def test_columns_are_known_without_a_row(tmp_path, descriptors):
    source = ProtoSource(
        format="proto", path="a", descriptor_set=str(descriptors / "order.pb"), message="shop.v1.Order"
    )
    (tmp_path / "a").write_bytes(b"")
    columns = columns_of(inputs(source, tmp_path)[0], source)
    assert {"id", "at", "gift", "items.sku", "main.part_of.sku"} <= set(columns)
    assert not {"items", "main", "scores", "at.seconds", "main.part_of.part_of.sku"} & set(columns)


def test_what_is_not_there_says_so(tmp_path, descriptors):
    records = [order(descriptors, id=1)]
    with pytest.raises(UserError, match=r"no column 'main.pricce'. Did you mean \"?main.price"):
        read(tmp_path, descriptors, records, ["main.pricce"])
    with pytest.raises(UserError, match=r'no message "shop.v1.Ordr".*shop.v1.Order, shop.v1.Order.Item'):
        read(tmp_path, descriptors, records, ["id"], message="shop.v1.Ordr")
    with pytest.raises(UserError, match="--include_imports"):
        read(tmp_path, descriptors, records, ["id"], descriptor_set=str(descriptors / "lacking.pb"))
    with pytest.raises(UserError, match="cannot be read as a FileDescriptorSet"):
        read(tmp_path, descriptors, records, ["id"], descriptor_set=str(descriptors / "order.proto"))
    with pytest.raises(UserError, match="descriptor_set: 'no.pb' is no file"):
        read(tmp_path, descriptors, records, ["id"], descriptor_set="no.pb")


def test_new_descriptors_are_new_data(tmp_path, descriptors):
    source = ProtoSource(format="proto", path="a", descriptor_set="d.pb", message="shop.v1.Order")
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "d.pb").write_bytes(b"")
    (before,) = inputs(source, tmp_path)
    (tmp_path / "d.pb").write_bytes(descriptor_pb2.FileDescriptorSet().SerializeToString() + b"\x00")
    (after,) = inputs(source, tmp_path)
    assert before.version != after.version


def test_a_message_that_protoc_compiled(tmp_path):
    files = descriptor_pb2.FileDescriptorSet()
    for module in (path_pb2, schema_pb2):
        for dependency in module.DESCRIPTOR.dependencies:
            if dependency.name not in [file.name for file in files.file]:
                dependency.CopyToProto(files.file.add())
        if module.DESCRIPTOR.name not in [file.name for file in files.file]:
            module.DESCRIPTOR.CopyToProto(files.file.add())
    (tmp_path / "schema.pb").write_bytes(files.SerializeToString())
    feature = schema_pb2.Feature(name="fare", type=schema_pb2.FLOAT)  # proto2: an unset field is missing
    feature.presence.min_fraction = 0.0
    feature.annotation.tag.extend(["a", "b"])
    columns = ["name", "type", "presence.min_fraction", "presence.min_count", "annotation.tag", "deprecated"]
    rows, _, _ = read(
        tmp_path, tmp_path, [feature], columns, message="tensorflow.metadata.v0.Feature", descriptor_set="schema.pb"
    )
    assert rows == [("fare", "FLOAT", 0.0, None, ["a", "b"], None)]


def test_whole_rows_for_a_split_by_all_columns(tmp_path, descriptors):
    read(tmp_path, descriptors, [order(descriptors, id=5, card="c")], ["id"])
    source = ProtoSource(
        format="proto", path="a.tfrecord", descriptor_set=str(descriptors / "order.pb"), message="shop.v1.Order"
    )
    (file,) = inputs(source, tmp_path)
    (rows,) = read_source(Reading(file, raw(id="number"), all_columns=True), source)
    assert rows.table.column_names == ["id"]
    (whole,) = rows.all_columns.to_pylist()
    assert (whole["id"], whole["card"], whole["items.sku"]) == (5, "c", [])
