"""A rolling window against the plainest model of one: a dict that is summed anew each time."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from detectors.estimate import NoEvidence, mean_from_sums, sums_of
from detectors.window import RollingWindow

SPAN = 50.0


class WindowAgainstModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.window = RollingWindow(SPAN, max_entries=6)
        self.model: dict[str, tuple[float, float | None, float, str]] = {}
        self.evicted = 0
        self.stamp = 0.0

    @rule(
        key=st.sampled_from("abcdefghij"),
        seconds=st.integers(0, 200),
        value=st.none() | st.floats(-1e9, 1e9),
        weight=st.floats(1.0, 1e3),
    )
    def put(self, key: str, seconds: int, value: float | None, weight: float) -> None:
        self.stamp += 1e-6  # no two times are equal, so that the oldest is one entry
        time = seconds + self.stamp
        outcome = "not_scorable" if value is None else "scored"
        self.window.put(key, time, value, weight, outcome)
        self.model[key] = (time, value, weight, outcome)
        if len(self.model) > 6:
            self.evicted += 1
            del self.model[min(self.model, key=lambda held: self.model[held][0])]

    @rule(now=st.integers(0, 260))
    def expire(self, now: int) -> None:
        kept = {key: entry for key, entry in self.model.items() if entry[0] > now - SPAN}
        assert self.window.expire(float(now)) == len(self.model) - len(kept)
        self.model = kept

    @invariant()
    def they_agree(self) -> None:
        scored = [(value, weight) for _, value, weight, _ in self.model.values() if value is not None]
        assert len(self.window) == len(self.model)
        assert self.window.evicted == self.evicted
        assert sum(self.window.not_scored().values()) == len(self.model) - len(scored)
        try:
            seen = self.window.mean()
        except NoEvidence:
            assert not scored
            return
        assert seen == mean_from_sums(sums_of(*zip(*scored, strict=True)))


TestWindowAgainstModel = WindowAgainstModel.TestCase
TestWindowAgainstModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
