"""`groundwatch drift explain`: what a drift alarm was about, from the state file."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from monitor.config import load
from monitor.drift_alarms import DriftAlarm, alarms_in
from monitor.drift_tools.picture import draw
from monitor.store import Store, StoreError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "id",
        nargs="?",
        metavar="ID",
        help="as in the list and on the page; `last` for the last; none: list them",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="whose store.path is read")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="write a picture (SVG): units and shares"
    )
    parser.add_argument("--json", action="store_true", help="everything that is known, as JSON")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Print one alarm, or the list. Exit status 1 where there is no such alarm."""
    path = load(arguments.config).store.path
    if not path.is_file():
        raise StoreError(
            f"{path}: there is no state file; --config names the configuration whose store.path it is"
        )
    with Store.open(path) as store:
        alarms = alarms_in(store)
    if arguments.id is None:
        _list(list(alarms.values()), arguments.json)
        return 0
    alarm = next(reversed(alarms.values()), None) if arguments.id == "last" else alarms.get(arguments.id)
    if alarm is None:
        known = f"; the last is {next(reversed(alarms))}" if alarms else ": there has been none"
        print(f"groundwatch: {path}: no drift alarm {arguments.id}{known}", file=sys.stderr)
        return 1
    if arguments.picture is not None:
        arguments.picture.write_text(draw(alarm), encoding="utf-8")
    if arguments.json:
        sys.stdout.write(alarm.model_dump_json(indent=2) + "\n")
    else:
        _tell(alarm)
    return 0


def _list(alarms: list[DriftAlarm], as_json: bool) -> None:
    if as_json:
        for alarm in alarms:
            sys.stdout.write(alarm.model_dump_json(exclude={"reference", "current"}) + "\n")
        return
    console = Console(highlight=False, soft_wrap=True, markup=False)
    for alarm in alarms:
        console.print(f"{alarm.id}  {_clock(alarm.began_at)} to {_clock(alarm.ended_at)}  {alarm.encoder}")
        if alarm.explanation is not None:
            console.print(f"    {alarm.explanation.wording}")
    if not alarms:
        console.print("no drift alarm is known")


def _tell(alarm: DriftAlarm) -> None:
    console = Console(highlight=False, soft_wrap=True, markup=False)
    console.print(f"{alarm.id}: the queries' embeddings ({alarm.encoder}) left their reference")
    console.print(
        f"began {_clock(alarm.began_at)}, ended {_clock(alarm.ended_at)}; seen by {', '.join(alarm.detectors)}\n"
    )
    explanation = alarm.explanation
    if explanation is None:
        console.print("Nothing is known of what moved: too few units were kept.")
        return
    console.print(
        f"What moved: {len(explanation.findings)} of {explanation.tested} slices and topics tested, at a false "
        f"discovery rate of {explanation.false_discovery_rate:.0%}; {explanation.reference_size} units before, "
        f"{explanation.current_size} in the alarm"
    )
    for finding in explanation.findings:
        console.print(f"  {finding.wording}")
        for example in finding.examples[1:]:
            console.print(f'      "{example}"')


def _clock(at: float | None) -> str:
    return "not yet" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
