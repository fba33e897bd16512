"""`fullpass schedule export`: writes the schedule for an external scheduler: cron, systemd or Kubernetes.

Each of them starts `fullpass schedule run FILE --once`, which waits for its span, skips or fails by the YAML, and ends
with a specific exit code. Schedulers differ in how they handle missed times and time zones; comments in the written
files describe this.
"""

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from fullpass.base.errors import UserError
from fullpass.base.files import write_atomically
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.printing import plain
from fullpass.pipeline.schedule_config import Cron, ScheduleConfig
from fullpass.pipeline.scheduling.local_scheduler import schedule_of

Form = Literal["cron", "systemd", "kubernetes"]
_WEEKDAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_LONGEST_CRON_LINE = 990
"""Vixie cron and cronie refuse commands of 1,000 bytes."""
_LONGEST_JOB_NAME = 52
"""Kubernetes appends eleven characters to the name of a CronJob."""
_CRONTAB = """\
# {name}: append this to what `crontab -l` prints, and give it to `crontab -`.
# CRON_TZ is the time zone of the lines below it, for cronie (Fedora, RHEL, Arch). The cron of Debian and
# Ubuntu ignores it: there the time zone of the machine must be {timezone}, or use --as systemd.
# Times that pass while the machine is off are skipped.
CRON_TZ={timezone}
{line}
"""
_SERVICE = """\
[Unit]
Description=Fullpass pipeline {name}
After=network-online.target
Wants=network-online.target

[Service]
Type=oneshot
WorkingDirectory={folder}
ExecStart={command}
# 6: there was nothing to train.
SuccessExitStatus=6
# SIGTERM goes to the command alone, which interrupts the nodes of its run.
KillMode=mixed
TimeoutStopSec=90
# Optional file with credentials and the addresses of notify:.
EnvironmentFile=-/etc/fullpass/{name}.env
"""
_TIMER = """\
[Unit]
Description=Schedule of Fullpass pipeline {name}

[Timer]
{events}
# Times that passed while the machine was off are replaced by one run.
Persistent={persistent}
AccuracySec=1s

[Install]
WantedBy=timers.target
"""
_CRON_JOB = """\
# The claim {name} holds {file}, its data and its root, at /pipeline; the secret {name}-env the environment.
apiVersion: batch/v1
kind: CronJob
metadata:
  name: {job}
  labels: {{app.kubernetes.io/name: {claim}}}
spec:
  schedule: {cron}
  timeZone: {timezone}
  concurrencyPolicy: Forbid
  # Kubernetes gives up a CronJob after 100 missed starts.
  startingDeadlineSeconds: 200
  jobTemplate:
    spec:
      backoffLimit: 0
      template:
        spec:
          restartPolicy: Never
          terminationGracePeriodSeconds: 90
          containers:
            - name: fullpass
              image: {image}
              command: {command}
              envFrom: [{{secretRef: {{name: {secret}, optional: true}}}}]
              volumeMounts: [{{name: pipeline, mountPath: /pipeline}}]
          volumes: [{{name: pipeline, persistentVolumeClaim: {{claimName: {claim}}}}}]
"""


def scheduler_files(loaded: Loaded, form: Form, *, image: str | None = None) -> dict[str, str]:
    """Returns the files for an external scheduler by name; `image` is that of the CronJob.

    Raises:
        UserError: The YAML has no schedule or no cron line, or the external scheduler cannot express the line.
    """
    config = schedule_of(loaded)
    _require_one_line(loaded)
    if config.cron is None:
        raise UserError(
            f"{loaded.file}: schedule.cron is missing, and {form} starts runs by the clock. Give a cron line; "
            "new_span is for `fullpass schedule run`."
        )
    if form == "cron":
        return {f"{loaded.config.name}.crontab": _crontab(loaded, config)}
    if form == "systemd":
        return _systemd(loaded, config)
    if image is None:
        raise UserError(
            "--image is missing: the image that the CronJob runs, with Fullpass, the YAML and the data in it."
        )
    return {f"{loaded.config.name}.cronjob.yaml": _cron_job(loaded, config, image)}


def _require_one_line(loaded: Loaded) -> None:
    """Refuses paths that would end a line, or change the next line, in the written files."""
    for what in (str(loaded.file.absolute()), sys.executable):
        if plain(what) != what or "\n" in what or "\t" in what:
            raise UserError(
                f"{what!r}: a schedule cannot be exported for a path with line breaks or other control characters. "
                "Rename the file or its folders."
            )
    if str(loaded.folder) != str(loaded.folder).rstrip(" \\"):
        raise UserError(
            f"{str(loaded.folder)!r}: a schedule cannot be exported for a folder whose name ends in a blank or a "
            "backslash. Rename the folder."
        )


