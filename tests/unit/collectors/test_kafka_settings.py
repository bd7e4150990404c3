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


SASL = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_plain_username": "groundwatch",
    "sasl_plain_password": "hunter2",
}


def test_a_password_is_not_shown() -> None:
    settings = KafkaSettings.model_validate(SASL)
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in settings.model_dump_json()


@pytest.mark.parametrize("missing", ["sasl_mechanism", "sasl_plain_username", "sasl_plain_password"])
def test_sasl_needs_all_of_it(missing: str) -> None:
    with pytest.raises(ValidationError, match="needs sasl_mechanism"):
        KafkaSettings.model_validate({name: value for name, value in SASL.items() if name != missing})


def test_credentials_that_nobody_would_be_shown_are_a_mistake() -> None:
    with pytest.raises(ValidationError, match="uses no sasl"):
        KafkaSettings.model_validate(SASL | {"security_protocol": "SSL"})


def test_a_pattern_must_be_one() -> None:
    with pytest.raises(ValidationError, match="is no regular expression"):
        KafkaSettings(topic_pattern="spans-(")


def test_a_time_to_start_at_has_a_zone() -> None:
    with pytest.raises(ValidationError, match="timezone"):
        KafkaSettings.model_validate({"start_at": "2026-01-31T00:00:00"})
    assert KafkaSettings.model_validate({"start_at": "2026-01-31T00:00:00Z"}).start_at is not None


def test_the_cooperative_protocol_mixes_with_no_other() -> None:
    with pytest.raises(ValidationError, match="mixes with no other"):
        KafkaSettings(assignors=("cooperative-sticky", "range"))


def test_what_is_read() -> None:
    assert KafkaSettings(topics=("a", "b")).reads("b")
    assert not KafkaSettings(topics=("a", "b")).reads("ab")
    assert KafkaSettings(topic_pattern="team-.*").reads("team-a")
    assert not KafkaSettings(topic_pattern="team-.*").reads("a-team-a")
