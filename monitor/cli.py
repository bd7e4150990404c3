"""The command line. Errors go to stderr with exit status 2 and no traceback."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from detectors.hhem_files import CheckpointError
from monitor import BLAS_KERNEL, dead_letters
from monitor.config import Config, ConfigError, example_yaml, json_schema, load
from monitor.drift_tools import command as drift_tools
from monitor.knowledge import KnowledgeError
from monitor.overview import RELEASE
from monitor.store import StoreError

_USAGE = 2
_EXPECTED = (ConfigError, KnowledgeError, StoreError, CheckpointError, OSError, ValueError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit status."""
    arguments = _parser().parse_args(argv)
    level = arguments.log_level or arguments.usual_level
    logging.basicConfig(
        level=level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    if level != "debug":
        logging.getLogger("kafka").setLevel(logging.WARNING)  # it tells of every fetch of metadata
    if BLAS_KERNEL is not None:
        logging.getLogger(__name__).info("OpenBLAS kernel %s, by the processor's flags", BLAS_KERNEL)
    try:
        return int(arguments.command(arguments))
    except BrokenPipeError:  # the reader has had enough: `groundwatch inspect ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except _EXPECTED as error:
        print(f"groundwatch: {error}", file=sys.stderr)
        return _USAGE
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="groundwatch",
        description="Online monitoring sidecar and drift detector for production RAG.",
        epilog="Start with `groundwatch demo`; then `groundwatch config-example > groundwatch.yaml` and "
        "`groundwatch run --config groundwatch.yaml`.",
    )
    parser.add_argument("--version", action="version", version=f"groundwatch {RELEASE}")
    _add_log_level(parser, None)
    parser.set_defaults(usual_level="warning")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_run(commands)
    _add_config_commands(commands)
    _add_demo(commands)
    _add_captures(commands)
    drift_tools.add_commands(commands)
    dead_letters.add_commands(commands)
    for command in commands.choices.values():
        _add_log_level(command, argparse.SUPPRESS)  # before the command or behind it
    return parser


