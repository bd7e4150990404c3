"""`groundwatch inspect`: captures through the real decoder, assembler and normaliser, one RagTrace a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from collectors.assembly import Assembler, AssemblySettings
from collectors.normalise import Normaliser, NormaliseSettings
from collectors.replay import Skipped, read_batches
from collectors.trace import RagTrace


class Inspection:
    """Reads captures; `skipped` holds what could not be read, `spans` counts what was."""

    def __init__(self, assembly: AssemblySettings, normalise: NormaliseSettings) -> None:
        self._assembler = Assembler(assembly)
        self._normaliser = Normaliser(normalise)
        self.skipped: list[Skipped] = []
        self.spans = 0

    def traces(self, paths: Sequence[Path]) -> Iterator[RagTrace]:
        """Every request that the captures hold, in the order in which they began, each whole: all spans are read
        before any request is closed, so that files may come in any order. Raises FileNotFoundError."""
        for batch in read_batches(paths, on_skipped=self.skipped.append):
            self.spans += len(batch.spans)
            self._assembler.add(batch, now=0.0)
        found = (self._normaliser.normalise(request) for request in self._assembler.flush(now=0.0))
        yield from sorted(
            (trace for trace in found if trace is not None), key=lambda trace: trace.start_time_ns
        )

    def problems(self) -> list[str]:
        """What was not read, for people: file, line, reason."""
        return [f"{item.path} line {item.line}: {item.reason}: {item.detail}" for item in self.skipped]
