"""docs/scheduling.md says what is so: its YAML loads, its payload is what receivers get."""

import json
import re

from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.config import EVENTS, Hook
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.record.notifications import Payload, notify
from fullpass.pipeline.schedule_config import ScheduleConfig
from tests import REPOSITORY
from tests.loopback import receiver

TEXT = (REPOSITORY / "docs" / "scheduling.md").read_text()
EXAMPLE = json.loads(re.search(r"(?s)```json\n(.*?)```", TEXT)[1])


def test_the_yaml_loads(edited):
    schedule = re.search(r"(?m)^    schedule:\n(?:      .*\n)+", TEXT)[0]
    hooks = re.findall(r"(?m)^    notify:\n(?:    - .*\n)+", TEXT)
    for hook in hooks:
        section = re.sub(r"(?m)^    ", "", schedule + hook)
        config = load(edited({18: f"{section}evaluation:"})).config
        assert config.schedule.timezone == "Europe/Zurich" and config.schedule.timeout == "6h"
    assert len(hooks) == 2 and len(config.notify) == 2


def test_every_setting_and_event_is_explained():
    for name in ScheduleConfig.model_fields:
        assert f"`{name}" in TEXT or f"      {name}:" in TEXT, name
    assert not [event for event in EVENTS if f"| `{event}` |" not in TEXT]


def test_the_payload_of_the_page_is_what_an_address_receives(tmp_path):
    of_event = {name: EXAMPLE[name] for name in ("event", "text", "host", "time")}
    payload = Payload(**of_event, facts=RunFacts.of({**EXAMPLE, "newly_pushed": True}))
    with receiver() as (address, got):
        hook = Hook(url_env="ALERT_URL")
        assert notify([hook], payload, folder=tmp_path, say=print, environment={"ALERT_URL": f"{address}/"}) == 0
    assert got == [EXAMPLE] and list(EXAMPLE) == list(got[0])
