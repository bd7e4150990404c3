"""`groundwatch drift calibrate`: arguments in; a table, JSON and a picture out."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from detectors.embedding import HashedNgramEncoder
from monitor.config import load
from monitor.drift_tools.calibration import CalibrationReport, CalibrationSettings, calibrate
from monitor.drift_tools.calibration_picture import draw
from monitor.drift_tools.encoders import ENCODER_HELP, encoder_named
from monitor.drift_tools.samples import FORMATS, UnreadableSample, read_sample

_QUICK = CalibrationSettings(units_per_day=1.0, streams=5, calm_days=2)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("reference", type=Path, metavar="REF", help=FORMATS)
    parser.add_argument(
        "--units-per-day",
        type=_positive,
        metavar="N",
        help="sessions a day (default: as many as the sample has)",
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="for its query_drift section: budget, sizes, seed"
    )
    parser.add_argument("--encoder", metavar="NAME", help=ENCODER_HELP)
    parser.add_argument("--streams", type=int, default=20, metavar="N", help="streams of each shift (20)")
    parser.add_argument("--quick", action="store_true", help="5 streams, and two days without a shift")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of what is drawn (0)")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="write a picture (SVG): delays by shift")
    parser.add_argument("--json", action="store_true", help="everything as one JSON object")
    parser.set_defaults(command=run)


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < 1e7:
        raise argparse.ArgumentTypeError(f"{text} is no number of sessions a day between 0 and 10,000,000")
    return number


def run(arguments: argparse.Namespace) -> int:
    """Calibrate. Exit status 1 where a line of the sample could not be read, the others being used."""
    drift = load(arguments.config).query_drift
    sample = read_sample(arguments.reference)
    encoder = encoder_named(arguments.encoder)
    if encoder is None and not sample.has_vectors:
        if not sample.has_texts:
            raise UnreadableSample(f"{sample.path}: either every line holds a vector, or every line a text")
        encoder = HashedNgramEncoder()
    units = sample.units(encoder)
    settings = CalibrationSettings(
        arguments.units_per_day or float(len(units)),
        _QUICK.streams if arguments.quick else max(arguments.streams, 1),
        _QUICK.calm_days if arguments.quick else 30,
        arguments.seed,
    )
    columns = (TextColumn("{task.description:24}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        report = calibrate(
            units, drift, settings, lambda what, share: bar.update(task, description=what, completed=share)
        )
    if arguments.picture is not None:
        arguments.picture.write_text(draw(report), encoding="utf-8")
    if arguments.json:
        json.dump(report.as_dict(), sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        _tell(report)
    for problem in sample.skipped:
        print(f"groundwatch: {problem}", file=sys.stderr)
    return 1 if sample.skipped else 0


def _tell(report: CalibrationReport) -> None:
    console = Console(highlight=False, soft_wrap=True, markup=False, width=120)
    console.print(
        f"reference of {report.reference_units:,} units; {report.units_per_day:,.0f} units a day; budget "
        f"{report.budget:g} false alarms in {report.period_days:g} days"
    )
    for refusal in report.refused:
        console.print(f"Not armed in the sidecar: {refusal}. The table shows what it would see if it were.")
    console.print(
        f"false alarms in {report.calm_units:,} units without a shift: {report.false_alarms}, which is "
        f"{report.false_alarms_a_period:.2g} in {report.period_days:g} days (below {report.false_alarms_upper:.2g} "
        f"with 95 % confidence)\n"
    )
    console.print(_table(report))
    console.print("Delays in hours (units). Smallest shift seen within a day, in nine streams of ten:")
    for kind, size in report.smallest.items():
        console.print(f"  {kind}: {size or 'none of those tried'}")
    if report.novel_topic:
        console.print(f'The novel topic was "{report.novel_topic}".')
    for reason in report.skipped:
        console.print(f"Not tried: {reason}.")
    console.print(
        "A change of the encoder's precision is seen by its probes (guardrail encoder_change), not here."
    )


def _table(report: CalibrationReport) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("shift", "size", "seen in a day", "mix / novelty", "median delay", "90 %"):
        table.add_column(heading, no_wrap=True)
    for result in report.shifts:
        table.add_row(
            result.kind,
            result.size,
            f"{result.seen} of {result.streams} ({result.power_lower:.0%} to {result.power_upper:.0%})",
            f"{result.by_mix} / {result.by_novelty}",
            _delay(result.median_delay, report),
            _delay(result.p90_delay, report),
        )
    return table


def _delay(units: float | None, report: CalibrationReport) -> str:
    return "over a day" if units is None else f"{24 * units / report.units_per_day:.1f} h ({units:,.0f})"
