"""Hooks, told for real: programs that are started, and a server on the loopback that writes down what it receives."""

import contextlib
import json
import os
import signal
import sys
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from fullpass.pipeline.config import EVENTS, Hook
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.record.notifications import Payload, notify
from tests.loopback import QuietHandler, serving
from tests.waiting import is_alive, until

FACTS = RunFacts(pipeline="taxi", file="/x/pipeline.yaml", exit_code=1, span="2013-01-05", metrics={"auc": 0.9})
PAYLOAD = Payload("failure", "taxi: failure", FACTS)


@contextmanager
def receiver(*answers):
    """A server that answers with these codes in turn, the last one for ever; gives its address and what it got."""
    got, codes = [], list(answers)

    class Handler(QuietHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, dict(self.headers), json.loads(body)))
            code = codes.pop(0) if len(codes) > 1 else codes[0]
            self.send_response(code)
            if code in (301, 302, 307):
                self.send_header("Location", "/elsewhere")
            self.end_headers()

        do_GET = do_POST

    with serving(Handler) as address:
        yield f"{address}/services/S3CRET", got


@pytest.fixture
def tell(tmp_path):
    """Returns `tell(hooks, environment, payload)`: what was said, and how long was waited between tries."""

    def run(*hooks, environment=None, payload=PAYLOAD):
        said, waited = [], []
        failed = notify(
            hooks, payload, folder=tmp_path, say=said.append, environment=environment or {}, wait=waited.append
        )
        assert failed == len(said)
        return said, waited

    return run


def test_an_address_is_posted_the_payload_with_its_token(tell):
    with receiver(200) as (address, got):
        hook = Hook(url_env="ALERTS", token_env="TOKEN")
        assert tell(hook, environment={"ALERTS": address, "TOKEN": "t0p"}) == ([], [])
    ((path, headers, body),) = got
    assert path == "/services/S3CRET" and headers["Authorization"] == "Bearer t0p"
    assert headers["Content-Type"] == "application/json"
    expected = {"event": "failure", "span": "2013-01-05", "metrics": {"auc": 0.9}, "exit_code": 1, "run_id": None}
    assert {name: body[name] for name in expected} == expected


def test_trouble_is_tried_again_and_refusal_is_not(tell):
    with receiver(503, 429, 200) as (address, got):
        assert tell(Hook(url_env="A"), environment={"A": address}) == ([], [1.0, 2.0])
        assert len(got) == 3
    with receiver(500) as (address, got):
        said, waited = tell(Hook(url_env="A", retries=2), environment={"A": address})
        assert said == ["notify[0]: the address in A could not be notified of failure: it answered 500."]
        assert len(got) == 3 and waited == [1.0, 2.0]
    with receiver(403) as (address, got):
        said, waited = tell(Hook(url_env="A"), environment={"A": address})
        assert "it answered 403" in said[0] and len(got) == 1 and not waited


def test_who_waits_no_longer_gives_every_receiver_one_try(tmp_path):
    said = []
    with receiver(503) as (address, got):
        hooks, addresses = (Hook(url_env="A"), Hook(url_env="B")), {"A": address, "B": address}
        options = {"environment": addresses, "wait": lambda seconds: True}
        assert notify(hooks, PAYLOAD, folder=tmp_path, say=said.append, **options) == 2
    assert len(got) == 2 and all("it answered 503" in line for line in said)


def test_a_token_is_not_sent_after_a_redirection(tell):
    with receiver(302, 200) as (address, got):
        said, _ = tell(Hook(url_env="A", token_env="T"), environment={"A": address, "T": "t"})
        assert "it answered 302" in said[0] and len(got) == 1


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("http://127.0.0.1:9/S3CRET", "refused"),
        ("http://nowhere.invalid/S3CRET", "could not be notified"),
        ("S3CRET", "holds no address"),
        ("file:///etc/S3CRET", "holds no address"),
        ("http://[S3CRET", "holds no address"),
        ("http://127.0.0.1:x/S3CRET", "could not be notified"),
        ("", "environment variable A is not set"),
    ],
)
def test_an_address_is_never_shown(tell, address, says):
    said, _ = tell(Hook(url_env="A", retries=1), environment={"A": address})
    assert says in said[0] and "S3CRET" not in said[0] and "invalid/" not in said[0]


def test_a_command_has_the_payload_on_its_input_and_in_its_environment(tell, tmp_path):
    code = (
        "import json, os, sys; facts = json.load(sys.stdin); "
        "json.dump([facts['event'], facts['metrics'], os.environ['FULLPASS_EVENT'], os.environ['FULLPASS_SPAN'], "
        "os.environ['FULLPASS_EXIT_CODE'], os.environ.get('FULLPASS_RUN_ID')], open('told.json', 'w'))"
    )
    assert tell(Hook(command=(sys.executable, "-c", code))) == ([], [])
    told = json.loads((tmp_path / "told.json").read_text())
    assert told == ["failure", {"auc": 0.9}, "failure", "2013-01-05", "1", None]