def write_files(files: Mapping[str, str], folder: Path) -> list[Path]:
    """Writes files into a folder, each atomically; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_atomically(folder / name, text)
    return [folder / name for name in files]


def on_calendar(cron: str, timezone: str) -> list[str]:
    """Returns a cron line as calendar events of systemd.

    If the line restricts both the day of the month and the day of the week, cron requires either and systemd both. Such
    a line becomes two events.

    Example:
        >>> on_calendar("30 3 1 * mon", "UTC")
        ['*-*-01 03:30:00 UTC', 'Mon *-*-* 03:30:00 UTC']
    """
    line = Cron.parse(cron)
    months = _calendar(line.months, range(1, 13))
    time = ":".join(
        (_calendar(line.hours, range(24)), _calendar(line.minutes, range(60)), _calendar(line.seconds, range(60)))
    )
    days = _calendar(line.days, range(1, 32))
    weekdays = "" if len(line.weekdays) == 7 else ",".join(_WEEKDAYS[day] for day in line.weekdays) + " "
    dates = [("", days), (weekdays, "*")] if line.either_day else [(weekdays, days)]
    return [f"{of_week}*-{months}-{of_month} {time} {timezone}" for of_week, of_month in dates]


def _calendar(numbers: tuple[int, ...], every: range) -> str:
    return "*" if numbers == tuple(every) else ",".join(f"{number:02d}" for number in numbers)


def _command(loaded: Loaded) -> list[str]:
    program = str(Path(sys.executable).parent / "fullpass")
    return [program, "schedule", "run", str(loaded.file.absolute()), "--once"]


def _five_fields(config: ScheduleConfig, form: str) -> str:
    """Returns the cron line without seconds, with Sunday as 0."""
    fields = (config.cron or "").split()
    if len(fields) == 6:
        first, *fields = fields
        if first != "0":
            raise UserError(f"schedule.cron: {form} supports no seconds. Received: {config.cron}. Write 0 for them.")
    if "7" in fields[4]:
        fields[4] = ",".join(str(day) for day in Cron.parse(config.cron or "").weekdays)
    return " ".join(fields)


def _crontab(loaded: Loaded, config: ScheduleConfig) -> str:
    # cron ends the command at an unescaped % and passes the rest to it as standard input.
    command = shlex.join(_command(loaded)).replace("%", r"\%")
    log = shlex.quote(str(loaded.folder / f"{loaded.config.name}.cron.log")).replace("%", r"\%")
    line = f"{_five_fields(config, 'crontab')} {command} >> {log} 2>&1"
    if len(line.encode()) > _LONGEST_CRON_LINE:
        raise UserError(
            f"{loaded.file}: cron takes lines of up to {_LONGEST_CRON_LINE} bytes, and this one would have "
            f"{len(line.encode())}. Move the file to a shorter path, or use --as systemd."
        )
    return _CRONTAB.format(name=loaded.config.name, timezone=config.timezone, line=line)


def _systemd(loaded: Loaded, config: ScheduleConfig) -> dict[str, str]:
    name = loaded.config.name
    service = _SERVICE.format(
        name=name,
        folder=str(loaded.folder).replace("%", "%%"),
        command=" ".join(_unit_word(word) for word in _command(loaded)),
    )
    timer = _TIMER.format(
        name=name,
        events="\n".join(f"OnCalendar={event}" for event in on_calendar(config.cron or "", config.timezone)),
        persistent="false" if config.catch_up == "none" else "true",
    )
    return {f"fullpass-{name}.service": service, f"fullpass-{name}.timer": timer}


def _unit_word(word: str) -> str:
    """Returns a word of ExecStart, escaped: %, $, quotes and blanks have a special meaning in systemd."""
    escaped = word.replace("\\", r"\\").replace('"', r"\"").replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if any(letter in word for letter in " \t'\"\\;") else escaped


def _cron_job(loaded: Loaded, config: ScheduleConfig, image: str) -> str:
    name = loaded.config.name
    if len(name) > _LONGEST_JOB_NAME:
        raise UserError(
            f"name: a CronJob takes a name of at most {_LONGEST_JOB_NAME} characters. Received {len(name)}: {name}."
        )
    # Kubernetes would replace `$(NAME)` by a variable, and reads `$$` as `$`.
    file = f"/pipeline/{loaded.file.name}".replace("$", "$$")
    values = {
        "claim": name,
        "secret": f"{name}-env",
        "job": name.rstrip("-"),
        "cron": _five_fields(config, "a CronJob"),
        "timezone": config.timezone,
        "image": image,
        "command": ["fullpass", "schedule", "run", file, "--once", "--skipped-ok"],
    }
    texts = {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()}
    return _CRON_JOB.format(name=name, file=loaded.file.name, **texts)
