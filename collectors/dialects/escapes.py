"""Backslash escapes of quoted texts, as Python and C (and so Milvus) write them."""

from __future__ import annotations

import re

from collectors.predicate import UnparsedFilter

_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|(.))", re.DOTALL
)
_SINGLE = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\n": ""}
_LITERAL = "\\'\"?"


def unescape(text: str) -> str:
    """The text that is meant. Raises `UnparsedFilter` for an escape that is none.

    >>> unescape(r"caf\\xe9 \\'a\\'")
    "café 'a'"
    """
    return _ESCAPE.sub(_meant, text) if "\\" in text else text


def _meant(escape: re.Match[str]) -> str:
    for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
        if escape[group] is not None:
            code = int(escape[group], base)
            if code > 0x10FFFF:
                raise UnparsedFilter(f"no character: {escape[0]}")
            return chr(code)
    single = escape[5]
    if single in _LITERAL:
        return single
    if single in _SINGLE:
        return _SINGLE[single]
    raise UnparsedFilter(f"no escape: {escape[0]!r}")
