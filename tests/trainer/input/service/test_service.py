"""A tf.data service with real servers on loopback: every row once, in the order of the files, and no endless wait."""

import os
import re
import select
import socket
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.trainer.config import InputConfig
from fullpass.trainer.input.decoder import decoder, read_blocks
from fullpass.trainer.input.epochs import BatchOrder
from fullpass.trainer.input.input_plan import ReadingPlan
from fullpass.trainer.input.load_split import RowSpec, load_split
from fullpass.trainer.input.parsed_chunks import ChunkParser
from fullpass.trainer.input.service.client import (
    DataService,
    ReorderBuffer,
    chunks_in_file_order,
    find_service,
    wait_for_service,
)
from fullpass.trainer.records.blocks import layout_of
from tests import REPOSITORY, warm_process
from tests.record_files import read_examples, write_records

NAMES = ["x_xf", "tags_xf", "note_xf", "note.weight_xf", "position_xf", "row_id"]
pytestmark = pytest.mark.integration


@contextmanager
def server(*arguments: str):
    """Runs `fullpass input-service ...`; yields the process and the line that it prints once it is ready."""
    command = [sys.executable, "-m", "fullpass", "input-service", *arguments]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    process = warm_process.Process(command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE)
    try:
        ready, _, _ = select.select([process.stdout], [], [], 120)
        assert ready, f"{arguments} said nothing"
        yield process, process.stdout.readline().strip()
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        finally:
            process.stdout.close()


@contextmanager
def dispatcher():
    with server("dispatcher", "--port", "0") as (_, line):
        yield "127.0.0.1:" + re.fullmatch(r"dispatcher listens at port (\d+)", line)[1]


@pytest.fixture(scope="module")
def address():
    """Returns the address of a dispatcher with two workers, started as documented."""
    with dispatcher() as found, server("worker", found), server("worker", found):
        yield found


def given(planted, place: str = "transform"):
    """Returns the planted rows and their decoder."""
    prepared = planted("binary")
    return prepared, decoder(prepared.tft_output, prepared.placement(place), NAMES, 0)


def service(address: str, seconds: float = 60.0):
    return DataService(address, seconds)


def served(address, files, decode, folder, *, rows=64, seconds=60.0):
    """Returns the rows that a service sends."""
    parse = ChunkParser(decode, None, files)
    found = chunks_in_file_order(files, parse, service(address, seconds), folder, rows)
    return [parse.layout.unpack(chunk["packed"]) for chunk in found]


def rows_by_id(blocks) -> dict[int, list]:
    """Returns row id -> the values of the row, with ragged rows as lists."""
    found = {}
    for block in blocks:
        columns = {n: v.to_list() if hasattr(v, "to_list") else v.numpy().tolist() for n, v in block.items()}
        for place, number in enumerate(columns["row_id"]):
            assert number not in found
            found[number] = [columns[name][place] for name in sorted(columns)]
    return found


def row_ids(files) -> list[int]:
    """Returns the row ids of the files in order, parsed one by one."""
    found = [number for row in read_examples(*files) for number in row["row_id"].int64_list.value]
    return found


@pytest.mark.parametrize(("kind", "place"), [("transformed", "transform"), ("raw", "input")])
def test_every_row_comes_once_with_the_values_it_has_without_the_service(address, planted, tmp_path, kind, place):
    """The workers parse the rows, and apply the transform graph with its vocabularies."""
    prepared, decode = given(planted, place)
    files = prepared.files(kind, "train")
    found = rows_by_id(served(address, files, decode, tmp_path))
    assert sorted(found) == list(range(1000))
    assert found == rows_by_id(read_blocks(files, decode, readers=2))
    assert os.listdir(tmp_path) == []


def test_rows_come_in_the_order_of_the_files(address, planted, tmp_path):
    prepared, decode = given(planted)
    files = prepared.files("transformed", "train") * 4
    blocks = served(address, files, decode, tmp_path, rows=50)
    assert np.concatenate([block["row_id"] for block in blocks]).tolist() == row_ids(files)


def load(prepared, files, address, folder, **options):
    decode = decoder(prepared.tft_output, prepared.placement("transform"), NAMES, 0)
    plan = ReadingPlan(2, cache=folder, service=service(address) if address else None)
    return load_split("train", tuple(files), RowSpec(decode, None, "binary", 2), replace(plan, **options))


