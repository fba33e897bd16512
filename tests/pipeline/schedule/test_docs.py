"""docs/scheduling.md says what is so: its YAML loads, its payload is what receivers get."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from pipeline.loading.load import load
from pipeline.notify.config import EVENTS, Hook
from pipeline.notify.payload import Payload
from pipeline.notify.send import notify
from pipeline.schedule.config import ScheduleConfig
from pipeline.schedule.local import EXIT_CODES

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "scheduling.md").read_text()
EXAMPLE = json.loads(re.search(r"(?s)```json\n(.*?)```", TEXT)[1])


def test_the_yaml_loads(edited):
    schedule = re.search(r"(?m)^    schedule:\n(?:      .*\n)+", TEXT)[0]
    hooks = re.findall(r"(?m)^    notify:\n(?:    - .*\n)+", TEXT)
    for hook in hooks:
        section = re.sub(r"(?m)^    ", "", schedule + hook)
        config = load(edited({18: f"{section}evaluation:"})).config
        assert config.schedule.timezone == "Europe/Zurich" and config.schedule.timeout == "6h"
    assert len(hooks) == 2 and len(config.notify) == 2


def test_every_setting_event_and_exit_code_is_explained():
    for name in ScheduleConfig.model_fields:
        assert f"`{name}" in TEXT or f"      {name}:" in TEXT, name
    assert not [event for event in EVENTS if f"| `{event}` |" not in TEXT]
    assert not [code for code in {*EXIT_CODES.values(), 2} if f"\n| {code} | " not in TEXT]


def test_the_payload_of_the_page_is_what_an_address_receives(tmp_path):
    got = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        payload = Payload(**{**EXAMPLE, "reasons": tuple(EXAMPLE["reasons"])})
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        hook = Hook(url_env="ALERT_URL")
        assert notify([hook], payload, folder=tmp_path, say=print, environment={"ALERT_URL": address}) == 0
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
    assert got == [EXAMPLE] and list(EXAMPLE) == list(got[0])
