"""The whole configuration: one YAML file, then the environment, every section a model that lives beside its part.

A variable is `GROUNDWATCH_` and the path in the file, its keys joined by two underscores:
`GROUNDWATCH_SAMPLING__RATE=0.2`; lists and mappings are given as JSON. Variables win over the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FilePath,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict

from alerts.settings import AlertingSettings
from alerts.spec import DEFAULT_GUARDRAILS, GuardrailSpec
from collectors.assembly import AssemblySettings
from collectors.dead_letter import DeadLetterSettings
from collectors.kafka import KafkaSettings
from collectors.normalise import NormaliseSettings
from collectors.otlp_grpc import OtlpGrpcSettings
from collectors.otlp_http import OtlpHttpSettings
from detectors.alibi_backend import AlibiSettings
from detectors.control_band import ControlBandSettings
from detectors.drift_settings import QueryDriftSettings
from detectors.encoder_versions import EncoderVersionSettings
from detectors.hhem_files import HhemSettings
from detectors.lexical import LexicalSettings
from detectors.operations import OperationsSettings
from detectors.sentence_encoder import QueryEncoderSettings
from detectors.units import UnitSettings
from monitor.config_example import documented_yaml
from monitor.config_file import ConfigFile, read_config_file
from monitor.config_problems import (
    ConfigError,
    KeyPath,
    Problem,
    dotted,
    holds,
    model_at,
    path_of,
    unknown_key,
)
from monitor.drift_evidence import DriftExplanationSettings
from monitor.embedding_endpoint import EmbeddingEndpointSettings
from monitor.encoder_watch import EncoderWatchSettings
from monitor.rate_charts import RateChartSettings
from monitor.rates import RateSettings
from monitor.sampling import SamplingSettings
from monitor.store import StoreSettings
from monitor.web.server import WebSettings

__all__ = ["Config", "ConfigError", "Problem", "example_yaml", "json_schema", "load"]

ENV_PREFIX = "GROUNDWATCH_"
ENV_DELIMITER = "__"
_SERVICE_LINK = re.compile(
    r"(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
"""What Kubernetes puts into every pod beside a service named `groundwatch` or `groundwatch-...`: not ours."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CollectorsSettings(_Section):
    """Where traces come from."""

    otlp_grpc: OtlpGrpcSettings = Field(OtlpGrpcSettings(), description="OTLP over gRPC.")
    otlp_http: OtlpHttpSettings = Field(OtlpHttpSettings(), description="OTLP over HTTP, protobuf and JSON.")
    kafka: KafkaSettings | None = Field(None, description="OTLP from Kafka topics; null reads none.")


class FaithfulnessSettings(_Section):
    """What judges whether an answer is held by its context."""

    scorer: Literal["lexical", "hhem"] = Field(
        "lexical",
        description="`lexical` needs no weights; `hhem` needs the extra `hhem` and its weights. A scorer that "
        "cannot be loaded is an error at start: none ever stands in for another.",
    )
    lexical: LexicalSettings = Field(LexicalSettings(), description="The lexical scorer.")
    hhem: HhemSettings = Field(HhemSettings(), description="HHEM-2.1-Open.")


class KnowledgeSettings(_Section):
    """What is known of documents and right answers; without a catalogue the filter is not judged."""

    catalogue: FilePath | None = Field(
        None, description='Documents with their metadata, JSON Lines: {"id": "kb-1", "metadata": {...}}.'
    )
    golden: FilePath | None = Field(
        None, description='Queries with known answers, JSON Lines: {"query": "...", "gold": ["kb-1"]}.'
    )

    @model_validator(mode="after")
    def _answers_need_documents(self) -> Self:
        if self.golden is not None and self.catalogue is None:
            raise ValueError(
                "golden needs catalogue: without the documents' metadata no filter can be judged"
            )
        return self


class WatchSettings(_Section):
    """How often the sidecar looks at itself. All in seconds."""

    tick_s: float = Field(
        1.0, gt=0, le=60, description="How often windows slide and waiting requests are looked at."
    )
    evaluation_s: float = Field(5.0, gt=0, le=3600, description="How often guardrails are evaluated.")
    stale_s: float = Field(
        60.0, gt=0, allow_inf_nan=False, description="Judging silent for longer than this gives no readings."
    )
    history_points: int = Field(
        240, ge=2, le=10_000, description="Evaluations that the status page shows of each guardrail."
    )


class QueueSettings(_Section):
    """How much may wait between two stages; a full queue holds its source back and drops nothing."""

    batches: int = Field(256, ge=1, description="Messages waiting for assembly.")
    traces: int = Field(2_000, ge=1, description="Closed requests waiting for judgement.")


