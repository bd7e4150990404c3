"""The watch: reads the registry, evaluates every guardrail, hands alerts over, keeps the history for people."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from alerts.guardrail import Guardrail, GuardrailState, Transition
from alerts.signals import ALL, Reading
from alerts.spec import GuardrailSpec
from monitor.announcing import Announcer
from monitor.metrics import Metrics
from monitor.status import Point
from monitor.store import Store

Reason = Callable[[str, str], str]
"""What the bad units of (signal, slice) blame, for people."""


@dataclass(slots=True)
class Watched:
    """A guardrail on one slice with what it last read and its recent history, oldest first."""

    guardrail: Guardrail
    reading: Reading
    history: deque[Point] = field(default_factory=deque)


class Watch:
    """One owner evaluates; `snapshot` may be called from any thread.

    A judging stage that has stopped moving leaves its gauges as they were. So readings older than `stale_s` count as no
    evidence: a stalled monitor must never look like a healthy service.
    """

    def __init__(
        self,
        specs: Sequence[GuardrailSpec],
        metrics: Metrics,
        store: Store,
        reason: Reason,
        announcer: Announcer,
        *,
        stale_s: float,
        history_points: int,
    ) -> None:
        self._specs = tuple(specs)
        self._metrics = metrics
        self._store = store
        self._reason = reason
        self._announcer = announcer
        self._stale_s = stale_s
        self._history_points = history_points
        self._watched: dict[tuple[str, str], Watched] = {}
        self._lock = threading.Lock()
        self._restored = store.load_alert_states()
        for spec in self._specs:
            metrics.guardrail_objective.labels(spec.name).set(
                float("nan") if spec.objective is None else spec.objective
            )
            self._of(spec, ALL)

    def evaluate(self, now: float) -> list[Transition]:
        """One look at everything; gives what changed."""
        readings = self._readings(now)
        changed: list[Transition] = []
        for spec in self._specs:
            for slice_name in self._slices(spec, readings):
                watched = self._of(spec, slice_name)
                reading = readings.get((spec.signal, slice_name), Reading(spec.signal, slice_name))
                transition = watched.guardrail.evaluate(reading, now)
                self._remember(watched, reading, now)
                if transition is not None:
                    changed.append(transition)
        for transition in changed:
            self._publish(transition)
            self._announcer.changed(transition)
        for watched in self._watched.values():
            self._announcer.renew(watched.guardrail, watched.reading, now)
        if changed:
            self.save(now)
        return changed

    def save(self, now: float) -> None:
        """Keep every guardrail's state, so that a restart neither pages twice nor forgets to resolve."""
        states = {_key(*key): watched.guardrail.state() for key, watched in self._watched.items()}
        self._store.save_alert_states(states, now)

    def snapshot(self) -> list[tuple[GuardrailSpec, str, Guardrail, Reading, tuple[Point, ...]]]:
        """Every guardrail with its last reading and history."""
        with self._lock:
            return [
                (item.guardrail.spec, item.guardrail.slice, item.guardrail, item.reading, tuple(item.history))
                for item in self._watched.values()
            ]

    def _readings(self, now: float) -> dict[tuple[str, str], Reading]:
        heartbeat = self._metrics.registry.get_sample_value(
            "groundwatch_judging_last_success_timestamp_seconds"
        )
        if heartbeat is None or now - heartbeat > self._stale_s:
            return {}
        return {
            key: replace(reading, reason=self._reason(*key))
            for key, reading in self._metrics.readings().items()
        }

    def _slices(self, spec: GuardrailSpec, readings: dict[tuple[str, str], Reading]) -> list[str]:
        if not spec.slices:
            return [ALL]
        seen = {name for signal, name in readings if signal == spec.signal}
        known = {name for guardrail, name in self._watched if guardrail == spec.name}
        return sorted(seen | known | {ALL}, key=lambda name: (name != ALL, name))

    def _of(self, spec: GuardrailSpec, slice_name: str) -> Watched:
        key = (spec.name, slice_name)
        if key not in self._watched:
            guardrail = Guardrail(spec, slice_name)
            state = self._restored.get(_key(*key))
            if state is not None:
                guardrail.restore(state)
            with self._lock:
                self._watched[key] = Watched(
                    guardrail, Reading(spec.signal, slice_name), deque(maxlen=self._history_points)
                )
            self._set_state(spec.name, slice_name, guardrail.condition)
        return self._watched[key]

    def _remember(self, watched: Watched, reading: Reading, now: float) -> None:
        with self._lock:
            watched.reading = reading
            watched.history.append(
                Point(time=now, estimate=reading.estimate, lower=reading.lower, upper=reading.upper)
            )

    def _publish(self, transition: Transition) -> None:
        self._set_state(transition.spec.name, transition.slice, transition.after)
        self._metrics.transitions.labels(transition.spec.name, transition.slice, transition.after).inc()

    def _set_state(self, guardrail: str, slice_name: str, condition: GuardrailState) -> None:
        for state in GuardrailState:
            self._metrics.guardrail_state.labels(guardrail, slice_name, state).set(float(state is condition))


def _key(guardrail: str, slice_name: str) -> str:
    return f"{guardrail}|{slice_name}"
