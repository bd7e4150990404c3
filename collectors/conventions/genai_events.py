"""OpenTelemetry GenAI events, on the span itself or as log records beside it: messages and evaluations.

Source: github.com/open-telemetry/semantic-conventions-genai, model/gen-ai/events.yaml
(`gen_ai.client.inference.operation.details`, `gen_ai.evaluation.result`), and the earlier events that are still about:
one for each message (`gen_ai.user.message`, `gen_ai.choice`, ...; the content in the log's body, or as JSON in
`gen_ai.event.content`), and before those `gen_ai.content.prompt` and `gen_ai.content.completion`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from collectors.conventions import genai, values
from collectors.conventions.convention import Convention, Field, Rule
from collectors.conventions.messages import answer_in, last_assistant_text, last_user_text, question_in
from collectors.span import AttributeValue, Span, SpanEvent
from collectors.trace import Feedback, Flag

EVALUATION = "gen_ai.evaluation.result"
DETAILS = "gen_ai.client.inference.operation.details"
BODY = "body"
"""The attribute that holds the body of a log record, where it is not a map of its own."""

_USER_FEEDBACK = "user_feedback"


def _named(span: Span, name: str) -> Iterator[SpanEvent]:
    return (event for event in span.events if event.name == name)


def _payload(event: SpanEvent, legacy: str, flags: set[Flag]) -> Any:
    """What a message event says: its own attributes (a log's body among them), or JSON in one of them."""
    for name in ("gen_ai.event.content", legacy, BODY):
        if (raw := event.attributes.get(name)) is not None:
            parsed = values.structured(raw, flags)
            return raw if parsed is None else parsed
    return event.attributes


def _from_details(name: str, read: Any) -> Any:
    def inner(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
        found = (
            read(span, event.attributes[name], flags)
            for event in _named(span, DETAILS)
            if name in event.attributes
        )
        return next((text for text in found if text is not None), None)

    return inner


def _asked(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    found: str | None = None
    for event in _named(span, "gen_ai.user.message"):
        payload = _payload(event, "gen_ai.prompt", flags)
        found = _of_role(payload, "user", last_user_text) or question_in(payload) or found
    return found


def _said(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    """The first choice; a choice that only calls tools says nothing."""
    for event in _named(span, "gen_ai.choice"):
        payload = _payload(event, "gen_ai.completion", flags)
        message = payload.get("message", payload) if isinstance(payload, Mapping) else payload
        if isinstance(message, str):
            message = values.parse_json(message) or message
        found = _of_role(message, "assistant", last_assistant_text)
        if found is None and isinstance(message, str):
            found = answer_in(message)
        if found is not None:
            return found
    return None


def _of_role(message: Any, role: str, last_text: Any) -> str | None:
    found: str | None = last_text([{**message, "role": role}]) if isinstance(message, Mapping) else None
    return found


def _prompt(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    found = (
        question_in(_payload(event, "gen_ai.prompt", flags))
        for event in _named(span, "gen_ai.content.prompt")
    )
    return next((text for text in found if text is not None), None)


def _completion(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    events = _named(span, "gen_ai.content.completion")
    found = (answer_in(_payload(event, "gen_ai.completion", flags)) for event in events)
    return next((text for text in found if text is not None), None)


def _feedback(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[Feedback, ...] | None:
    """A person's verdicts; the evaluations of judges have names of their own."""
    found = []
    for event in _named(span, EVALUATION):
        score = values.as_number(event.attributes.get("gen_ai.evaluation.score.value"))
        verdict = event.attributes.get("gen_ai.evaluation.score.label")
        if event.attributes.get("gen_ai.evaluation.name") != _USER_FEEDBACK:
            continue
        if not isinstance(verdict, str):
            if score is None:
                continue
            verdict = "thumbs_up" if score > 0 else "thumbs_down"
        found.append(Feedback(label=verdict, score=score, time_ns=event.time_ns))
    return tuple(found) or None


_RULES = {
    Field.INPUT: (
        Rule(DETAILS, _from_details("gen_ai.input.messages", genai.asked), spread=True),
        Rule("gen_ai.user.message", _asked, spread=True),
        Rule("gen_ai.content.prompt", _prompt, spread=True),
    ),
    Field.OUTPUT: (
        Rule(DETAILS, _from_details("gen_ai.output.messages", genai.said), spread=True),
        Rule("gen_ai.choice", _said, spread=True),
        Rule("gen_ai.content.completion", _completion, spread=True),
    ),
    Field.FEEDBACK: (Rule(EVALUATION, _feedback, spread=True),),
}

CONVENTION = Convention(
    "genai_events", _RULES, answers=("gen_ai.choice", "gen_ai.content.completion", DETAILS)
)
