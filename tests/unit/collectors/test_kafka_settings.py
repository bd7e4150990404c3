"""What can be wrong about the Kafka settings is told before a broker is asked."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from collectors.kafka_settings import KafkaSettings


def test_something_must_be_read() -> None:
    with pytest.raises(ValidationError, match="name at least one topic, or give topic_pattern"):
        KafkaSettings(topics=())
    assert KafkaSettings(topics=(), topic_pattern="^spans-").topics == ()


@pytest.mark.parametrize("server", ["kafka", ":9092", "kafka:", "kafka:http"])
def test_a_broker_is_a_host_and_a_port(server: str) -> None:
    with pytest.raises(ValidationError, match="is not host:port"):
        KafkaSettings(bootstrap_servers=(server,))


def test_a_password_is_not_shown() -> None:
    settings = KafkaSettings.model_validate({"sasl_plain_password": "hunter2"})
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in settings.model_dump_json()