class Config(_Section):
    """Everything that can be set; equal settings are equal configurations."""

    collectors: CollectorsSettings = Field(CollectorsSettings(), description="Where traces come from.")
    dead_letters: DeadLetterSettings = Field(
        DeadLetterSettings(),
        description="Kafka messages that nobody could read, kept for a person to look at.",
    )
    assembly: AssemblySettings = Field(
        AssemblySettings(), description="Spans to whole requests: how long to wait."
    )
    normalise: NormaliseSettings = Field(
        NormaliseSettings(), description="Requests to traces: which field is what."
    )
    queues: QueueSettings = Field(QueueSettings(), description="How much may wait between two stages.")
    sampling: SamplingSettings = Field(
        SamplingSettings(), description="How large a part of the traffic is judged."
    )
    faithfulness: FaithfulnessSettings = Field(
        FaithfulnessSettings(), description="Whether an answer is held by its context."
    )
    knowledge: KnowledgeSettings = Field(
        KnowledgeSettings(),
        description="Documents and right answers; they switch the judgement of filters on.",
    )
    operations: OperationsSettings = Field(
        OperationsSettings(), description="Latency and cost, of every request."
    )
    rates: RateSettings = Field(RateSettings(), description="How judgements become rates with intervals.")
    control_band: ControlBandSettings = Field(
        ControlBandSettings(), description="The band of the regeneration rate, learnt from the first answers."
    )
    rate_charts: RateChartSettings = Field(
        RateChartSettings(), description="Control charts of rates by the hour, learnt over two weeks."
    )
    units: UnitSettings = Field(UnitSettings(), description="Query drift: which queries count as one unit.")
    query_encoder: QueryEncoderSettings = Field(
        QueryEncoderSettings(), description="Query drift: what embeds queries that come without an embedding."
    )
    embedding_endpoint: EmbeddingEndpointSettings | None = Field(
        None, description="Query drift: an embeddings call over HTTP that takes the place of query_encoder."
    )
    encoder_watch: EncoderWatchSettings = Field(
        EncoderWatchSettings(), description="Whether the encoder still gives the vectors that it gave."
    )
    query_drift: QueryDriftSettings = Field(
        QueryDriftSettings(), description="Query drift: windows and the false-alarm budget."
    )
    drift_second_opinion: AlibiSettings | None = Field(
        None,
        description="Query drift: a detector of alibi-detect (extra alibi, Business Source License 1.1: use in "
        "production needs a licence from its makers) on the same units, shown beside ours and never paged on.",
    )
    drift_explanation: DriftExplanationSettings = Field(
        DriftExplanationSettings(),
        description="Query drift: what is kept to say what moved, and how that is found.",
    )
    encoder_versions: EncoderVersionSettings = Field(
        EncoderVersionSettings(),
        description="Query drift: when a new encoder version's own reference may alarm.",
    )
    guardrails: tuple[GuardrailSpec, ...] = Field(
        DEFAULT_GUARDRAILS, description="What must hold. A list given here takes the place of this one."
    )
    alerting: AlertingSettings = Field(AlertingSettings(), description="Who evaluates, and where alerts go.")
    watch: WatchSettings = Field(WatchSettings(), description="How often the sidecar looks.")
    store: StoreSettings = Field(StoreSettings(), description="What survives a restart.")
    web: WebSettings = Field(WebSettings(), description="The status page and the metrics.")

    @field_validator("rates")
    @classmethod
    def _slices_exist(cls, rates: RateSettings, info: ValidationInfo) -> RateSettings:
        normalise = info.data.get("normalise")
        if isinstance(normalise, NormaliseSettings):
            known = ("service", *normalise.slice_keys)
            unknown = [name for name in rates.slices if name not in known]
            if unknown:
                told = ", ".join(known)
                raise ValueError(
                    f"slices: no trace has {unknown[0]!r}, only {told}; normalise.slice_keys adds more"
                )
        return rates

    @field_validator("dead_letters")
    @classmethod
    def _letters_go_where_nobody_reads(
        cls, letters: DeadLetterSettings, info: ValidationInfo
    ) -> DeadLetterSettings:
        collectors = info.data.get("collectors")
        if letters.kafka_topic is not None and isinstance(collectors, CollectorsSettings):
            if collectors.kafka is None:
                raise ValueError("kafka_topic needs collectors.kafka, whose brokers it is on")
            if collectors.kafka.reads(letters.kafka_topic):
                raise ValueError(
                    f"kafka_topic: collectors.kafka reads {letters.kafka_topic}, and would read its own dead letters"
                )
        return letters

    @field_validator("guardrails")
    @classmethod
    def _names_differ(cls, guardrails: tuple[GuardrailSpec, ...]) -> tuple[GuardrailSpec, ...]:
        names = [guardrail.name for guardrail in guardrails]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"names must differ, but {', '.join(twice)} stands more than once")
        return guardrails


