"""The record of a watch, `watch.json` in the root; and what follows from a finding: a run, a notification, a code."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fullpass.base import state_file
from fullpass.base.files import write_atomically
from fullpass.components.watch.findings import WatchFinding
from fullpass.components.watch.judge_traffic import JudgedDay
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.exit_codes import ExitCode
from fullpass.pipeline.printing import print_text
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.record.history import RunHistory
from fullpass.pipeline.record.notifications import Payload, notify
from fullpass.pipeline.registry.root_page import write_page_after_run
from fullpass.pipeline.root.layout import RootLayout, pipeline_root
from fullpass.pipeline.watching.challenger import shadow_json
from fullpass.pipeline.watching.shown import page_of
from fullpass.pipeline.watching.watch import VersionReport, WatchReport

_DAMAGED = "Remove it: the next watch writes it anew, and notifies of its findings again."


def record_of(report: WatchReport) -> dict[str, Any]:
    """Returns a watch as JSON data."""
    return {
        "pipeline": report.pipeline,
        "at": report.at.isoformat(),
        "rows": report.rows,
        "later": report.later,
        "bad": dict(report.bad),
        "notes": list(report.notes),
        "findings": [finding.to_json() | {"open": report.is_open(finding)} for finding in report.findings],
        "versions": [_version(one) for one in report.versions],
    }


def _version(one: VersionReport) -> dict[str, Any]:
    live = asdict(one.live)
    return {
        "version": one.number,
        "served": one.served,
        "notes": list(one.notes),
        "hours": [
            {"hour": h.name, "requests": h.requests, "refused": h.refused, "missing": _missing(h.summary.distributions)}
            for h in one.traffic.hours
        ],
        "days": [_day(day) for day in one.traffic.days],
        "challenger": shadow_json(one.shadow),
        "live": {name: live[name] for name in live if name != "findings"},
    }


def _missing(distributions: Mapping[str, Any]) -> dict[str, float]:
    return {name: one.missing_share for name, one in distributions.items() if one.missing}


def _day(day: JudgedDay) -> dict[str, Any]:
    return {
        "day": day.period.name,
        "requests": day.period.requests,
        "refused": day.period.refused,
        "missing": _missing(day.period.summary.distributions),
        "unseen": {name: sum(of.values()) for name, of in day.new_tokens.items()},
        "new_tokens": {name: dict(of) for name, of in day.new_tokens.items()},
        "compared": [
            {"series": c.series, "js": c.divergence.js, "linf": c.divergence.linf, "over": c.over} for c in day.compared
        ],
    }


def act(loaded: Loaded, report: WatchReport, *, root: Path | None = None) -> ExitCode:
    """Writes record and page, requests a run, and notifies; returns the exit code.

    A finding requests a run once, and is told once.
    """
    layout = RootLayout(pipeline_root(loaded, root))
    before = _before(layout.watch_file)
    told, requested = before.get("told", {}), before.get("requested", {})
    new = [finding for finding in report.findings if not finding.is_in(told)]
    if reasons := [one for one in report.reasons if not one.is_in(requested)]:
        print_text(_request(loaded, layout, reasons))
    kept = {"told": told | _lasts(report.findings), "requested": requested | _lasts(report.reasons)}
    layout.watch.mkdir(parents=True, exist_ok=True)
    write_atomically(layout.watch_page, page_of(report, loaded.config).encode())
    state_file.write(layout.watch_file, record_of(report) | kept, indent=1)
    write_page_after_run(loaded, root)
    code = ExitCode.GATE_STOP if report.stops else ExitCode.DONE
    if new:
        text = "; ".join(finding.words for finding in new)
        facts = RunFacts(
            pipeline=report.pipeline,
            file=str(loaded.file.absolute()),
            exit_code=code,
            reasons=[finding.words for finding in new],
            report=str(layout.watch_page),
        )
        notify(
            loaded.config.notify, Payload("watch", f"{report.pipeline}: {text}", facts), folder=loaded.folder, say=_say
        )
    return code


def _lasts(findings: Iterable[WatchFinding]) -> dict[str, str]:
    """Returns the last day of each finding; of several of one subject, the latest."""
    return {one.key: one.last for one in sorted(findings, key=lambda one: one.last)}


def _before(path: Path) -> Mapping[str, Any]:
    return state_file.read(path, _DAMAGED) if path.is_file() else {}


def _request(loaded: Loaded, layout: RootLayout, reasons: list[WatchFinding]) -> str:
    """Requests a run from the scheduler; returns the sentence for the user."""
    why = "; ".join(f"{finding.check} since {finding.first}: {finding.text}" for finding in reasons)
    if loaded.config.schedule is None:
        return f"A reason to train, and no schedule that could: fullpass run {loaded.file}"
    number = RunHistory(layout.root).add_request(None, why)
    return f"watch {number}: a run is requested from the scheduler."


def _say(line: str) -> None:
    print_text(line, err=True)
