"""Which request a person's verdict belongs to: by link, trace, response id or session, for as long as people take.

Feedback that precedes its request waits for it, as long as spans may come late. Feedback that follows finds it by what
is remembered of requests: the ids and no spans, so that a day of them is bounded by count.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collectors.conventions import (
    RESPONSE_ID,
    SESSION_ATTRIBUTES,
    Field,
    SpanKind,
    has_feedback,
    kind_of,
    read,
)
from collectors.otlp_logs import NO_TRACE
from collectors.span import AttributeValue, Receipt, Span
from collectors.trace import Feedback

_PER_SESSION = "session:"
_PER_RESPONSE = "response:"


@dataclass(slots=True, frozen=True)
class Target:
    """What feedback says of its request: a trace and perhaps a span of it, else a response or a session."""

    trace_id: str | None = None
    span_id: str | None = None
    response_id: str | None = None
    session: str | None = None

    @property
    def key(self) -> str | None:
        """What it waits under: a trace's id, or a response or a session with its prefix."""
        if self.trace_id is not None:
            return self.trace_id
        if self.response_id is not None:
            return _PER_RESPONSE + self.response_id
        return None if self.session is None else _PER_SESSION + self.session


@dataclass(slots=True, frozen=True)
class LateFeedback:
    """Feedback on a request whose spans are gone: what it was called, and the verdicts.

    Whoever takes it must `release` it once it is safe.
    """

    request_id: str
    """`RagTrace.id`."""
    feedback: tuple[Feedback, ...]
    identity: str
    """The same for the same feedback sent again."""
    receipt: Receipt | None = None

    def release(self) -> None:
        """Let go of the message that it came in."""
        if self.receipt is not None:
            self.receipt.release()


def target_of(span: Span) -> Target | None:
    """What the feedback on this span is about; None where it carries none, or only on its own request."""
    if not has_feedback(span):
        return None
    link = span.links[0] if span.links else None
    if link is not None and link.trace_id != span.trace_id:
        return Target(link.trace_id, link.span_id)
    said = dict(span.events[0].attributes) if span.is_log else span.attributes
    if span.is_log and span.trace_id != NO_TRACE:
        return Target(span.trace_id, span.parent_id)
    if span.is_log or (span.parent_id is None and kind_of(span) is SpanKind.EVALUATOR):
        target = Target(response_id=_id(said.get(RESPONSE_ID)), session=next(_sessions(said), None))
        return target if target.key is not None or span.is_log else None
    return None


def keys_of(span: Span, names: Sequence[str]) -> list[str]:
    """What feedback on this span's request may wait under, its trace aside; `names` are `Spoken.refers`."""
    keys = []
    for name in names:
        value = _id(span.attributes.get(name))
        if value is not None:
            keys.append((_PER_RESPONSE if name == RESPONSE_ID else _PER_SESSION) + value)
    return keys


def verdicts(span: Span) -> tuple[Feedback, ...]:
    """The feedback that the span carries."""
    reading = read(Field.FEEDBACK, span, set())
    return () if reading is None else reading.value


def distinct(told: Mapping[str, Sequence[Feedback]]) -> tuple[Feedback, ...]:
    """The verdicts by time, each once though it was told in several ways (a span that links, and a log record): of each
    label as many as the way gave that told most of it.

    >>> up = Feedback(label="thumbs_up")
    >>> len(distinct({"log": [up], "span": [up]})), len(distinct({"log": [up, up]}))
    (1, 2)
    """
    found: list[Feedback] = []
    for label in {one.label for many in told.values() for one in many}:
        ways = [[one for one in many if one.label == label] for _, many in sorted(told.items())]
        most = max(ways, key=len)
        found.extend(most)
    return tuple(sorted(found, key=lambda one: (one.time_ns or 0, one.label)))


def _sessions(attributes: Mapping[str, AttributeValue]) -> Iterator[str]:
    for name in SESSION_ATTRIBUTES:
        session = _id(attributes.get(name))
        if session is not None:
            yield session


def _id(value: AttributeValue) -> str | None:
    return value if isinstance(value, str) and value else None


@dataclass(slots=True)
class _Remembered:
    came_at: float
    trace_id: str
    span_id: str | None


@dataclass(slots=True)
class RequestIndex:
    """Remembers for `window_s` which traces, responses and sessions there were, `capacity` of each kind at most; the
    oldest go first. Memory: some 300 bytes an entry."""

    window_s: float
    capacity: int
    forgotten_early: int = 0
    """Entries that made room before their window ended."""
    _keys: OrderedDict[str, _Remembered] = field(default_factory=OrderedDict)
    _requests: OrderedDict[str, tuple[float, tuple[str, ...]]] = field(default_factory=OrderedDict)

    def saw(self, span: Span, names: Sequence[str], now: float) -> list[str]:
        """A span of a request came, which refers to it by these attributes; the keys under which feedback may have
        waited for it."""
        keys = keys_of(span, names)
        for key in keys:
            # A session's feedback is on its last answer, a response's on the span that gave it.
            span_id = span.span_id if key.startswith(_PER_RESPONSE) else None
            known = self._keys.get(key)
            if known is None:
                self._keys[key] = _Remembered(now, span.trace_id, span_id)
            else:  # nearly always told by the request's span before this one
                known.came_at, known.trace_id, known.span_id = now, span.trace_id, span_id
                self._keys.move_to_end(key)
        while len(self._keys) > 2 * self.capacity:
            self._keys.popitem(last=False)
            self.forgotten_early += 1
        return keys

    def closed(self, trace_id: str, anchor: str, now: float) -> None:
        """A request was given under this name."""
        _, known = self._requests.get(trace_id, (now, ()))
        self._requests[trace_id] = (now, known if anchor in known else (*known, anchor))
        self._requests.move_to_end(trace_id)
        while len(self._requests) > self.capacity:
            self._requests.popitem(last=False)
            self.forgotten_early += 1

    def resolve(self, target: Target) -> Target:
        """With the trace, where only a response or a session was named and it is remembered."""
        if target.trace_id is not None or target.key is None:
            return target
        known = self._keys.get(target.key)
        return target if known is None else Target(known.trace_id, known.span_id)

    def request_id(self, target: Target) -> str | None:
        """The closed request: the trace's only one, or the one named after the span; else it would be a guess."""
        if target.trace_id is None or target.trace_id not in self._requests:
            return None
        _, anchors = self._requests[target.trace_id]
        anchor = anchors[0] if len(anchors) == 1 else target.span_id if target.span_id in anchors else None
        return None if anchor is None else f"{target.trace_id}:{anchor}"

    def expire(self, now: float) -> None:
        """Forget what is older than the window."""
        limit = now - self.window_s
        while self._keys and next(iter(self._keys.values())).came_at <= limit:
            self._keys.popitem(last=False)
        while self._requests and next(iter(self._requests.values()))[0] <= limit:
            self._requests.popitem(last=False)
