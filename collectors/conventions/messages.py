"""Finding the question and the answer in what frameworks pass about: messages in five shapes, and nested maps.

Shapes of a message: `{role, content}`; GenAI's `{role, parts: [{type: "text", content}]}`; LangChain's
`{type: "human", data: {content}}` and `{lc, id: [..., "HumanMessage"], kwargs: {content}}`; Haystack's
`{role, content: [{text}]}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

_DEPTH = 6
_USER = {"user", "human", "humanmessage", "humanmessagechunk"}
_ASSISTANT = {"assistant", "ai", "aimessage", "aimessagechunk", "model"}
_QUESTION_KEYS = (
    "question", "query", "query_str", "str_or_query_bundle", "user_query", "user_input", "input", "inputs", "message",
    "text", "prompt", "q", "query_bundle", "messages", "chat_history", "data", "kwargs", "kwds", "args",
)  # fmt: skip
_ANSWER_KEYS = (
    "answer", "response", "output", "result", "output_text", "reply", "replies", "generations", "choices", "text",
    "content", "message", "messages", "data", "kwargs", "parts", "update",
)  # fmt: skip
_GENERATOR = re.compile(
    r"<(async_|async )?generator( object)?\b|<[\w.]*(stream|iterator)\w* object at ", re.IGNORECASE
)
_STATE = re.compile(r"\{'messages': \[\w*Message\w*\(")


def is_generator(text: str) -> bool:
    """Whether the text is what printing an unread stream gives.

    >>> is_generator("<generator object Llm.stream at 0x7f>"), is_generator("A generator object is lazy.")
    (True, False)
    """
    return text.startswith("<") and _GENERATOR.match(text) is not None


def is_printed(text: str) -> bool:
    """Whether the text is a printed object that holds the answer, or once held it, and is not it: an unread stream, or
    an agent's whole state.

    >>> is_printed("{'messages': [HumanMessage(content='How long?'), AIMessage(con"), is_printed("{'a': 1}")
    (True, False)
    """
    return is_generator(text) or (text.startswith("{") and _STATE.match(text) is not None)


def question_in(value: object, depth: int = _DEPTH) -> str | None:
    """The user's question in an input payload; in a list of messages the last one of the user.

    >>> question_in({"question": "How long?", "history": []})
    'How long?'
    >>> question_in({"data": {"embedder": {"text": "How long?"}, "retriever": {"filters": None}}})
    'How long?'
    >>> question_in({"messages": [{"role": "user", "content": "How long?"}, {"role": "assistant", "content": "5 d"}]})
    'How long?'
    """
    if isinstance(value, str):
        return value if value.strip() else None
    if depth == 0 or not value:
        return None
    if isinstance(value, list):
        return last_text(value, _USER) or _only(value, depth, question_in)
    if not isinstance(value, dict):
        return None
    for key in _QUESTION_KEYS:
        if key in value and (found := question_in(value[key], depth - 1)):
            return found
    return _first(question_in(item, depth - 1) for item in value.values() if isinstance(item, dict))


def answer_in(value: object, depth: int = _DEPTH) -> str | None:
    """The answer in an output payload; in a list of messages the last one of the assistant.

    >>> answer_in({"retriever": {"documents": []}, "llm": {"replies": ["5 days"], "meta": [{}]}})
    '5 days'
    >>> answer_in({"response_gen": "<generator object>", "source_nodes": []}) is None
    True
    """
    if isinstance(value, str):
        return value if value.strip() and not is_printed(value) else None
    if depth == 0 or not value:
        return None
    if isinstance(value, list):
        return last_text(value, _ASSISTANT) or _only(value, depth, answer_in)
    if not isinstance(value, dict):
        return None
    for key in _ANSWER_KEYS:
        if key in value and (found := answer_in(value[key], depth - 1)):
            return found
    return _first(answer_in(item, depth - 1) for item in value.values() if isinstance(item, dict))


def last_user_text(messages: Sequence[object]) -> str | None:
    """The text of the user's last message."""
    return last_text(messages, _USER)


def last_assistant_text(messages: Sequence[object]) -> str | None:
    """The text of the assistant's last message that has any (one that only calls tools has none)."""
    return last_text(messages, _ASSISTANT)


def last_text(messages: Sequence[object], roles: Iterable[str]) -> str | None:
    for message in reversed(messages):
        if isinstance(message, dict) and _role(message) in roles and (found := _text(message)):
            return found
    return None


def _role(message: dict[str, Any]) -> str:
    name = message.get("role") or message.get("type")
    if name == "constructor" and isinstance(path := message.get("id"), list) and path:
        name = path[-1]
    return name.lower() if isinstance(name, str) else ""


def _text(message: dict[str, Any]) -> str | None:
    for holder in (message, message.get("data"), message.get("kwargs")):
        if isinstance(holder, dict):
            content = holder.get("content", holder.get("parts"))
            if isinstance(content, str) and content.strip():
                return content
            if isinstance(content, list) and (joined := _joined(content)):
                return joined
    return None


def _joined(parts: list[Any]) -> str:
    texts = (
        part if isinstance(part, str) else part.get("text", part.get("content"))
        for part in parts
        if isinstance(part, str) or (isinstance(part, dict) and part.get("type", "text") == "text")
    )
    return "".join(text for text in texts if isinstance(text, str))


def _only(items: list[Any], depth: int, find: Callable[[object, int], str | None]) -> str | None:
    """What a list of one holds; which of several would be a guess."""
    return find(items[0], depth - 1) if len(items) == 1 else None


def _first(found: Iterable[str | None]) -> str | None:
    return next((text for text in found if text), None)
