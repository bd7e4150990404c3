"""OTLP/gRPC from an exporter's process to finished traces, beside a receiver that only acknowledges.

Run by bench_ingest.py, which measures by the wall clock here, in the receiver's process. Run by itself with a port and
a file it is the exporter: it sends the file's messages once a line on its standard input says so.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent import futures
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import IO

import grpc
from bench.figures import Figure
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.assembly import AssemblySettings
from collectors.normalise import Normaliser, NormaliseSettings
from collectors.otlp_grpc import OtlpGrpcReceiver, OtlpGrpcSettings
from monitor.metrics import Metrics
from monitor.pipeline import Intake, Settled
from monitor.service import Health, SpanQueue
from monitor.stage import Stage

SERVICE, METHOD = "opentelemetry.proto.collector.trace.v1.TraceService", "Export"
MESSAGES_A_BATCH = 100
"""A recorded request holds a few spans; exporters send some hundreds at once."""
IN_FLIGHT = 4
REPETITIONS = 3


def end_to_end(messages: list[bytes]) -> Figure:
    """Spans a second of wall time, from the exporter's first call until the last request is a finished trace."""
    # Export requests put together, byte by byte, are one export request.
    batches = [
        b"".join(messages[start : start + MESSAGES_A_BATCH])
        for start in range(0, len(messages), MESSAGES_A_BATCH)
    ]
    spans = sum(_spans_in(batch) for batch in batches)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "messages"
        with path.open("wb") as file:
            for batch in batches:
                file.write(len(batch).to_bytes(8, "big") + batch)
        seconds = [(_to_traces(path), _acknowledged(path)) for _ in range(REPETITIONS)]
    ours, peer = (spans / median(one) for one in zip(*seconds, strict=True))
    return Figure("otlp_grpc_to_traces_spans_per_second", ours, peer, ours / peer)


def _spans_in(raw: bytes) -> int:
    groups = ExportTraceServiceRequest.FromString(raw).resource_spans
    return sum(len(scope.spans) for group in groups for scope in group.scope_spans)


def _to_traces(path: Path) -> float:
    """The sidecar's own intake, up to where judging would begin; what is still open is flushed at the end."""
    traces = [0]

    def count(settled: Sequence[Settled]) -> None:
        traces[0] += len(settled)

    with ExitStack() as stack:
        health, metrics = Health(), Metrics()
        closed: Stage[Settled] = Stage("count", count, capacity=100_000, max_batch=64, on_failure=health.fail)
        waits = AssemblySettings(answered_wait_s=0.2, idle_wait_s=0.5)
        intake = Intake(waits, Normaliser(NormaliseSettings()), metrics)
        queue = SpanQueue(intake, closed, health, metrics, time.time, capacity=256, tick_s=0.1)
        closed.start()
        queue.start()
        receiver = stack.enter_context(OtlpGrpcReceiver(OtlpGrpcSettings(port=0), queue))
        with _exporter(receiver.port, path) as begin:
            started = time.perf_counter()
            begin()
        receiver.stop()
        queue.stop(60.0)
        closed.stop(60.0)
        elapsed = time.perf_counter() - started
        assert not health.problem, health.problem
        assert traces[0], "no trace came out"
        return elapsed


def _acknowledged(path: Path) -> float:
    with futures.ThreadPoolExecutor(4) as workers:
        server = grpc.server(workers, options=[("grpc.max_receive_message_length", 64 * 2**20)])
        handler = grpc.unary_unary_rpc_method_handler(lambda raw, context: b"")
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with _exporter(port, path) as begin:
            started = time.perf_counter()
            begin()
        elapsed = time.perf_counter() - started
        server.stop(0).wait()
        return elapsed


@contextmanager
def _exporter(port: int, path: Path) -> Iterator[object]:
    """A process that is ready to send; what is given begins the sending and returns when all is acknowledged."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.ingest_end_to_end", str(port), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout
    assert stdout.readline() == "ready\n"

    def begin() -> None:
        stdin.write("go\n")
        stdin.flush()
        assert stdout.readline() == "done\n", "the exporter failed"

    try:
        yield begin
    finally:
        stdin.close()
        process.wait(timeout=30)


def export(port: int, path: Path, commands: IO[str]) -> None:
    """Send every message, a few at a time, each until it is taken."""
    raw, batches, at = path.read_bytes(), [], 0
    while at < len(raw):
        size = int.from_bytes(raw[at : at + 8], "big")
        batches.append(raw[at + 8 : at + 8 + size])
        at += 8 + size
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary(f"/{SERVICE}/{METHOD}")
        grpc.channel_ready_future(channel).result(timeout=30)
        print("ready", flush=True)
        commands.readline()
        room = threading.Semaphore(IN_FLIGHT)

        def send(batch: bytes) -> None:
            while True:
                try:
                    call(batch, timeout=60)
                    break
                except grpc.RpcError as error:
                    if error.code() is not grpc.StatusCode.UNAVAILABLE:  # held back: send it again
                        raise
                    time.sleep(0.01)
            room.release()

        with futures.ThreadPoolExecutor(IN_FLIGHT) as senders:
            sent = []
            for batch in batches:
                room.acquire()
                sent.append(senders.submit(send, batch))
            for one in sent:
                one.result()
        print("done", flush=True)


if __name__ == "__main__":
    export(int(sys.argv[1]), Path(sys.argv[2]), sys.stdin)