def epoch(split) -> list[int]:
    batches = split.batches(BatchOrder(batch_size=64, shuffle=200, seed=3)).take(-(-split.counts.weighted_rows // 64))
    return np.concatenate([features["row_id"] for features, _, _ in batches]).tolist()


@pytest.mark.parametrize(
    "limit", [pytest.param(10**9, id="in memory"), pytest.param(0, id="on disk", marks=pytest.mark.long)]
)
def test_a_split_that_is_served_has_the_same_counts_and_one_order(address, planted, tmp_path, limit):
    prepared = planted("binary")
    files = prepared.files("transformed", "train")
    first, second = (load(prepared, files, address, tmp_path / str(n), memory_limit=limit) for n in range(2))
    alone = load(prepared, files, None, tmp_path / "alone", memory_limit=limit)
    assert first.counts.to_json() == alone.counts.to_json()
    assert sorted(epoch(first)) == list(range(1000))
    assert epoch(first) == epoch(second)


def test_two_trainers_that_divide_the_files_share_the_workers(address, planted, tmp_path):
    prepared = planted("binary")
    one, other = prepared.files("transformed", "train")
    found = [epoch(load(prepared, [file], address, tmp_path / str(n))) for n, file in enumerate((one, other))]
    assert sorted(found[0] + found[1]) == list(range(1000))


def test_a_damaged_record_is_named_though_it_was_served(address, planted, tmp_path):
    prepared = planted("binary")
    whole = [file for file in prepared.files("transformed", "train") if not file.endswith(".gz")]
    content = bytearray(Path(whole[0]).read_bytes())
    content[20] ^= 1
    damaged = tmp_path / "damaged"
    damaged.write_bytes(content)
    with pytest.raises(UserError, match=f"{damaged} cannot be read: corrupted record at 12\\."):
        load(prepared, [str(damaged)], address, tmp_path)


def test_a_file_that_workers_do_not_see_is_named(address, planted, tmp_path):
    _, decode = given(planted)
    with pytest.raises(UserError, match=r"worker of the input service at .* cannot read a file: .*nowhere.*mount"):
        served(address, [str(tmp_path / "nowhere")], decode, tmp_path)


SLOW = """
import sys
from pathlib import Path
import numpy as np
import tensorflow as tf
from fullpass.trainer.input.service.client import DataService
from fullpass.trainer.input.parsed_chunks import ChunkParser
from fullpass.trainer.input.service.client import chunks_in_file_order

def decode(records):
    slow = tf.linalg.matmul(tf.random.stateless_uniform([400, 400], [1, 2]), tf.ones([400, 400]))
    x = tf.strings.to_number(records, tf.int64) + 0 * tf.cast(tf.reduce_sum(slow), tf.int64)
    return {"x": x, "example_weight": tf.ones_like(x, tf.float32)}

address, folder, *files = sys.argv[1:]
parse = ChunkParser(decode, None, files)
for chunk in chunks_in_file_order(files, parse, DataService(address, 10.0), Path(folder), 5):
    rows = parse.layout.unpack(chunk["packed"])["x"].numpy()
    print(*(f"row {row}" for row in rows), sep=chr(10), flush=True)
"""


@contextmanager
def slow_trainer(address: str, folder: Path):
    """Yields a process that reads 800 rows from a service and has begun, and the file of its output.

    It is a process of its own, because TensorFlow waits for a stopped service until its process ends.
    """
    files, log = [], folder / "log"
    for number in range(8):
        rows = (str(100 * number + row).encode() for row in range(100))
        files.append(write_records(folder / f"rows-{number}", rows))
    command = [sys.executable, "-c", SLOW, address, str(folder / "waiting"), *files]
    with log.open("w") as output:
        trainer = warm_process.Process(command, cwd=REPOSITORY, stdout=output, stderr=output)
        try:
            deadline = time.monotonic() + 300
            while not log.read_text().count("row ") and trainer.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            yield trainer, log
        finally:
            trainer.kill()
            trainer.wait(30)


def test_a_worker_ends_when_it_is_told_to_though_a_trainer_holds_it(tmp_path):
    with dispatcher() as found, server("worker", found) as (worker, _), slow_trainer(found, tmp_path):
        worker.terminate()
        assert worker.wait(20) == 0


def test_what_a_worker_that_dies_took_along_is_read_by_the_trainer(tmp_path):
    servers = tf.data.experimental.service
    here = servers.DispatchServer(servers.DispatcherConfig(port=0))
    found = here.target.removeprefix("grpc://")
    living = servers.WorkerServer(servers.WorkerConfig(found))
    with server("worker", found) as (dying, _), slow_trainer(found, tmp_path) as (trainer, log):
        dying.kill()
        assert trainer.wait(300) == 0, log.read_text()
    assert living._address
    assert [int(row) for row in re.findall(r"^row (\d+)$", log.read_text(), re.MULTILINE)] == list(range(800))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("nobody", "not ready within 1 seconds: no server responds there"),
        ("mute", "a process listens there, but does not respond"),
        ("worker", "the server there is not a dispatcher"),
        ("idle", "no worker has registered with its dispatcher yet"),
    ],
)
def test_a_service_that_is_not_there_fails_in_words_within_its_time(tmp_path, kind, expected):
    servers = tf.data.experimental.service
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        free = f"127.0.0.1:{listening.getsockname()[1]}"
        idle = servers.DispatchServer(servers.DispatcherConfig(port=0))
        place = {"nobody": free, "mute": free, "idle": idle.target.removeprefix("grpc://")}
        if kind == "mute":
            listening.listen()
        if kind == "worker":
            of_idle = servers.WorkerServer(servers.WorkerConfig(place["idle"], port=0))
            place["worker"] = of_idle._address
        started = time.monotonic()
        with pytest.raises(UserError, match=f"{re.escape(place[kind])} .*{expected}.*fullpass input-service"):
            wait_for_service(service(place[kind], seconds=1.0))
        assert time.monotonic() - started >= 1.0


