"""Drift alarms with what explains them, kept so that people can ask later."""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from detectors.explanation import DriftExplanation
from monitor.store import Store

_STATE = "drift_alarm/"
_KEPT = 100

Place = tuple[float, float]


class DriftAlarm(BaseModel):
    """One alarm of an encoder version's detectors. Times in Unix seconds; `ended_at` is None while it lasts.

    `reference` and `current` are the units' places in a plane, for a picture.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    encoder: str
    detectors: tuple[str, ...]
    began_at: float
    ended_at: float | None = None
    explained_at: float | None = None
    explanation: DriftExplanation | None = None
    reference: tuple[Place, ...] = ()
    current: tuple[Place, ...] = ()


def alarm_id(began_at: float) -> str:
    """The name under which people ask for an alarm.

    >>> alarm_id(1796083200.0)
    'drift-20261201-000000'
    """
    return f"drift-{datetime.fromtimestamp(began_at, UTC):%Y%m%d-%H%M%S}"


def save_alarm(store: Store, alarm: DriftAlarm, now: float) -> None:
    """Keep it in place of what was known of it; of many alarms the oldest go."""
    store.save_state(_STATE + alarm.id, {"alarm": alarm.model_dump_json()}, now)
    for name in sorted(store.state_names(_STATE))[:-_KEPT]:
        store.forget_state(name)


def alarms_in(store: Store) -> OrderedDict[str, DriftAlarm]:
    """What is kept, the oldest first; what cannot be read (of another version) is left out."""
    found: OrderedDict[str, DriftAlarm] = OrderedDict()
    for name in sorted(store.state_names(_STATE)):
        state = store.load_state(name)
        try:
            alarm = DriftAlarm.model_validate_json(str(np.asarray((state or {})["alarm"]).item()))
        except (KeyError, ValidationError):
            continue
        found[alarm.id] = alarm
    return found
