"""The encoder under watch: probes on a schedule, repeated queries, what alarms, for how long, and after a restart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from alerts.plain import plain_reason
from alerts.signals import ALL, ENCODER_CHANGE
from collectors.trace import RagTrace, Versions
from detectors.embedding import HashedNgramEncoder
from detectors.repeated_queries import RepeatedQuerySettings
from monitor.encoder_watch import EncoderWatch, EncoderWatchSettings, ProbesError, read_probes
from monitor.metrics import Metrics
from monitor.store import Store

SETTINGS = EncoderWatchSettings(
    interval_s=60.0, hold_s=600.0, repeats=RepeatedQuerySettings(trusted_after=5, recent=5, changed=3)
)


class Redeployed(HashedNgramEncoder):
    """The built-in encoder, whose vectors an upgrade may turn under the same name."""

    basis: np.ndarray | None = None

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        vectors = super().encode(texts)
        return vectors if self.basis is None else (vectors @ self.basis).astype(np.float32)

    def upgrade(self) -> None:
        self.basis = np.linalg.qr(np.random.default_rng(1).normal(size=(self.dimensions, self.dimensions)))[0]


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as opened:
        yield opened


def _reading(metrics: Metrics) -> float | None:
    return metrics.readings()[ENCODER_CHANGE.name, ALL].estimate


def test_an_encoder_that_stays_is_quiet_and_one_that_is_turned_alarms() -> None:
    metrics, encoder = Metrics(), Redeployed()
    watch = EncoderWatch(SETTINGS, encoder, metrics)
    for now in range(0, 600, 10):
        watch.tick(float(now))
        assert _reading(metrics) == 0.0
    encoder.upgrade()
    watch.tick(599.0)
    assert _reading(metrics) == 0.0, "not yet time to probe"
    watch.tick(601.0)
    assert _reading(metrics) == 1.0
    assert watch.reason() == f"encoder = {encoder.name}; change = rotated"
    assert plain_reason(watch.reason()) == watch.reason()


def test_an_alarm_ends_with_the_old_vectors_or_once_the_new_ones_have_stayed() -> None:
    encoder = Redeployed()
    watch = EncoderWatch(SETTINGS, encoder, Metrics())
    watch.tick(0.0)
    encoder.upgrade()
    watch.tick(60.0)
    assert watch.alarms()
    encoder.basis = None
    watch.tick(120.0)
    assert not watch.alarms()
    encoder.upgrade()
    for now in range(180, 780, 60):
        watch.tick(float(now))
        assert watch.alarms()
    watch.tick(800.0)
    assert not watch.alarms()
    watch.tick(900.0)
    assert not watch.alarms(), "the new vectors are pinned"


def test_what_was_pinned_outlives_a_restart(store: Store) -> None:
    encoder = Redeployed()
    watch = EncoderWatch(SETTINGS, encoder, Metrics())
    watch.tick(0.0)
    state = watch.state()
    assert state is not None
    store.save_state("encoder_watch", state, 0.0)
    encoder.upgrade()
    metrics = Metrics()
    after = EncoderWatch(SETTINGS, encoder, metrics)
    stored = store.load_state("encoder_watch")
    assert stored is not None
    after.restore(stored)
    after.tick(10.0)
    assert _reading(metrics) == 1.0


def test_an_alarm_outlives_a_restart_with_its_reason_and_a_damaged_state_is_no_state() -> None:
    encoder = Redeployed()
    watch = EncoderWatch(SETTINGS, encoder, Metrics())
    watch.tick(0.0)
    encoder.upgrade()
    watch.tick(60.0)
    state = watch.state()
    assert state is not None
    after = EncoderWatch(SETTINGS, encoder, Metrics())
    after.restore(state)
    assert after.reason() == watch.reason()
    for lost in state:
        damaged = EncoderWatch(SETTINGS, encoder, Metrics())
        damaged.restore({name: value for name, value in state.items() if name != lost})
        assert not damaged.alarms() or lost == "said"


def test_other_probes_or_another_encoder_start_anew(tmp_path: Path) -> None:
    encoder = Redeployed()
    watch = EncoderWatch(SETTINGS, encoder, Metrics())
    watch.tick(0.0)
    state = watch.state()
    assert state is not None
    own = tmp_path / "probes.txt"
    own.write_text("\n".join(f"question number {i}" for i in range(30)))
    encoder.upgrade()
    other = EncoderWatch(SETTINGS.model_copy(update={"probes": own}), encoder, Metrics())
    other.restore(state)
    other.tick(0.0)
    assert not other.alarms()


def _trace(text: str, vector: np.ndarray) -> RagTrace:
    return RagTrace(
        id="t:s",
        trace_id="t",
        start_time_ns=0,
        query=text,
        query_embedding=tuple(float(value) for value in vector),
        versions=Versions(encoder="ada-3"),
    )


def test_a_logged_encoder_is_seen_by_queries_that_are_asked_again() -> None:
    metrics, encoder = Metrics(), Redeployed()
    watch = EncoderWatch(SETTINGS, encoder, metrics)
    texts = [f"how do I reset password {i}" for i in range(10)]
    for _ in range(2):
        for text, vector in zip(texts, encoder.encode(texts), strict=True):
            watch.put(_trace(text, vector), 0.0)
    watch.tick(1.0)
    assert _reading(metrics) == 0.0
    turned = Redeployed()
    turned.upgrade()
    for text, vector in zip(texts, turned.encode(texts), strict=True):
        watch.put(_trace(text, vector), 2.0)
    watch.put(_trace(texts[0], np.zeros(256)), 2.0)
    watch.put(_trace(texts[0], np.full(256, np.nan)), 2.0)
    watch.tick(3.0)
    assert _reading(metrics) == 1.0
    assert watch.reason() == "encoder = ada-3; change = repeats"
    watch.tick(1000.0)
    assert not watch.alarms()


def test_a_file_of_probes_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    few = tmp_path / "few.txt"
    few.write_text("one\ntwo\none\n")
    with pytest.raises(ProbesError, match=r"few\.txt: 2 different texts are fewer than 20"):
        read_probes(few)
    with pytest.raises(ProbesError, match="none"):
        read_probes(tmp_path / "none")
