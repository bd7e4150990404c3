"""Does the encoder still give the vectors that it gave? Probes on a schedule, repeated queries all the time."""

from __future__ import annotations

import logging
import math
import platform
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from alerts.signals import ALL, ENCODER_CHANGE
from collectors.trace import RagTrace
from detectors import encoder_monitor
from detectors.embedding import EncoderUnavailable, QueryEncoder
from detectors.encoder_monitor import EncoderChange, ProbeReport, compare_probes
from detectors.repeated_queries import RepeatedQueries, RepeatedQuerySettings
from detectors.vectors import UnusableVectors
from detectors.verdict import State
from monitor.metrics import Metrics

_LOG = logging.getLogger(__name__)
_PROBES = Path(encoder_monitor.__file__).parent / "data" / "encoder_probes.txt"
_FEWEST_PROBES = 20
_MAX_ENCODERS = 4
"""Logged encoders whose repeats are kept, those seen last."""


class EncoderWatchSettings(BaseModel):
    """How the encoder is watched."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    interval_s: float = Field(
        3600.0,
        gt=0.0,
        description="How often the probes are embedded again, by the encoder in query_encoder.",
    )
    probes: Path | None = Field(
        None, description="Your own probes, a text a line, at least 20; without it a hundred general queries."
    )
    hold_s: float = Field(
        86_400.0,
        gt=0.0,
        description="How long a change alarms. After that the vectors as they are now are what is expected.",
    )
    repeats: RepeatedQuerySettings = Field(
        RepeatedQuerySettings(), description="Logged embeddings: queries that are asked again."
    )


class ProbesError(ValueError):
    """The file of probes cannot be used; says why."""


@dataclass(slots=True)
class _Alarm:
    since: float
    said: str
    """In clauses, as an alert's reason is: `encoder = minilm-1; change = rotated`."""


@dataclass(slots=True)
class _Repeats:
    seen: RepeatedQueries
    alarm: _Alarm | None = field(default=None)


class EncoderWatch:
    """Owned by the judging thread; `reason` is asked by the watch too."""

    def __init__(self, settings: EncoderWatchSettings, encoder: QueryEncoder, metrics: Metrics) -> None:
        self._settings = settings
        self._encoder = encoder
        self._metrics = metrics
        self._texts = read_probes(settings.probes or _PROBES)
        self._pinned: npt.NDArray[np.float32] | None = None
        self._next = -math.inf
        self._alarm: _Alarm | None = None
        self._repeats: OrderedDict[str, _Repeats] = OrderedDict()

    def put(self, trace: RagTrace, now: float) -> None:
        """Compare the embedding that was logged with the query, if one was, with that of the same query before."""
        if trace.query_embedding is None or not trace.query:
            return
        vector = np.asarray(trace.query_embedding, dtype=np.float64)
        if not np.isfinite(vector).all() or not vector.any():
            return  # counted where the drift windows refuse it
        version = trace.versions.encoder or "logged"
        watched = self._repeats.setdefault(version, _Repeats(RepeatedQueries(self._settings.repeats)))
        self._repeats.move_to_end(version)
        if len(self._repeats) > _MAX_ENCODERS:
            self._repeats.popitem(last=False)
        watched.seen.put(trace.query, vector)
        report = watched.seen.report()
        if report.is_changed and watched.alarm is None:
            _LOG.warning(
                "encoder %s: %d of the last %d repeated queries have another vector than before",
                version,
                report.changed,
                report.recent,
            )
            watched.alarm = _Alarm(now, f"encoder = {version}; change = repeats")

    def tick(self, now: float) -> None:
        """Embed the probes if it is time, let alarms end, publish."""
        if now >= self._next:
            self._next = now + self._settings.interval_s
            self._probe(now)
        for watched in self._repeats.values():
            if watched.alarm is not None and now - watched.alarm.since >= self._settings.hold_s:
                watched.alarm, watched.seen = None, RepeatedQueries(self._settings.repeats)
        numbers = {"estimate": float(bool(self.alarms())), "evidence": float(len(self._texts))}
        self._metrics.publish(ENCODER_CHANGE, ALL, "", numbers)

    def alarms(self) -> list[str]:
        """What is wrong now, in clauses."""
        found = [self._alarm, *(watched.alarm for watched in list(self._repeats.values()))]
        return [alarm.said for alarm in found if alarm is not None]

    def reason(self) -> str:
        return "; ".join(self.alarms())

    def state(self) -> State | None:
        """The pinned vectors, under the encoder's name and the probes that they are of."""
        if self._pinned is None:
            return None
        return {
            "encoder": self._encoder.name,
            "processor": _processor(),
            "texts": "\n".join(self._texts),
            "pinned": self._pinned,
            "since": math.nan if self._alarm is None else self._alarm.since,
            "said": "" if self._alarm is None else self._alarm.said,
        }

    def restore(self, state: State) -> None:
        """Take up the pinned vectors, if they are this encoder's and of these probes; else they are pinned anew.

        Vectors of another kind of processor are not compared: int8 kernels round each in their way.
        """
        mine = {
            "encoder": self._encoder.name,
            "processor": _processor(),
            "texts": "\n".join(self._texts),
        }
        stored = {name: str(np.asarray(state.get(name, "")).item()) for name in (*mine, "said")}
        if (
            any(stored[name] != value for name, value in mine.items())
            or not {"pinned", "since"} <= state.keys()
        ):
            return
        self._pinned = np.array(state["pinned"], dtype=np.float32)
        since = float(np.asarray(state["since"]).item())
        self._alarm = None if math.isnan(since) else _Alarm(since, stored["said"])

    def _probe(self, now: float) -> None:
        try:
            vectors = self._encoder.encode(self._texts)
        except EncoderUnavailable as error:
            _LOG.warning("encoder %s: its probes could not be embedded: %s", self._encoder.name, error)
            return
        if self._pinned is None:
            self._pinned = vectors
            return
        try:
            report = compare_probes(self._pinned, vectors)
        except UnusableVectors as error:
            self._raise(now, error.reason, str(error))
            return
        self._publish(report)
        if report.change is EncoderChange.NONE:
            self._alarm = None
        elif self._alarm is not None and now - self._alarm.since >= self._settings.hold_s:
            _LOG.warning(
                "encoder %s: its changed vectors are what is expected from now on", self._encoder.name
            )
            self._alarm, self._pinned = None, vectors
        else:
            self._raise(now, report.change, report.wording)

    def _raise(self, now: float, change: str, detail: str) -> None:
        if self._alarm is None:
            _LOG.warning("encoder %s: %s", self._encoder.name, detail)
        since = now if self._alarm is None else self._alarm.since
        self._alarm = _Alarm(since, f"encoder = {self._encoder.name}; change = {change}")

    def _publish(self, report: ProbeReport) -> None:
        gauges = self._metrics.encoder_probes
        name = self._encoder.name
        gauges["mean_cosine"].labels(name).set(report.mean_cosine)
        gauges["min_cosine"].labels(name).set(report.min_cosine)
        gauges["overlap"].labels(name).set(report.overlap)
        gauges["gram_change"].labels(name).set(report.gram_change)


def _processor() -> str:
    """The model of the processor; its architecture where the system does not say more."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def read_probes(path: Path) -> list[str]:
    """The probes of a file, each once. Raises ProbesError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ProbesError(f"encoder_watch.probes: {path}: {error}") from error
    texts = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if len(texts) < _FEWEST_PROBES:
        raise ProbesError(
            f"encoder_watch.probes: {path}: {len(texts)} different texts are fewer than {_FEWEST_PROBES}"
        )
    return texts
