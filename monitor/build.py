"""The composition root: what is made of a configuration. The only place that knows every part."""

from __future__ import annotations

import logging
from collections.abc import Container
from dataclasses import dataclass
from functools import partial
from time import time

from alerts.delivery import Dispatcher
from alerts.settings import sinks_of
from alerts.signals import BY_NAME
from alerts.spec import GuardrailSpec
from collectors.dead_letter import DeadLetterSink, FileDeadLetters
from collectors.kafka import KafkaCollector
from collectors.kafka_letters import TopicLetters
from collectors.normalise import Normaliser
from collectors.otlp_grpc import OtlpGrpcReceiver
from collectors.otlp_http import OtlpHttpReceiver
from detectors.embedding import QueryEncoder
from detectors.faithfulness import FaithfulnessCheck, FaithfulnessScorer
from detectors.filter_exclusion import FilterExclusionCheck
from detectors.lexical import LexicalScorer
from detectors.operations import CostCheck, LatencyCheck, RegenerationCheck
from detectors.rate_checks import EmptyRetrievalCheck, RefusalCheck, ThumbsDownCheck
from detectors.sentence_encoder import query_encoder
from monitor.announcing import Announcer, MeteredDelivery, Outbox
from monitor.config import Config
from monitor.drift import DriftWatch
from monitor.embedding_endpoint import DeferredEncoding, EmbeddingEndpoint
from monitor.encoder_watch import EncoderWatch
from monitor.knowledge import JsonlCatalogue, JsonlGoldenSet
from monitor.markers import ChangeWatch
from monitor.metrics import Clock, MeteredCollectors, Metrics
from monitor.observing import Observer
from monitor.overview import RELEASE, Overview
from monitor.pipeline import Intake, Judging
from monitor.rate_charts import RateCharts
from monitor.rates import RateBoard
from monitor.replaying import Replay
from monitor.sampling import Sampler
from monitor.scoring import Judge, Scorer
from monitor.service import Component, Health, Sidecar, SpanQueue, StoreKeeper, judging_stage, watch_stage
from monitor.stage import Stage
from monitor.store import Ownership, Store
from monitor.watching import Watch
from monitor.web.app import create_app
from monitor.web.server import WebServer

_LOG = logging.getLogger(__name__)
_NEEDS = {"filter_exclusion": "set knowledge.catalogue"}


@dataclass(slots=True, frozen=True)
class Core:
    """What a service and a replay share: one trace's way, without threads."""

    metrics: Metrics
    store: Store
    intake: Intake
    judging: Judging
    observer: Observer
    drift: DriftWatch
    watch: Watch
    scorers: dict[str, str]


def build_core(
    config: Config,
    store: Store,
    dispatcher: Dispatcher | None,
    metrics: Metrics,
    now: float,
    deferred: DeferredEncoding | None = None,
) -> Core:
    """Everything from spans to guardrails; takes up what the store holds from an earlier process. `deferred` embeds
    queries beside the pipeline; without it they are embedded in it."""
    judges = build_judges(config)
    scorers = {judge.check.name: judge.check.scorer for judge in judges}
    rates = RateBoard(config.rates, config.control_band, scorers, metrics)
    encoder = build_encoder(config) if deferred is None else deferred.endpoint
    drift = DriftWatch(
        config.units,
        config.query_drift,
        encoder,
        metrics,
        config.encoder_versions,
        config.drift_explanation,
        deferred,
        config.drift_second_opinion,
    )
    encoders = EncoderWatch(config.encoder_watch, encoder, metrics)
    charts = RateCharts(config.rate_charts, config.rates.slices, store, metrics)
    observer = Observer(store, rates, drift, encoders, charts, ChangeWatch(store.markers(1000)), metrics)
    observer.restore(now, config.rates.window_s)
    watch = Watch(
        watchable(config, scorers),
        metrics,
        store,
        observer.reason,
        Announcer(dispatcher, store, config.alerting.service, config.alerting.external_labels),
        stale_s=config.watch.stale_s,
        history_points=config.watch.history_points,
    )
    return Core(
        metrics=metrics,
        store=store,
        intake=Intake(config.assembly, Normaliser(config.normalise), metrics),
        judging=Judging(
            Scorer(judges, Sampler(config.sampling), metrics),
            observer,
            store,
            metrics,
            retention_s=config.store.retention_days * 86_400.0,
        ),
        observer=observer,
        drift=drift,
        watch=watch,
        scorers=scorers,
    )


def build_encoder(config: Config) -> QueryEncoder:
    """What embeds queries that come without an embedding."""
    if config.embedding_endpoint is not None:
        return EmbeddingEndpoint(config.embedding_endpoint)
    return query_encoder(config.query_encoder)


def build_deferred(config: Config, metrics: Metrics, clock: Clock) -> DeferredEncoding | None:
    """The way to the embedding endpoint, if there is one: a sidecar does not wait for it where it judges."""
    if config.embedding_endpoint is None:
        return None
    return DeferredEncoding(EmbeddingEndpoint(config.embedding_endpoint), metrics, clock)


def watchable(config: Config, checks: Container[str]) -> list[GuardrailSpec]:
    """The guardrails whose signal can have evidence at all. One whose check is not configured would page "no evidence"
    for ever; that it is not watched is said once, at the start."""
    found = []
    for spec in config.guardrails:
        check = BY_NAME[spec.signal].check
        if check and check not in checks:
            _LOG.warning("%s is not watched: nothing judges %s (%s)", spec.name, check, _NEEDS.get(check, ""))
        else:
            found.append(spec)
    return found


