"""Numbers and times in words: the one place that decides how a rate, a cost or a duration reads."""

from __future__ import annotations

import math
from datetime import UTC, datetime

NARROW = "\u202f"
"""Narrow no-break space: keeps a number and its unit, or its groups of thousands, on one line."""
NONE = "no evidence"


def rate(value: float) -> str:
    """A share as per cent, with the digits that its size deserves; never rounded into 0 or 100.

    >>> [rate(share).replace(NARROW, " ") for share in (0.0, 0.00002, 0.0042, 0.0413, 0.1206, 0.99996, 1.0)]
    ['0 %', '< 0.01 %', '0.42 %', '4.1 %', '12.1 %', '> 99.9 %', '100 %']
    """
    share = 100.0 * value
    if share in (0.0, 100.0):
        return f"{share:.0f}{NARROW}%"
    if 0 < share < 0.01:
        return f"<{NARROW}0.01{NARROW}%"
    if 99.95 <= share < 100:
        return f">{NARROW}99.9{NARROW}%"
    return f"{share:.{2 if abs(share) < 0.995 else 1}f}{NARROW}%"


def dollars(value: float) -> str:
    """Dollars: cents where it is dollars, three significant digits where it is less.

    >>> [dollars(amount) for amount in (0.0, 0.00123, 0.25, 12.5, -3.0)]
    ['$0', '$0.00123', '$0.250', '$12.50', '-$3.00']
    """
    sign, size = "-" * (value < 0), abs(value)
    if size == 0:
        return "$0"
    decimals = 2 if size >= 1 else min(2 - math.floor(math.log10(size)), 12)
    return f"{sign}${size:,.{decimals}f}"


def duration(seconds: float) -> str:
    """A length of time in its two largest units.

    >>> [duration(s).replace(NARROW, " ") for s in (0.0, 0.35, 12.4, 250, 7500, 273600)]
    ['0 s', '0.35 s', '12 s', '4 min 10 s', '2 h 5 min', '3 d 4 h']
    """
    if not math.isfinite(seconds):
        return "unknown"
    if abs(seconds) < 10:
        return f"{_significant(seconds, 2)}{NARROW}s"
    left, parts = round(abs(seconds)), []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        many, left = divmod(left, size)
        parts.append((many, unit))
    first = next(index for index, (many, _) in enumerate(parts) if many)
    return " ".join(f"{many}{NARROW}{unit}" for many, unit in parts[first : first + 2] if many)


def count(value: float) -> str:
    """A count, thousands set apart; one decimal where it is no whole number.

    >>> count(1234567).replace(NARROW, " "), count(398.24), count(12.0)
    ('1 234 567', '398.2', '12')
    """
    if not math.isfinite(value):
        return "unknown"
    whole = round(value, 1)
    return f"{whole:,.{0 if whole == int(whole) else 1}f}".replace(",", NARROW)


def number(value: float) -> str:
    """Any other number, to three significant digits.

    >>> number(0.012345), number(-2.5), number(1e-9)
    ('0.0123', '-2.5', '1e-09')
    """
    return _significant(value)


def value(amount: float | None, kind: str, unit: str) -> str:
    """One signal's number in its kind (`rate`, `mean`, `alarm`) and unit; None and NaN read as no evidence.

    >>> value(None, "rate", "1"), value(0.02, "mean", "USD"), value(1.0, "alarm", "1")
    ('no evidence', '$0.0200', 'alarm')
    """
    if amount is None or not math.isfinite(amount):
        return NONE
    if kind == "alarm":
        return "alarm" if amount else "quiet"
    if kind == "rate":
        return rate(amount)
    if unit == "USD":
        return dollars(amount)
    if unit == "s":
        return duration(amount)
    return number(amount) if unit in ("", "1") else f"{number(amount)}{NARROW}{unit}"


def tick(amount: float, kind: str, unit: str) -> str:
    """A number on an axis, in the shortest form, to three significant digits.

    >>> tick(0.05, "rate", "1").replace(NARROW, " "), tick(0.004, "mean", "USD"), tick(4.0, "evidence", "")
    ('5 %', '$0.004', '4')
    """
    if kind == "rate":
        return f"{100 * amount:.3g}{NARROW}%"
    if kind == "alarm":
        return value(amount, kind, unit)
    if unit == "USD":
        return f"${amount:.3g}"
    return f"{amount:.3g}" if unit in ("", "1") else f"{amount:.3g}{NARROW}{unit}"


def clock(time: float, now: float | None = None) -> str:
    """A Unix time as hours, minutes and seconds in UTC, with the date where it is not the day of `now`.

    >>> clock(1700000000.0, 1700000100.0), clock(1700000000.0), clock(1e30)
    ('22:13:20', '14 Nov 2023 22:13:20', 'unknown')
    """
    moment = _moment(time)
    if moment is None:
        return "unknown"
    today = _moment(now) if now is not None else None
    same_day = today is not None and moment.date() == today.date()
    return moment.strftime("%H:%M:%S" if same_day else "%d %b %Y %H:%M:%S").lstrip(
        "0" if not same_day else ""
    )


def iso(time: float) -> str:
    """A Unix time for machines, as in the `datetime` attribute; empty where it is none.

    >>> iso(1700000000.0), iso(float("nan"))
    ('2023-11-14T22:13:20Z', '')
    """
    moment = _moment(time)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else ""


def words(name: str) -> str:
    """A name from the code as people would write it.

    >>> words("not_applicable"), words("spans_received_total")
    ('not applicable', 'spans received total')
    """
    return name.replace("_", " ")


def _significant(amount: float, digits: int = 3) -> str:
    return f"{amount:.{digits}g}"


def _moment(time: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(time, UTC)
    except (OverflowError, ValueError, OSError):
        return None
