"""Making clients of Kafka from the settings: how brokers are reached, waited for and told who we are."""

from __future__ import annotations

import socket
from collections.abc import Collection
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from collectors.kafka_settings import KafkaConnectionSettings, KafkaSettings

_KNOCK_S = 2.0

NOT_THERE_YET = (
    OSError,
    kafka_errors.KafkaConnectionError,
    kafka_errors.KafkaTimeoutError,
    kafka_errors.NodeNotReadyError,
)
"""A broker that cannot be reached: it may come up after us."""
FORBIDDEN = (
    kafka_errors.GroupAuthorizationFailedError,
    kafka_errors.TopicAuthorizationFailedError,
    kafka_errors.SaslAuthenticationFailedError,
)
"""What trying again will not mend."""

_ASSIGNORS = {
    "cooperative-sticky": CooperativeStickyAssignor,
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
}


def knock(servers: Collection[str]) -> None:
    """Raises `OSError` where none of the brokers takes a connection.

    The client, made where none does, gives up but leaves its thread and sockets behind, once for every try.
    """
    failed: OSError = ConnectionRefusedError("no server is named")
    for server in servers:
        host, _, port = server.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S).close()
        except OSError as error:
            failed = error
        else:
            return
    raise failed


def consumer(settings: KafkaSettings) -> Any:
    """A consumer of the group that has joined nothing yet. Raises one of `NOT_THERE_YET` where no broker answers."""
    knock(settings.bootstrap_servers)
    group = settings.model_dump(exclude={*KafkaConnectionSettings.model_fields, *_OURS}, exclude_none=True)
    return KafkaConsumer(
        **_connection(settings),
        **group,
        partition_assignment_strategy=[_ASSIGNORS[name] for name in settings.assignors],
        enable_auto_commit=False,
        allow_auto_create_topics=False,
    )


def reader(settings: KafkaConnectionSettings) -> Any:
    """A consumer of no group, for whoever reads given partitions once. Raises one of `NOT_THERE_YET`."""
    knock(settings.bootstrap_servers)
    return KafkaConsumer(
        **_connection(settings),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        allow_auto_create_topics=False,
    )


def producer(settings: KafkaConnectionSettings, most_bytes: int) -> Any:
    """A producer that is answered once all replicas in sync have a record, of up to so many bytes. Raises one of
    `NOT_THERE_YET`."""
    knock(settings.bootstrap_servers)
    return KafkaProducer(
        **_connection(settings), acks="all", retries=3, max_request_size=most_bytes, linger_ms=0
    )


def metadata(offsets: dict[TopicPartition, int]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets as a commit wants them."""
    return {partition: OffsetAndMetadata(offset, "", -1) for partition, offset in offsets.items()}


_OURS = ("topics", "topic_pattern", "commit_interval_s", "start_at", "assignors")
"""Settings of the consumer that are not the client's."""


def _connection(settings: KafkaConnectionSettings) -> dict[str, Any]:
    names = set(KafkaConnectionSettings.model_fields) - {"bootstrap_servers", "sasl_plain_password"}
    options = settings.model_dump(include=names, exclude_none=True)
    if settings.sasl_plain_password is not None:
        options["sasl_plain_password"] = settings.sasl_plain_password.get_secret_value()
    return {
        "bootstrap_servers": list(settings.bootstrap_servers),
        "bootstrap_timeout_ms": 5_000,
        **{name: str(value) if isinstance(value, Path) else value for name, value in options.items()},
    }
