"""The service's own embedding endpoint, asked for queries that come without an embedding.

Speaks the embeddings call that OpenAI documents and most servers offer: POST {"model", "input": [...]}, answered by
{"data": [{"index", "embedding"}]}. A guest never waits for it where traffic is judged: `DeferredEncoding` asks from a
thread of its own, in batches.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from alerts.settings import HttpUrl
from collectors.trace import RagTrace
from detectors.embedding import EncoderUnavailable
from monitor.metrics import Metrics

_LONGEST_TEXT = 8192
_MOST_BYTES = 64 * 1024 * 1024


class EmbeddingEndpointSettings(BaseModel):
    """Where the endpoint is and how it is asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: HttpUrl = Field(description="Of the embeddings call, such as http://127.0.0.1:8080/v1/embeddings.")
    model: str = Field(min_length=1, description="Named in the call; vectors are kept apart by it.")
    token: SecretStr | None = Field(None, description="Sent as bearer token.")
    timeout_s: float = Field(5.0, gt=0, le=60, description="Longest wait for an answer.")
    batch: int = Field(64, ge=1, le=2048, description="Queries asked for at once, at most.")
    waiting: int = Field(
        1000, ge=1, description="Queries that may wait to be asked for; more are skipped, and counted."
    )
    rest_s: float = Field(30.0, ge=0, description="How long the endpoint is left alone after a failure.")


class EmbeddingEndpoint:
    """A `QueryEncoder` behind HTTP. Blocking."""

    def __init__(self, settings: EmbeddingEndpointSettings) -> None:
        self.settings = settings
        self.name = f"endpoint-{settings.model}"
        self._dimensions: int | None = None

    @property
    def dimensions(self) -> int:
        """Asks the endpoint where it has not been asked yet. Raises EncoderUnavailable."""
        if self._dimensions is None:
            self.encode(["dimensions"])
        assert self._dimensions is not None
        return self._dimensions

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of shape (len(texts), dimensions). Raises EncoderUnavailable."""
        rows = [
            row
            for start in range(0, len(texts), self.settings.batch)
            for row in self._asked(list(texts[start : start + self.settings.batch]))
        ]
        if len({len(row) for row in rows}) > 1:
            raise EncoderUnavailable(f"{self.settings.url}: gave vectors of different dimensions")
        vectors = np.array(rows, dtype=np.float32).reshape(len(rows), -1)
        self._dimensions = vectors.shape[1] if rows else self._dimensions
        return vectors

    def _asked(self, texts: list[str]) -> list[list[float]]:
        body = {"model": self.settings.model, "input": [text[:_LONGEST_TEXT] or " " for text in texts]}
        headers = {"Content-Type": "application/json"}
        if self.settings.token is not None:
            headers["Authorization"] = f"Bearer {self.settings.token.get_secret_value()}"
        request = urllib.request.Request(str(self.settings.url), json.dumps(body).encode(), headers)  # noqa: S310
        try:
            with _OPENER.open(request, timeout=self.settings.timeout_s) as response:
                return _vectors(json.loads(response.read(_MOST_BYTES)), len(texts))
        except urllib.error.HTTPError as error:
            raise EncoderUnavailable(f"{self.settings.url}: answered {error.code} {error.reason}") from error
        except (OSError, ValueError, TypeError, LookupError) as error:
            raise EncoderUnavailable(f"{self.settings.url}: {error or type(error).__name__}") from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A token goes where it was sent, and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects, urllib.request.ProxyHandler({}))


def _vectors(answer: Any, count: int) -> list[list[float]]:
    """The vectors in the order of the texts, whatever order they came in."""
    found: dict[int, list[float]] = {}
    for place, item in enumerate(answer["data"]):
        found[int(item.get("index", place))] = [float(value) for value in item["embedding"]]
    return [found[place] for place in range(count)]


class DeferredEncoding:
    """Queries on their way to the endpoint and back. `embed` runs in a thread of its own; the rest belongs to whoever
    takes what is `done`."""

    def __init__(self, endpoint: EmbeddingEndpoint, metrics: Metrics, clock: Callable[[], float]) -> None:
        self.endpoint = endpoint
        self._metrics = metrics
        self._clock = clock
        self._done: deque[tuple[RagTrace, npt.NDArray[np.float32]]] = deque()
        self._rests_until = 0.0
        self.offer: Callable[[RagTrace], bool] = lambda _: False
        """Where queries are handed in; set by whoever runs the thread."""

    def embed(self, traces: Sequence[RagTrace]) -> None:
        """Ask for their queries' vectors; where the endpoint fails it rests, and the queries are counted."""
        if self._clock() < self._rests_until:
            self._metrics.drift_skipped.labels("encoder_unavailable").inc(len(traces))
            return
        try:
            vectors = self.endpoint.encode([trace.query or "" for trace in traces])
        except EncoderUnavailable:
            self._rests_until = self._clock() + self.endpoint.settings.rest_s
            self._metrics.drift_skipped.labels("encoder_unavailable").inc(len(traces))
            return
        self._done.extend(zip(traces, vectors, strict=True))

    def done(self) -> list[tuple[RagTrace, npt.NDArray[np.float32]]]:
        """What came back since the last call."""
        return [self._done.popleft() for _ in range(len(self._done))]
