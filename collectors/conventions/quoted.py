"""Values that a vendor wrote as JSON text, perhaps more than once over, and perhaps cut short by a length limit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from collectors.conventions import values
from collectors.span import AttributeValue, Span
from collectors.trace import Flag

_LEVELS = 3
"""A string is unquoted so often at most."""
_STRUCTURE = re.compile(r'\s*(\{\s*["}]|\[\s*["\[{\]])')
"""How JSON begins where free text may also begin with a bracket ("[kb-101] Refunds ...")."""


def decoded(raw: AttributeValue, flags: set[Flag], *, always_json: bool = False) -> Any:
    """What the text stands for. None where it is hidden, or JSON cut short, which is flagged.

    `always_json` is for vendors that write every value as JSON: text that only begins like it was cut. For the
    others it may be text that begins with a bracket or a quote.

    >>> decoded('"\\\\"acme\\\\""', set()), decoded("[kb-101] 5 days", set()), decoded("3", set(), always_json=True)
    ('acme', '[kb-101] 5 days', 3)
    >>> flags = set(); decoded('{"question": "How lo', flags), sorted(flags)
    (None, [<Flag.TRUNCATED_JSON: 'truncated_json'>])
    """
    if not isinstance(raw, str):
        return raw
    if raw == values.REDACTED:
        flags.add(Flag.REDACTED)
        return None
    begins = raw.lstrip()[:1]
    if not begins or (begins not in '{["' and not always_json):
        return raw
    parsed = values.parse_json(raw)
    if parsed is not None:
        return unquoted(parsed)
    if (always_json and begins in '{["') or _STRUCTURE.match(raw):
        flags.add(Flag.TRUNCATED_JSON)
        return None
    return None if always_json and raw.strip() == "null" else raw


def unquoted(value: Any) -> Any:
    """A string that is a JSON string once more as that string; anything else as it is."""
    for _ in range(_LEVELS):
        if not (isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"'):
            break
        inner = values.parse_json(value)
        if not isinstance(inner, str):
            break
        value = inner
    return value


def below(span: Span, prefix: str) -> dict[str, Any] | None:
    """Attributes `{prefix}{key}` as {key: value}, strings unquoted; None where there is none.

    >>> below(Span("0" * 32, "1" * 16, None, "s", 0, 0, {"m.tenant": '"acme"', "m.n": 3, "x": 1}), "m.")
    {'tenant': 'acme', 'n': 3}
    """
    skip = len(prefix)
    found = {
        name[skip:]: unquoted(span.attributes[name]) for name in span.attributes if name.startswith(prefix)
    }
    return found or None


def tags(span: Span, raw: AttributeValue, flags: set[Flag]) -> Mapping[str, Any] | None:
    """Those tags that are pairs ("tenant:acme", "locale=de-DE"): a list, that as JSON, or text with commas. None where
    there are no tags at all.

    >>> span = Span("0" * 32, "1" * 16, None, "s", 0, 0)
    >>> tags(span, "prod, tenant:acme", set()), tags(span, ["locale=de-DE"], set()), tags(span, 7, set())
    ({'tenant': 'acme'}, {'locale': 'de-DE'}, None)
    """
    listed = decoded(raw, flags)
    if isinstance(listed, str):
        listed = listed.split(",")
    if not isinstance(listed, list):
        return None
    pairs = (re.split(r"[:=]", tag.strip(), maxsplit=1) for tag in listed if isinstance(tag, str))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and all(pair)}