def test_blocks_in_any_order_lost_and_sent_twice_come_out_in_order(tmp_path):
    sizes = [3, 0, 2, 4]
    layout = layout_of({"x": tf.constant([1])})

    def chunk(numbers):
        found = layout.pack({"x": tf.constant(numbers, tf.int32)})
        return {"packed": found, "rows": tf.constant(len(numbers)), "finite": tf.constant(True)}

    elements = [(f, p, chunk([10 * f + p])) for f, size in enumerate(sizes) for p in range(size)]
    elements += [(f, size, chunk([])) for f, size in enumerate(sizes)]
    random = np.random.default_rng(5)
    for trial in range(30):
        folder = tmp_path / str(trial)
        folder.mkdir()
        buffer = ReorderBuffer(folder, layout)
        sent = [elements[i] for i in random.permutation(len(elements))[trial % 5 :]]
        sent += [sent[i] for i in random.integers(len(sent), size=5)]
        found = [int(layout.unpack(p["packed"])["x"][0]) for element in sent for p in buffer.after(element)]
        missing = buffer.missing(len(sizes))
        came = {element[:2] for element in sent}
        lost = {element[0] for element in elements if element[:2] not in came}
        assert set(missing) == lost
        again = [e for e in elements if e[0] in missing]
        found += [int(layout.unpack(p["packed"])["x"][0]) for element in again for p in buffer.after(element)]
        assert found == [0, 1, 2, 20, 21, 30, 31, 32, 33] and buffer.missing(len(sizes)) == []
        assert os.listdir(folder) == []


@pytest.mark.parametrize("model", ["linear", pytest.param("trees", marks=pytest.mark.long)])
def test_a_model_is_trained_from_a_service_that_the_environment_names(address, planted, monkeypatch, model):
    monkeypatch.setenv("FULLPASS_INPUT_SERVICE", address)
    prepared = planted("binary").of("x", "tags")
    data, trained = prepared.trained(model=model, training={"epochs": 1}, input={"service": {}})
    assert (data.train.counts.rows, data.evaluation.counts.rows, trained.fitted.epochs) == (1000, 300, 1)


def test_a_service_without_an_address_is_refused(monkeypatch):
    config = InputConfig.model_validate({"service": {}}).service
    monkeypatch.delenv("FULLPASS_INPUT_SERVICE", raising=False)
    with pytest.raises(UserError, match="names no address, and the environment variable FULLPASS_INPUT_SERVICE"):
        find_service(config)
    monkeypatch.setenv("FULLPASS_INPUT_SERVICE", "somewhere")
    with pytest.raises(UserError, match="FULLPASS_INPUT_SERVICE must be host:port. Received: 'somewhere'"):
        find_service(config)
    assert find_service(None) is None


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({"service": {"address": "grpc://host"}}, "address must be host:port"),
        ({"service": {}, "cache": "none"}, "it sends its rows once and the trainer must keep them"),
    ],
)
def test_settings_that_cannot_be_are_refused(section, expected):
    with pytest.raises(ValueError, match=expected):
        InputConfig.model_validate(section)


def test_a_port_that_is_taken_is_named():
    with closing(socket.socket()) as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "fullpass", "input-service", "dispatcher", "--port", port]
        done = warm_process.run(command, cwd=REPOSITORY, timeout=120)
    assert done.returncode == 1
    assert f"the dispatcher cannot start at port {port}" in done.stderr
