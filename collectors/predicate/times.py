"""ISO-8601 dates and date-times, as filters and metadata write them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)?)?", re.ASCII)


def as_instant(value: object) -> datetime | None:
    """The moment that a date, a date-time or its text names; what has no offset is UTC. None for anything else.

    >>> as_instant("2024-05-01") == as_instant("2024-05-01T02:00:00+02:00")
    True
    >>> as_instant("2024") is None
    True
    """
    if isinstance(value, str):
        if not _ISO.fullmatch(value):
            return None
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def as_time_text(value: object) -> str | None:
    """The text of a date or date-time in the form that nodes hold; None for anything else.

    >>> as_time_text("2024-05-01 10:00:00z")
    '2024-05-01T10:00:00Z'
    """
    if isinstance(value, date):
        value = value.isoformat()
    if not isinstance(value, str):
        return None
    text = value.strip().upper()
    if text[10:11] == " ":
        text = f"{text[:10]}T{text[11:]}"
    return text if as_instant(text) is not None else None
