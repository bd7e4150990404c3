"""`groundwatch dead-letters`: messages that nobody could read, listed, shown and given a second chance."""

from __future__ import annotations

import argparse
import json
import os
import ssl
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

from collectors.dead_letter import DeadLetter, read
from collectors.otlp_sender import OtlpHttpTarget
from collectors.redrive import Ledger, RedriveTarget, Result, redrive
from monitor.config import Config, load
from monitor.dead_letter_view import HEADINGS, clock, fields, letter_row, preview, printable, row, today
from monitor.subcommands import Subcommands

_FINE = frozenset({Result.SENT, Result.SENT_BEFORE, Result.EMPTY})
_WHERE = (
    "They are kept where the configuration's dead_letters section says: in the file of `path` and those put aside "
    "beside it, and in `kafka_topic` if it is set. Only messages read from Kafka become dead letters: who sends over "
    "OTLP is told at once what is wrong and keeps the message."
)


def add_commands(commands: Subcommands) -> None:
    """Add `dead-letters` and its own commands to the command line."""
    group = commands.add_parser(
        "dead-letters", help="messages that could not be read: list, show, re-drive", description=_WHERE
    )
    own = group.add_subparsers(metavar="COMMAND", required=True)
    listing = _command(own, "list", _list, "one line a letter, oldest first", _WHERE)
    listing.add_argument("--reason", metavar="REASON", help="only those of this reason, e.g. truncated")
    listing.add_argument(
        "--json", action="store_true", help="JSON lines instead of a table, without the bytes"
    )
    show = _command(
        own,
        "show",
        _show,
        "everything about one letter, with a preview of its bytes",
        "Prints where the message came from, why it was put aside, whether it could be read today, and its beginning: "
        "JSON as text, anything else as hex.",
    )
    show.add_argument(
        "id", metavar="ID", help="as in the list; its first digits suffice where no other has them"
    )
    show.add_argument("--raw", action="store_true", help="write the message itself to stdout, byte for byte")
    again = _command(
        own,
        "redrive",
        _redrive,
        "decode again and send what can be read now",
        "Sends letters that can be read now, after a fix or with wider limits, to a running receiver over OTLP/HTTP, "
        "or back into a Kafka topic. Letters stay where they are; that one was sent is noted in a file beside them, "
        "and it is not sent again unless --again is given. Exit status 0 if nothing that was chosen remains to be done "
        "and 1 if some could not be read or were not taken.",
    )
    again.add_argument("ids", nargs="*", metavar="ID", help="which; their first digits suffice")
    again.add_argument("--all", action="store_true", help="every letter")
    again.add_argument("--reason", metavar="REASON", help="with --all: only those of this reason")
    again.add_argument("--again", action="store_true", help="also those that were sent before")
    where = again.add_mutually_exclusive_group()
    where.add_argument(
        "--to",
        metavar="URL",
        help="receiver, e.g. http://127.0.0.1:4318 (default: the configuration's own otlp_http)",
    )
    where.add_argument(
        "--to-topic",
        nargs="?",
        const="",
        metavar="TOPIC",
        help="produce the bytes as they are to this topic, or without a name each to the one it came from",
    )
    again.add_argument(
        "--token-variable",
        metavar="NAME",
        help="environment variable with the receiver's bearer token (default: the configuration's own)",
    )
    again.add_argument(
        "--ca", type=Path, metavar="FILE", help="authorities that vouch for an https receiver, PEM"
    )
    again.add_argument(
        "--certificate", type=Path, metavar="FILE", help="our certificate, where it asks for one, PEM"
    )
    again.add_argument("--key", type=Path, metavar="FILE", help="its key, PEM")


def _command(own: Subcommands, name: str, run: Any, text: str, description: str) -> argparse.ArgumentParser:
    command = own.add_parser(name, help=text, description=description)
    command.add_argument(
        "--config", type=Path, metavar="FILE", help="for its dead_letters and collectors sections"
    )
    command.add_argument("--file", type=Path, metavar="PATH", help="this file of letters instead")
    command.set_defaults(command=run)
    return command