def load(path: Path | None) -> Config:
    """The configuration of a file (defaults without one) and of the environment, which wins.

    Raises:
        ConfigError: with every problem found, by its path and, where it stands in the file, its line.
    """
    source = "environment" if path is None else str(path)
    file = ConfigFile({}, {}) if path is None else read_config_file(path)
    variables = _variables()
    problems = _unknown_variables()
    values = _merged(_without_bare_sections(file.values, Config), variables)
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        problems += [_problem(item, file, variables, values) for item in error.errors(include_input=False)]
    if problems:
        raise ConfigError(source, sorted(problems, key=lambda item: item.line or 0))
    return config


def example_yaml() -> str:
    """A commented configuration with every default; `groundwatch.example.yaml` holds the same text."""
    return _EXAMPLE_HEAD + documented_yaml(Config())


def json_schema() -> dict[str, Any]:
    """The configuration file's JSON Schema (draft 2020-12)."""
    schema = _without_examples(Config.model_json_schema())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "Groundwatch configuration",
    }


def _without_examples(schema: Any) -> Any:
    """Descriptions for a user: a model's docstring ends where its doctest begins."""
    if isinstance(schema, dict):
        return {
            key: value.split("\n\n>>>")[0].split("\n>>>")[0]
            if key == "description" and isinstance(value, str)
            else _without_examples(value)
            for key, value in schema.items()
        }
    return [_without_examples(item) for item in schema] if isinstance(schema, list) else schema


_EXAMPLE_HEAD = """\
# Groundwatch configuration: every setting with its default. Keep what you change; `groundwatch
# check-config FILE` says what is wrong with the rest. Each setting may also come from the environment, which
# wins over the file: GROUNDWATCH_ and the path with two underscores, as in GROUNDWATCH_SAMPLING__RATE=0.2.
# Relative paths start at the working directory. Times are in seconds, costs in US dollars.

"""


_SAID_BETTER = {
    "missing": "must be given",
    "model_type": "must be a mapping of settings",
    "tuple_type": 'must be a list; in a variable as JSON: ["one", "other"]',
}


class _FromEnvironment(Config, BaseSettings):
    """`Config` as pydantic-settings wants it; `Config` itself stays free of the environment."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, env_nested_delimiter=ENV_DELIMITER)


class _Environment(EnvSettingsSource):
    """Lists and mappings come as JSON; what is none stays text, so that the problem is told of the setting itself."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError:
            return value


def _variables() -> dict[str, Any]:
    """What the environment sets, as nested values."""
    return _Environment(_FromEnvironment)()


def _unknown_variables() -> list[Problem]:
    """Variables of our prefix that name no section, unless Kubernetes put them there."""
    problems = []
    for variable in sorted(os.environ):
        name = variable.upper().removeprefix(ENV_PREFIX)
        section = name.split(ENV_DELIMITER)[0].lower()
        if name == variable.upper() or section in Config.model_fields or _SERVICE_LINK.fullmatch(name):
            continue
        problems.append(Problem(section, unknown_key(section, Config), variable=variable))
    return problems


def _without_bare_sections(values: Mapping[Any, Any], model: type[BaseModel]) -> dict[Any, Any]:
    """A section whose every key is commented out is null in YAML; it sets nothing, which is no mistake."""
    kept = dict(values)
    for name, field in model.model_fields.items():
        section = field.annotation
        if name in kept and isinstance(section, type) and issubclass(section, BaseModel):
            if kept[name] is None:
                del kept[name]
            elif isinstance(kept[name], Mapping):
                kept[name] = _without_bare_sections(kept[name], section)
    return kept


def _merged(file: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    """The file's values with the environment's over them, mapping by mapping."""
    merged = dict(file)
    for key, value in variables.items():
        below = merged.get(key)
        merged[key] = (
            _merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
        )
    return merged


def _problem(error: ErrorDetails, file: ConfigFile, variables: object, values: object) -> Problem:
    path = path_of(error, values)
    message = _SAID_BETTER.get(error["type"], error["msg"].removeprefix("Value error, "))
    if error["type"] == "extra_forbidden":
        message = unknown_key(str(path[-1]), model_at(path[:-1], Config))
    if holds(variables, path):
        return Problem(dotted(path), message, variable=_variable(path))
    return Problem(dotted(path), message, line=file.line(path))


def _variable(path: KeyPath) -> str:
    """The variable that sets the path: its own, or the JSON of what encloses it."""
    names = [ENV_PREFIX + ENV_DELIMITER.join(map(str, path[:end])).upper() for end in range(len(path), 0, -1)]
    given = {variable.upper() for variable in os.environ}
    return next((name for name in names if name in given), names[0])
