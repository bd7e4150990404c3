"""What the integration tests share: one broker for the session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from broker import Broker


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A real broker of the Kafka protocol, in memory."""
    with Broker() as running:
        yield running