class _Box:
    """The letters of every place that is configured; what is none is told on stderr and counted."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.config: Config = load(arguments.config)
        self._alone = arguments.file is not None
        self.path: Path = arguments.file or self.config.dead_letters.path
        self.ledger = Ledger(self.path)
        self.unreadable = 0

    def letters(self, reason: str | None = None) -> Iterator[DeadLetter]:
        for entry in chain(read(self.path), self._of_topic()):
            if not isinstance(entry, DeadLetter):
                self.unreadable += 1
                print(f"groundwatch: {entry}", file=sys.stderr)
            elif reason is None or entry.reason == reason:
                yield entry

    def chosen(self, prefixes: Sequence[str]) -> list[DeadLetter]:
        """The letters with these ids, in the order given. Raises ValueError for one that names none or several."""
        kept: dict[str, dict[str, DeadLetter]] = {prefix: {} for prefix in prefixes}
        for letter in self.letters():
            for prefix in prefixes:
                if prefix and letter.id.startswith(prefix.lower()):
                    kept[prefix][letter.id] = letter
        for prefix, found in kept.items():
            if len(found) != 1:
                raise ValueError(f"{len(found) or 'no'} dead letters have an id that begins with {prefix!r}")
        return [letter for found in kept.values() for letter in found.values()]

    def _of_topic(self) -> Iterable[Any]:
        topic, kafka = self.config.dead_letters.kafka_topic, self.config.collectors.kafka
        if topic is None or kafka is None or self._alone:
            return ()
        from collectors.kafka_letters import read_topic

        return read_topic(kafka, topic)

    @property
    def status(self) -> int:
        return 1 if self.unreadable else 0


def _list(arguments: argparse.Namespace) -> int:
    box = _Box(arguments)
    sent = box.ledger.sent()
    count = 0
    for count, letter in enumerate(box.letters(arguments.reason), start=1):
        if arguments.json:
            print(json.dumps(fields(letter) | {"sent": clock(sent.get(letter.id))}))
            continue
        if count == 1:
            print(row(*HEADINGS))
        print(letter_row(letter, sent.get(letter.id)))
    if not count:
        print(f"groundwatch: no dead letters in {box.path}", file=sys.stderr)
    return box.status


def _show(arguments: argparse.Namespace) -> int:
    box = _Box(arguments)
    (letter,) = box.chosen([arguments.id])
    if arguments.raw:
        sys.stdout.buffer.write(letter.raw)
        return 0
    sent = box.ledger.sent().get(letter.id)
    for name, value in fields(letter).items():
        print(f"{name + ':':<11}{'-' if value is None else printable(str(value))}")
    print(f"{'re-driven:':<11}{clock(sent) or '-'}")
    print(f"{'today:':<11}{today(letter)}\n")
    print(preview(letter.raw))
    return 0


def _redrive(arguments: argparse.Namespace) -> int:
    box = _Box(arguments)
    if bool(arguments.ids) == arguments.all:
        raise ValueError("name the letters to re-drive, or give --all")
    letters = box.letters(arguments.reason) if arguments.all else box.chosen(arguments.ids)
    results: Counter[Result] = Counter()
    target = _target(arguments, box.config)
    with closing(target):
        for done in redrive(letters, target, box.ledger, time.time, again=arguments.again):
            results[done.result] += 1
            print(f"{done.letter.id}  {done.result}{': ' if done.detail else ''}{done.detail}")
    print(", ".join(f"{count} {result}" for result, count in sorted(results.items())) or "no dead letters")
    return 1 if set(results) - _FINE else box.status


def _target(arguments: argparse.Namespace, config: Config) -> RedriveTarget:
    if arguments.to_topic is not None:
        if config.collectors.kafka is None:
            raise ValueError("--to-topic needs collectors.kafka in the configuration, whose brokers it is on")
        from collectors.kafka_letters import TopicTarget

        return TopicTarget(config.collectors.kafka, arguments.to_topic or None)
    own = config.collectors.otlp_http
    if arguments.to is None and not own.enabled:
        raise ValueError(
            "collectors.otlp_http is not enabled: name a receiver with --to, or a topic with --to-topic"
        )
    host = "127.0.0.1" if own.host in ("0.0.0.0", "::") else own.host  # noqa: S104 (compared, not bound)
    url = arguments.to or f"http{'s' if own.tls else ''}://{host}:{own.port}"
    token = None if own.bearer_token is None or arguments.to else own.bearer_token.get_secret_value()
    if arguments.token_variable is not None:
        token = os.environ.get(arguments.token_variable)
        if not token:
            raise ValueError(f"the environment variable {arguments.token_variable} holds no token")
    context = ssl.create_default_context(cafile=arguments.ca)
    if arguments.certificate is not None:
        context.load_cert_chain(arguments.certificate, arguments.key)
    return OtlpHttpTarget(url, token, context)
