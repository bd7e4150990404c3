"""Change markers: a new service, model, prompt, index or encoder version, as the traces tell of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from collectors.trace import RagTrace
from monitor.status import Marker

_KINDS = ("service", "model", "prompt", "index", "encoder")
_ROLLED_BACK = 20
"""Traces in a row on a replaced version that make it a rollback and not a slow replica of a rollout."""


@dataclass(slots=True)
class _Seen:
    current: str
    replaced: set[str] = field(default_factory=set)
    in_a_row: int = 0


class ChangeWatch:
    """Remembers the versions last seen per service. The first ones seen are no change.

    While a release rolls out, old and new versions answer side by side: the new one is a change once, and the old one
    only again when nothing else is seen for a while.
    """

    def __init__(self, known: Iterable[Marker] = ()) -> None:
        self._seen: dict[tuple[str, str], _Seen] = {
            (marker.service, marker.kind): _Seen(marker.after)
            for marker in sorted(known, key=lambda marker: marker.time)
        }

    def put(self, trace: RagTrace, now: float) -> list[Marker]:
        """The changes that this trace is the first to show."""
        service = trace.slices.get("service", "")
        found = []
        for kind in _KINDS:
            version = getattr(trace.versions, kind)
            if version is not None:
                before = self._change(service, kind, version)
                if before is not None:
                    found.append(Marker(time=now, kind=kind, service=service, before=before, after=version))
        return found

    def _change(self, service: str, kind: str, version: str) -> str | None:
        """The version that this one replaces, if it does."""
        seen = self._seen.setdefault((service, kind), _Seen(version))
        if version == seen.current:
            seen.in_a_row = 0
            return None
        seen.in_a_row += 1
        if version in seen.replaced and seen.in_a_row < _ROLLED_BACK:
            return None
        before, seen.current, seen.in_a_row = seen.current, version, 0
        seen.replaced = (seen.replaced | {before}) - {version}
        return before
