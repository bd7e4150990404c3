"""The demo service as a child process: started, listened to, ended; its crash is told with its last words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from monitor.demo.scenario import Schedule

_TAIL_BYTES = 4000


class ServiceProcess:
    """`python -m monitor.demo.rag_service`; `acts` and `counts` fill as it tells of them. A context manager."""

    def __init__(self, endpoint: str, seed: int, schedule: Schedule) -> None:
        self._command = [
            sys.executable, "-m", "monitor.demo.rag_service", "--end-with-stdin", "--endpoint", endpoint,
            "--seed", str(seed), "--schedule", schedule.model_dump_json(),
        ]  # fmt: skip
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed by stop; a pipe nobody reads would block it)
        self.acts: dict[str, float] = {}
        """When each act began, Unix seconds."""
        self.counts: dict[str, int] = {}
        """What it did, once it is done."""

    def start(self) -> None:
        """Start it in a session of its own, so that Ctrl-C in the terminal reaches only who started it."""
        if self._process is not None:
            return
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, text=True,
            start_new_session=True, env=_environment(),
        )  # fmt: skip
        self._reader = threading.Thread(target=self._listen, name="demo-service", daemon=True)
        self._reader.start()

    def stop(self, deadline_s: float = 10.0) -> None:
        """Ask it to end, flushed; kill it where it does not within the deadline."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(deadline_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._reader is not None:
            self._reader.join(deadline_s)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    @property
    def return_code(self) -> int | None:
        """None while it runs."""
        return None if self._process is None else self._process.poll()

    def last_words(self) -> str:
        """The end of its standard error."""
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - _TAIL_BYTES))
        return self._stderr.read().decode(errors="replace").strip()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._stderr.close()

    def _listen(self) -> None:
        if self._process is None or self._process.stdout is None:
            return
        for line in self._process.stdout:
            event = json.loads(line)
            if event["event"] == "act":
                self.acts[event["act"]] = event["time"]
            elif event["event"] == "done":
                self.counts = event["counts"]


def _environment() -> Mapping[str, str]:
    """Ours without the SDK's own settings, since a sampler set for another service would change the story, and with
    one thread for products of matrices this small: a second one only spins."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return {**kept, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