def build_judges(config: Config) -> list[Judge]:
    """The checks that the configuration can feed; filter exclusion needs a catalogue and known answers."""
    judges = [
        Judge(LatencyCheck(config.operations.latency_objective_s), sampled=False),
        Judge(CostCheck(config.operations.prices), sampled=False),
        Judge(RegenerationCheck(), sampled=False),
        Judge(ThumbsDownCheck(), sampled=False),
        Judge(RefusalCheck(), sampled=False),
        Judge(EmptyRetrievalCheck(), sampled=False),
        Judge(FaithfulnessCheck(build_scorer(config), ranker=LexicalScorer(config.faithfulness.lexical))),
    ]
    if config.knowledge.catalogue is not None:
        golden = (
            JsonlGoldenSet({}, {})
            if config.knowledge.golden is None
            else JsonlGoldenSet.read(config.knowledge.golden)
        )
        catalogue = JsonlCatalogue.read(config.knowledge.catalogue)
        judges.append(Judge(FilterExclusionCheck(catalogue, golden)))
    return judges


def build_scorer(config: Config) -> FaithfulnessScorer:
    """The scorer that the configuration names; never another one in its place."""
    if config.faithfulness.scorer == "lexical":
        return LexicalScorer(config.faithfulness.lexical)
    from detectors.hhem import HhemScorer  # torch and transformers are an extra

    return HhemScorer.load(config.faithfulness.hhem)


def build_replay(config: Config) -> tuple[Core, Replay]:
    """A replay over a store of its own, so that it never mixes with what a service has seen; nobody is paged."""
    core = build_core(config, Store.open(":memory:"), None, Metrics(), now=0.0)
    events = MeteredCollectors(core.metrics)
    return core, Replay(core.intake, core.judging, core.watch, events, step_s=config.watch.evaluation_s)


def build_sidecar(config: Config, clock: Clock = time) -> Sidecar:
    """A sidecar, not yet started. Raises the typed errors of configuration, store and knowledge."""
    ownership = Ownership.take(config.store.path)
    store = Store.open(config.store.path)
    metrics = Metrics()
    metrics.build.labels(RELEASE).set(1)
    health = Health()
    dispatcher = build_dispatcher(config, metrics, clock)
    deferred = build_deferred(config, metrics, clock)
    core = build_core(config, store, dispatcher, metrics, clock(), deferred)
    judging = judging_stage(
        core.judging,
        health,
        clock,
        capacity=config.queues.traces,
        tick_s=config.watch.tick_s,
        save_s=config.store.save_s,
    )
    queue = SpanQueue(
        core.intake,
        judging,
        health,
        metrics,
        clock,
        capacity=config.queues.batches,
        tick_s=config.watch.tick_s,
    )
    overview = Overview(
        core.watch, core.observer, core.drift, store, metrics, core.scorers, clock, lambda: health.problem
    )
    components: list[tuple[str, Component]] = [
        ("store", StoreKeeper(store, ownership)),
        ("web", WebServer(config.web, create_app(overview.status, metrics.registry))),
        ("outbox", Outbox(dispatcher, store, clock)),
        ("watch", watch_stage(core.watch, health, clock, config.watch.evaluation_s)),
        ("judging", judging),
        *build_encoding(deferred, health),
        ("intake", queue),
        *build_collectors(config, queue, metrics, health),
    ]
    return Sidecar(components, health, overview)


def build_encoding(deferred: DeferredEncoding | None, health: Health) -> list[tuple[str, Component]]:
    """The thread that asks the embedding endpoint."""
    if deferred is None:
        return []
    settings = deferred.endpoint.settings
    stage = Stage(
        "embedding",
        deferred.embed,
        capacity=settings.waiting,
        on_failure=health.fail,
        max_batch=settings.batch,
    )
    deferred.offer = stage.offer
    return [("embedding", stage)]


def build_dispatcher(config: Config, metrics: Metrics, clock: Clock) -> Dispatcher:
    """The way to every configured sink; to none in mode `prometheus`, where the rules page."""
    alerting = config.alerting
    return Dispatcher(
        sinks_of(alerting),
        MeteredDelivery(metrics),
        capacity=alerting.capacity,
        retry_first_s=alerting.retry_first_s,
        retry_most_s=alerting.retry_most_s,
        clock=clock,
    )


def build_collectors(
    config: Config, queue: SpanQueue, metrics: Metrics, health: Health
) -> list[tuple[str, Component]]:
    """The sources that are switched on."""
    events, sources = MeteredCollectors(metrics), config.collectors
    grpc = OtlpGrpcReceiver(
        sources.otlp_grpc, queue, on_failure=partial(health.fail, "otlp_grpc"), events=events
    )
    http = OtlpHttpReceiver(
        sources.otlp_http, queue, on_failure=partial(health.fail, "otlp_http"), events=events
    )
    found: list[tuple[str, Component]] = [("otlp_grpc", grpc), ("otlp_http", http)]
    if sources.kafka is not None:
        file, topic = FileDeadLetters(config.dead_letters), config.dead_letters.kafka_topic
        letters: DeadLetterSink = file
        if topic is not None:
            letters = in_topic = TopicLetters(sources.kafka, topic, file)
            found.append(("dead_letters", in_topic))
        on_failure = partial(health.fail, "kafka")
        found.append(("kafka", KafkaCollector(sources.kafka, queue, letters, events, on_failure=on_failure)))
    return found