def test_a_command_that_fails_hangs_or_is_not_there_is_said_and_the_others_are_told(tell, tmp_path):
    hooks = (
        Hook(command=(sys.executable, "-c", "import sys; sys.exit('no such channel')")),
        Hook(command=(sys.executable, "-c", "import time; time.sleep(60)"), timeout=1),
        Hook(command=("no-such-program",)),
        Hook(command=(sys.executable, "-c", "open('told', 'w')")),
    )
    said, waited = tell(*hooks)
    assert "exit code 1: no such channel" in said[0]
    assert "longer than 1 s" in said[1]
    assert "No such file" in said[2]
    assert len(said) == 3 and not waited and (tmp_path / "told").exists()


@pytest.mark.parametrize("event", EVENTS)
def test_a_hook_hears_of_what_it_asks_for(tell, tmp_path, event):
    payload = Payload(event, "x", RunFacts())
    hook = Hook(on=("failure", "gate_stop"), command=("touch", "told"))
    assert tell(hook, payload=payload) == ([], [])
    assert (tmp_path / "told").exists() == (event in ("failure", "gate_stop"))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "needs command or url_env"),
        ({"command": ("a",), "url_env": "A"}, "needs command or url_env"),
        ({"command": ("a",), "token_env": "T"}, "token_env goes with url_env"),
        ({"url_env": "https://hooks.example/x"}, "match pattern"),
        ({"url_env": "A", "on": ()}, "at least 1"),
    ],
)
def test_a_hook_has_one_receiver_and_no_address(fields, says):
    with pytest.raises(ValueError, match=says):
        Hook(**fields)


def test_one_limit_holds_for_all_of_a_post(tell):
    """A server that sends a byte now and then answers every read in time, and the whole never."""

    class Drip(QuietHandler):
        def do_POST(self):
            with contextlib.suppress(OSError):
                for letter in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100:
                    self.wfile.write(bytes([letter]))
                    self.wfile.flush()
                    time.sleep(0.3)

    with serving(Drip) as address:
        began = time.monotonic()
        said, _ = tell(Hook(url_env="A", timeout=1, retries=0), environment={"A": address})
        assert time.monotonic() - began < 20, "the whole answer takes 36 s"
    assert said == ["notify[0]: the address in A could not be notified of failure: it took longer than 1 s."]


def test_nothing_that_a_late_command_started_lives_on(tell, tmp_path):
    command = ("sh", "-c", "sleep 300 & echo $! > grandchild; sleep 300")
    said, _ = tell(Hook(command=command, timeout=1))
    assert "it took longer than 1 s and was stopped" in said[0]
    grandchild = int((tmp_path / "grandchild").read_text())
    until(lambda: not is_alive(grandchild), 60)


def test_a_command_that_leaves_something_in_the_background_has_ended_with_its_own_end(tell, tmp_path):
    began = time.monotonic()
    assert tell(Hook(command=("sh", "-c", "sleep 60 & echo $! > left"), timeout=40)) == ([], [])
    assert time.monotonic() - began < 20
    os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)


@pytest.mark.integration
def test_text_that_no_variable_can_hold_is_told_all_the_same(tell, tmp_path):
    code = (
        "import json, os, sys; json.dump([json.load(sys.stdin), os.environ['FULLPASS_TEXT']], open('told.json', 'w'))"
    )
    text = "bad \x00 \udcff \x1b[2J " + "x" * 200_000
    payload = replace(PAYLOAD, text=text, facts=replace(FACTS, metrics={"auc": float("nan"), "mse": 1.5}))
    assert tell(Hook(command=(sys.executable, "-c", code)), payload=payload) == ([], [])
    facts, variable = json.loads((tmp_path / "told.json").read_text())
    assert facts["text"] == text and facts["metrics"] == {"auc": None, "mse": 1.5}
    assert variable.startswith(r"bad \x00 \udcff \x1b[2J x") and len(variable) == 10_003


def test_whatever_is_wrong_with_one_receiver_the_next_is_told(tmp_path):
    said = []
    with receiver(200) as (address, got):
        hooks = (Hook(command=("a\0b",)), Hook(url_env="A"))
        assert notify(hooks, PAYLOAD, folder=tmp_path, say=said.append, environment={"A": address}) == 1
    assert len(got) == 1 and "ValueError" in said[0]
