"""`groundwatch drift test`: arguments in, a table or JSON out."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from monitor.drift_tools import calibrating, past_alarms
from monitor.drift_tools.comparison import Comparison, ComparisonSettings, compare
from monitor.drift_tools.encoders import ENCODER_HELP, encoder_named
from monitor.drift_tools.samples import FORMATS, read_sample
from monitor.subcommands import Subcommands

_DRIFT = 3
_ONE_LOOK = (
    "One look at two samples. Looking again and again at p-values rejects sooner or later, whatever happens: for that, "
    "the sidecar has an alarm with a false-alarm budget."
)


def add_commands(commands: Subcommands) -> None:
    """Add `drift` and its own commands to the command line."""
    group = commands.add_parser(
        "drift",
        help="compare samples of queries, explain an alarm",
        description="Samples of queries compared by hand, and past alarms explained.",
    )
    own = group.add_subparsers(metavar="COMMAND", required=True)
    test = own.add_parser(
        "test",
        help="do two samples of queries differ, and in what?",
        description=f"Tests by MMD, with a classifier as second opinion, and names the slices and topics that moved. "
        f"Sessions are the units. {_ONE_LOOK} Exit status 0, or 3 with --fail if they differ; 1 if a line could not be "
        "read, the others being compared.",
    )
    test.add_argument("reference", type=Path, metavar="REF", help=FORMATS)
    test.add_argument(
        "current", type=Path, metavar="CUR", help="the same of the queries to be compared with it"
    )
    test.add_argument("--level", type=_level, default=0.05, metavar="P", help="level of the test (0.05)")
    test.add_argument(
        "--permutations", type=_permutations, default=1000, metavar="N", help="relabellings (1000)"
    )
    test.add_argument("--seed", type=int, default=0, metavar="N", help="of the relabellings (0)")
    test.add_argument("--encoder", metavar="NAME", help=ENCODER_HELP)
    test.add_argument("--json", action="store_true", help="everything as one JSON object")
    test.add_argument("--fail", action="store_true", help="exit status 3 if the samples differ")
    test.set_defaults(command=_test)
    calibrating.add_arguments(
        own.add_parser(
            "calibrate",
            help="what would the drift alarms see in your own queries, and how soon?",
            description="Injects known shifts into a sample of your queries and replays streams to the alarm: false "
            "alarms against the budget, power within a day, delays, and the smallest shift of each kind that is seen "
            "within a day. Half of the sample is the reference.",
        )
    )
    past_alarms.add_arguments(
        own.add_parser(
            "explain",
            help="a past alarm: what moved, with queries and a picture",
            description="Without an ID lists the drift alarms of the state file, the oldest first; with one tells what "
            "moved: slices and topics with their shares before and then, and queries that show it. The sidecar may be "
            "running.",
        )
    )


def _level(text: str) -> float:
    level = float(text)
    if not 0 < level < 1:
        raise argparse.ArgumentTypeError(f"{text} is no level between 0 and 1")
    return level


def _permutations(text: str) -> int:
    count = int(text)
    if not 99 <= count <= 100_000:
        raise argparse.ArgumentTypeError(f"{text} is no number of relabellings between 99 and 100,000")
    return count


def _test(arguments: argparse.Namespace) -> int:
    reference, current = read_sample(arguments.reference), read_sample(arguments.current)
    settings = ComparisonSettings(permutations=arguments.permutations, seed=arguments.seed)
    comparison = compare(reference, current, settings, encoder_named(arguments.encoder))
    differs = comparison.differs(arguments.level)
    if arguments.json:
        json.dump(comparison.as_dict() | {"level": arguments.level, "differs": differs}, sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        _print(comparison, arguments)
    skipped = (*reference.skipped, *current.skipped)
    for problem in skipped:
        print(f"groundwatch: {problem}", file=sys.stderr)
    return 1 if skipped else _DRIFT if arguments.fail and differs else 0


def _print(comparison: Comparison, arguments: argparse.Namespace) -> None:
    console = Console(highlight=False, soft_wrap=True, markup=False)
    for name, path, queries, units in zip(
        ("reference", "current"),
        (arguments.reference, arguments.current),
        comparison.queries,
        comparison.units,
        strict=True,
    ):
        console.print(f"{name:10} {path}: {queries} queries in {units} units")
    console.print(f"vectors    {comparison.vectors}\n")
    console.print(_table(comparison))
    verdict = "differ" if comparison.differs(arguments.level) else "do not differ"
    console.print(f"The samples {verdict} at a level of {arguments.level:g} over all tests.\n")
    _print_explanation(console, comparison)
    for note in comparison.notes:
        console.print(f"Note: {note}.")
    console.print(_ONE_LOOK)


def _table(comparison: Comparison) -> Table:
    table = Table("test", "statistic", "p", "p adjusted", box=None, padding=(0, 3, 0, 0))
    for test in comparison.tests:
        table.add_row(test.name, f"{test.statistic:.4g}", f"{test.p_value:.4g}", f"{test.adjusted:.4g}")
    return table


def _print_explanation(console: Console, comparison: Comparison) -> None:
    explanation = comparison.explanation
    if explanation is None:
        return
    console.print(
        f"What moved: {len(explanation.findings)} of {explanation.tested} slices and topics tested, at a false "
        f"discovery rate of {explanation.false_discovery_rate:.0%}"
    )
    for finding in explanation.findings:
        console.print(f"  {finding.wording}")
    untested = {reason: count for reason, count in explanation.not_tested.items() if count}
    if untested:
        console.print(
            "  not tested: " + ", ".join(f"{n} {why.replace('_', ' ')}" for why, n in untested.items())
        )
    console.print()
