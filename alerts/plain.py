"""What may stand in a label or an annotation of what traffic brought: plain clauses, never user text.

Names, titles and units of an alert come from the configuration and from `signals.py`. What comes from traffic
(the slice, the blamed clause) passes `plain_slice` and `plain_reason`, which let through nothing but clauses
`field op value` of short ASCII tokens: no blank, no `@`, at most 40 characters. A sentence, an e-mail address
or a name with a space in it cannot pass; what does not pass is withheld, and the alert says that it was.
"""

from __future__ import annotations

import hashlib
import re

from alerts.signals import ALL

_WORD = r"[A-Za-z0-9_][A-Za-z0-9_.:/+-]{0,39}"
_QUOTED = rf"""(?:{_WORD}|"{_WORD}"|'{_WORD}')"""
_VALUE = rf"(?:{_QUOTED}|[(\[]{_QUOTED}(?:, ?{_QUOTED}){{0,9}}[)\]])"
_FIELD = r"[A-Za-z_][A-Za-z0-9_.]{0,39}"
_OPERATOR = r"(?:==?|!=|<=?|>=?|in|not in|contains)"
_CLAUSE = re.compile(rf"{_FIELD}(?: {_OPERATOR} |=){_VALUE}|{_FIELD} exists|scorer {_WORD}")
_SEPARATOR = re.compile(r"( and | or |; ?|, (?![^(\[]*[)\]]))")
_MOST_CLAUSES = 8


def plain_reason(reason: str) -> str:
    """The clauses of a reason that are plain; the others are withheld.

    >>> plain_reason("locale = en-US and product in (billing, login)")
    'locale = en-US and product in (billing, login)'
    >>> plain_reason("locale = en-US; title contains how do I cancel my plan")
    'locale = en-US; [withheld]'
    """
    if not reason:
        return ""
    parts = _SEPARATOR.split(reason, maxsplit=_MOST_CLAUSES)
    for index in range(0, len(parts), 2):
        if not _CLAUSE.fullmatch(parts[index]):
            parts[index] = "[withheld]"
    return "".join(parts)


def plain_slice(name: str) -> str:
    """A slice that is fit for a label: a value that could hold user text becomes a short hash, so that two
    slices never become one alert.

    >>> plain_slice("locale=en-US,tenant=acme")
    'locale=en-US,tenant=acme'
    >>> plain_slice("tenant=Jane Doe & Sons")
    'tenant=withheld-524af376'
    """
    if name == ALL:
        return name
    return ",".join(map(_plain_pair, name.split(",")))


def _plain_pair(pair: str) -> str:
    key, equals, value = pair.partition("=")
    named = equals and re.fullmatch(_FIELD, key)
    if named and re.fullmatch(_WORD, value):
        return pair
    withheld = f"withheld-{hashlib.sha256(pair.encode()).hexdigest()[:8]}"
    return f"{key}={withheld}" if named else withheld
