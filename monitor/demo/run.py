"""The demo from start to end: sidecar, service process, view, report, exit status."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TextIO

from monitor.demo.child import ServiceProcess
from monitor.demo.content import write_catalogue, write_golden
from monitor.demo.report import Watcher, draw_up
from monitor.demo.scenario import DemoSettings, Schedule, demo_settings
from monitor.demo.terminal import Moment, View, view_for
from monitor.status import Status

MINIMUM_DURATION_S = 60.0
PASSED, FAILED, INTERRUPTED = 0, 1, 130
_LOOK_EVERY_S = 0.25
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


class Sidecar(Protocol):
    """What the demo needs of the running sidecar."""

    @property
    def grpc_port(self) -> int:
        """The OTLP/gRPC receiver's, known once it has started."""
        ...

    def start(self) -> None: ...

    def stop(self, deadline_s: float = 10.0) -> None: ...

    def status(self) -> Status: ...


MakeSidecar = Callable[[DemoSettings, Path, Path], Sidecar]
"""From the settings, the catalogue's path and the golden set's path."""


class ServiceCrashed(RuntimeError):  # noqa: N818 (it says what happened)
    """The service process ended before its story did; the message holds the end of its standard error."""


def parse_duration(text: str) -> float:
    """Seconds. Raises ValueError for what is no duration.

    >>> parse_duration("90s"), parse_duration("3m"), parse_duration("1m30s"), parse_duration("90")
    (90.0, 180.0, 90.0, 90.0)
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None or not any(found.groups()):
        raise ValueError(f"{text!r} is no duration: write 90s, 3m or 1m30s")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def run_demo(
    duration_s: float,
    report_path: Path | None,
    make_sidecar: MakeSidecar,
    *,
    seed: int = 1,
    page_url: str = "http://127.0.0.1:9464/",
    stream: TextIO | None = None,
) -> int:
    """Play the incident and say whether the sidecar saw it: 0 if it did, 1 if not, 130 after Ctrl-C.

    Writes the report (`monitor/demo/README.md` has its schema) where a path is given. Raises ValueError for a
    duration too short for the windows to fill.
    """
    if duration_s < MINIMUM_DURATION_S:
        raise ValueError(f"the demo needs at least {MINIMUM_DURATION_S:.0f} s to fill its windows")
    with (
        tempfile.TemporaryDirectory(prefix="groundwatch-demo-") as folder,
        view_for(stream, page_url) as view,
    ):
        catalogue, golden = Path(folder, "catalogue.jsonl"), Path(folder, "golden.jsonl")
        write_catalogue(catalogue)
        write_golden(golden)
        sidecar = make_sidecar(demo_settings(duration_s), catalogue, golden)
        try:
            sidecar.start()
            return _play(Schedule.of(duration_s), sidecar, view, seed, report_path)
        except KeyboardInterrupt:
            view.say("interrupted")
            return INTERRUPTED
        except ServiceCrashed as error:
            view.say(str(error))
            return FAILED
        finally:
            sidecar.stop()


def _play(schedule: Schedule, sidecar: Sidecar, view: View, seed: int, report_path: Path | None) -> int:
    watcher = Watcher()
    with ServiceProcess(f"127.0.0.1:{sidecar.grpc_port}", seed, schedule) as service:
        _watch(schedule, sidecar, service, watcher, view)
        service.stop()
        status = sidecar.status()
        report = draw_up(
            schedule,
            service.acts,
            watcher,
            version=status.version,
            seed=seed,
            counts={"service": service.counts, "sidecar": status.counts},
        )
    if report_path is not None:
        report_path.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    view.conclude(report)
    return PASSED if report.passed else FAILED


def _watch(
    schedule: Schedule, sidecar: Sidecar, service: ServiceProcess, watcher: Watcher, view: View
) -> None:
    """Look until the service is done, and a little longer where an alert is still open; no further than to the
    sidecar's own failure."""
    done_at: float | None = None
    patience_s = 2.0 + 0.02 * schedule.duration_s
    while done_at is None or (watcher.firing and time.time() - done_at < patience_s):
        if done_at is None and service.return_code is not None:
            _require_done(service)
            done_at = time.time()
        status = sidecar.status()
        watcher.see(status)
        view.show(_moment(schedule, service, status, watcher))
        if watcher.problem:
            return
        time.sleep(_LOOK_EVERY_S)


def _require_done(service: ServiceProcess) -> None:
    code = service.return_code
    service.stop()
    if code != 0 or not service.counts:
        raise ServiceCrashed(f"the demo service ended early with status {code}:\n{service.last_words()}")


def _moment(schedule: Schedule, service: ServiceProcess, status: Status, watcher: Watcher) -> Moment:
    started = dict(service.acts)
    first = min(started.values(), default=None)
    elapsed = 0.0 if first is None else time.time() - first
    playing = [scheduled for scheduled in schedule.acts if scheduled.act.name in started]
    return Moment(
        elapsed_s=elapsed,
        duration_s=schedule.duration_s,
        act=playing[-1] if playing else None,
        status=status,
        alerts=watcher.sightings,
    )