def _add_log_level(parser: argparse.ArgumentParser, default: str | None) -> None:
    levels = ("debug", "info", "warning", "error")
    parser.add_argument(
        "--log-level", default=default, choices=levels, help="what to log on stderr (run: info, else warning)"
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds between 0 and 3600")
    return seconds


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is no port: 0 to 65535, 0 for any free one")
    return port


def _report(text: str) -> Path:
    """Checked before the work, not after it."""
    path = Path(text)
    if (
        path.is_dir()
        or not path.parent.is_dir()
        or not os.access(path if path.exists() else path.parent, os.W_OK)
    ):
        raise argparse.ArgumentTypeError(f"{text} cannot be written: its folder must exist and be writable")
    return path


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = commands.add_parser(
        "run",
        help="the sidecar: receive, judge, watch, alert",
        description="Runs until SIGTERM or Ctrl-C, then drains within --drain seconds. Exit status 0 after a clean "
        "drain, 1 if a component died or the drain was not done in time.",
    )
    run.add_argument(
        "--config", type=Path, metavar="FILE", help="YAML; without it every default holds (OTLP on 127.0.0.1)"
    )
    run.add_argument(
        "--drain", type=_seconds, default=25.0, metavar="SECONDS", help="deadline of the drain (25)"
    )
    run.set_defaults(command=_run, usual_level="info")


def _add_config_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    check = commands.add_parser(
        "check-config",
        help="say what is wrong with a configuration",
        description="Prints every problem with its path in the file; exit status 0 if there is none, 2 otherwise.",
    )
    check.add_argument("file", type=Path, metavar="FILE")
    check.set_defaults(command=_check_config)
    example = commands.add_parser(
        "config-example",
        help="print a commented configuration with every default",
        description="Prints YAML with every setting, its default and what it does: > groundwatch.yaml",
    )
    example.set_defaults(command=_config_example)
    schema = commands.add_parser(
        "config-schema",
        help="print the configuration's JSON schema",
        description="Prints the JSON Schema (draft 2020-12) of the configuration file, for editors and checks.",
    )
    schema.set_defaults(command=_config_schema)


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser(
        "demo",
        help="a scripted incident: a small RAG service in a process of its own, watched live",
        description="Starts the sidecar with embedded defaults and a small real RAG service beside it, then plays "
        "healthy traffic, a wrong filter, invented facts, uncovered questions and recovery. Exit status 0 only if the "
        "expected guardrails fired and resolved, and none fired that its act does not explain.",
    )
    demo.add_argument(
        "--duration",
        default="3m",
        metavar="D",
        help="length of the incident: 90s, 3m (default 3m; at least 60s)",
    )
    demo.add_argument("--report", type=_report, metavar="FILE", help="write what fired and when as JSON")
    demo.add_argument("--seed", type=int, default=7, metavar="N", help="seed of the traffic (7)")
    demo.add_argument("--port", type=_port, default=9464, metavar="P", help="status page and metrics (9464)")
    demo.set_defaults(command=_demo)


def _add_captures(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    kinds = "OTLP captures: .json, .jsonl of export requests, .pb, gzip of each; or folders of them"
    inspect = commands.add_parser(
        "inspect",
        help="read captures and print one RagTrace a line as JSON",
        description="Reads captures through the real decoder, assembler and normaliser. A line that cannot be decoded "
        "or a span, is reported on stderr by file and line; the others are printed and the exit status is 1.",
    )
    inspect.add_argument("paths", nargs="+", type=Path, metavar="PATH", help=kinds)
    inspect.add_argument("--config", type=Path, metavar="FILE", help="for its normalise section")
    inspect.set_defaults(command=_inspect)
    replay = commands.add_parser(
        "replay",
        help="captures through the whole pipeline in their own time",
        description="As fast as it goes, with a progress bar on stderr; alerts are evaluated and reported, not "
        "delivered. The report holds counts, every rate with its interval, verdicts and alerts.",
    )
    replay.add_argument("paths", nargs="+", type=Path, metavar="PATH", help=kinds)
    replay.add_argument("--config", type=Path, metavar="FILE")
    replay.add_argument(
        "--report", type=_report, metavar="FILE", help="write the report here (default: stdout)"
    )
    replay.set_defaults(command=_replay)


def _run(arguments: argparse.Namespace) -> int:
    from monitor.build import build_sidecar

    return build_sidecar(load(arguments.config)).run(arguments.drain)


def _check_config(arguments: argparse.Namespace) -> int:
    config = load(arguments.file)
    print(f"{arguments.file}: no problem found; {_sources(config)}")
    return 0


def _sources(config: Config) -> str:
    collectors = config.collectors
    enabled = [
        f"OTLP/gRPC on {collectors.otlp_grpc.host}:{collectors.otlp_grpc.port}"
        if collectors.otlp_grpc.enabled
        else "",
        f"OTLP/HTTP on {collectors.otlp_http.host}:{collectors.otlp_http.port}"
        if collectors.otlp_http.enabled
        else "",
        f"Kafka topics {', '.join(collectors.kafka.topics)}" if collectors.kafka is not None else "",
    ]
    return "reads " + ", ".join(filter(None, enabled))


def _config_example(_: argparse.Namespace) -> int:
    sys.stdout.write(example_yaml())
    return 0


def _config_schema(_: argparse.Namespace) -> int:
    json.dump(json_schema(), sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    from monitor.demo.command import demo

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the service and its files go too
    return demo(arguments.duration, arguments.report, seed=arguments.seed, port=arguments.port)


def _inspect(arguments: argparse.Namespace) -> int:
    from monitor.inspecting import Inspection

    config = load(arguments.config)
    inspection = Inspection(config.assembly, config.normalise)
    found = False
    for trace in inspection.traces(arguments.paths):
        print(trace.model_dump_json())
        found = True
    if not found:
        print(f"groundwatch: {inspection.spans} spans, none of a RAG request", file=sys.stderr)
    problems = inspection.problems()
    for problem in problems:
        print(f"groundwatch: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _replay(arguments: argparse.Namespace) -> int:
    from monitor.replay_report import replay

    report = replay(load(arguments.config), arguments.paths)
    text = json.dumps(report, indent=2, allow_nan=False)
    if arguments.report is None:
        print(text)
    else:
        arguments.report.write_text(text + "\n", encoding="utf-8")
    return 1 if report["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
