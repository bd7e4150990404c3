"""What can be set about reading from Kafka."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator


class KafkaConnectionSettings(BaseModel):
    """How brokers are reached and told who we are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bootstrap_servers: tuple[str, ...] = Field(
        ("localhost:9092",), min_length=1, description="Brokers to ask first, as host:port."
    )
    client_id: str = Field("groundwatch", description="How this client names itself to the brokers.")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="How brokers are spoken to."
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        None, description="How we say who we are, with a SASL protocol."
    )
    sasl_plain_username: str | None = Field(None, description="User name, for PLAIN and SCRAM.")
    sasl_plain_password: SecretStr | None = Field(None, description="Password, for PLAIN and SCRAM.")
    ssl_cafile: Path | None = Field(
        None, description="Certificates of the authorities that vouch for the brokers."
    )
    ssl_certfile: Path | None = Field(None, description="Our certificate, where brokers ask for one.")
    ssl_keyfile: Path | None = Field(None, description="The key of our certificate.")
    ssl_check_hostname: bool = Field(True, description="Whether a broker's certificate must bear its name.")

    @field_validator("bootstrap_servers")
    @classmethod
    def _have_ports(cls, servers: tuple[str, ...]) -> tuple[str, ...]:
        for server in servers:
            host, _, port = server.rpartition(":")
            if not (host and port.isascii() and port.isdigit()):
                raise ValueError(f"{server!r} is not host:port")
        return servers

    @model_validator(mode="after")
    def _says_who_we_are(self) -> Self:
        sasl = self.security_protocol.startswith("SASL")
        given = (self.sasl_mechanism, self.sasl_plain_username, self.sasl_plain_password)
        if sasl and None in given:
            raise ValueError(
                f"security_protocol {self.security_protocol} needs sasl_mechanism, sasl_plain_username and "
                "sasl_plain_password"
            )
        if not sasl and given != (None, None, None):
            raise ValueError(f"security_protocol {self.security_protocol} uses no sasl_* setting")
        return self


class KafkaSettings(KafkaConnectionSettings):
    """The Kafka consumer. At least one of `topics` and `topic_pattern` names what is read."""

    topics: tuple[str, ...] = Field(
        ("otlp_spans",), description="Topics to read; empty where a pattern names them."
    )
    topic_pattern: str | None = Field(
        None, description="Regular expression of topics to read instead of a list."
    )
    group_id: str = Field(
        "groundwatch", min_length=1, description="Consumer group whose offsets are committed."
    )
    group_instance_id: str | None = Field(
        None,
        description="A name that stays over restarts (static membership), such as the pod's; null for none.",
    )
    auto_offset_reset: Literal["earliest", "latest"] = Field(
        "earliest", description="Where a group without committed offsets begins."
    )
    start_at: AwareDatetime | None = Field(
        None,
        description="Where a group without committed offsets begins instead: the first record of this time or later, "
        "such as 2026-01-31T00:00:00Z.",
    )
    assignors: tuple[Literal["cooperative-sticky", "range", "roundrobin"], ...] = Field(
        ("cooperative-sticky",),
        min_length=1,
        description="How the group shares partitions out, best first; every member must know one in common, and "
        "cooperative-sticky mixes with no other. It takes from a member only what moves.",
    )
    session_timeout_ms: int = Field(
        6_000, gt=0, description="Silence after which the group gives our partitions away."
    )
    heartbeat_interval_ms: int = Field(1_500, gt=0, description="How often we tell the group that we live.")
    max_poll_interval_ms: int = Field(
        300_000, gt=0, description="Longest time between polls before we are put out."
    )
    max_poll_records: int = Field(500, gt=0, description="Most records taken in one poll.")
    max_partition_fetch_bytes: int = Field(
        4 * 2**20, gt=0, description="Most bytes fetched of one partition."
    )
    metadata_max_age_ms: int = Field(30_000, gt=0, description="How soon a new topic or partition is seen.")
    commit_interval_s: float = Field(1.0, gt=0, description="How often finished offsets are committed.")

    @model_validator(mode="after")
    def _names_topics(self) -> Self:
        if not self.topics and self.topic_pattern is None:
            raise ValueError("topics: name at least one topic, or give topic_pattern")
        return self

    @field_validator("assignors")
    @classmethod
    def _do_not_mix(cls, assignors: tuple[str, ...]) -> tuple[str, ...]:
        if len(assignors) > 1 and "cooperative-sticky" in assignors:
            raise ValueError("cooperative-sticky mixes with no other")
        return assignors

    @field_validator("topic_pattern")
    @classmethod
    def _is_a_pattern(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"is no regular expression: {error}") from error
        return pattern

    def reads(self, topic: str) -> bool:
        """Whether the topic is one of those that are read."""
        if self.topic_pattern is not None:
            return re.match(self.topic_pattern, topic) is not None
        return topic in self.topics
