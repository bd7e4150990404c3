"""Configuration: defaults, file, environment, and what is said of mistakes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import monitor.config
from alerts.spec import DEFAULT_GUARDRAILS
from monitor.config import Config, ConfigError, example_yaml, json_schema, load
from monitor.config_problems import models_in

EXAMPLE = Path(monitor.config.__file__).with_name("groundwatch.example.yaml")


@pytest.fixture(autouse=True)
def _no_variables_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith("GROUNDWATCH_"):
            monkeypatch.delenv(name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "groundwatch.yaml"


def refused(file: Path, text: str) -> list[str]:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(caught.value).startswith(f"{file}: ")
    return [str(problem) for problem in caught.value.problems]


def test_without_a_file_every_default_holds() -> None:
    assert load(None) == Config()
    assert load(None).guardrails == DEFAULT_GUARDRAILS


def test_an_empty_file_and_sections_without_keys_are_defaults(file: Path) -> None:
    for text in ("", "# nothing\n", "sampling:\nfaithfulness:\n  hhem:\n"):
        file.write_text(text)
        assert load(file) == Config()


def test_a_file_sets_what_it_names_and_nothing_else(file: Path) -> None:
    file.write_text(
        "sampling: {rate: 0.25, checks: {faithfulness: 0.5}}\n"
        "alerting:\n  webhooks:\n    - {url: 'https://pager.example/hook', bearer_token: s3cret}\n"
        "operations: {prices: {m-1: {input_usd_per_million: 3, output_usd_per_million: 15}}}\n"
        "store: {path: /var/lib/groundwatch/state.sqlite}\n"
    )
    config = load(file)
    assert (config.sampling.rate, config.sampling.checks) == (0.25, {"faithfulness": 0.5})
    assert config.sampling.floor == Config().sampling.floor
    assert config.alerting.webhooks[0].bearer_token.get_secret_value() == "s3cret"
    assert config.operations.prices["m-1"].output_usd_per_million == 15.0
    assert config.store.path == Path("/var/lib/groundwatch/state.sqlite")
    assert config.web == Config().web


def test_a_section_that_is_off_by_default_is_switched_on_by_naming_it(file: Path) -> None:
    assert Config().collectors.kafka is None
    file.write_text("collectors: {kafka: {bootstrap_servers: ['kafka:9092'], topics: [otlp_spans]}}\n")
    kafka = load(file).collectors.kafka
    assert kafka is not None
    assert list(kafka.topics) == ["otlp_spans"]


def test_the_environment_wins_over_the_file_key_by_key(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("sampling: {rate: 0.25, floor: 0.02}\nweb: {port: 9000}\n")
    monkeypatch.setenv("GROUNDWATCH_SAMPLING__RATE", "0.5")
    monkeypatch.setenv("GROUNDWATCH_SAMPLING__STRATA__REFUSED", "1")
    monkeypatch.setenv("GROUNDWATCH_SAMPLING__CHECKS__FAITHFULNESS", "0.75")
    monkeypatch.setenv("GROUNDWATCH_RATES__SLICES", '["tenant", "locale"]')
    monkeypatch.setenv("GROUNDWATCH_STORE__PATH", "/data/state.sqlite")
    config = load(file)
    assert (config.sampling.rate, config.sampling.floor, config.web.port) == (0.5, 0.02, 9000)
    assert (config.sampling.strata.refused, config.sampling.strata.thumbs_down) == (1.0, 1.0)
    assert config.sampling.checks == {"faithfulness": 0.75}
    assert config.rates.slices == ("tenant", "locale")
    assert config.store.path == Path("/data/state.sqlite")


@pytest.mark.parametrize(
    ("variable", "value", "path"),
    [
        ("GROUNDWATCH_COLLECTORS__KAFKA__TOPICS", "t", "collectors.kafka.topics: must be a list"),
        ("GROUNDWATCH_GUARDRAILS", "[{", "guardrails: must be a list"),
        ("GROUNDWATCH_COLLECTORS", "t", "collectors: must be a mapping"),
    ],
)
def test_a_variable_that_is_no_json_is_named_with_its_setting(
    variable: str, value: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=f"{variable}: {re.escape(path)}"):
        load(None)


def test_the_environment_alone_can_switch_a_section_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUNDWATCH_COLLECTORS__KAFKA__BOOTSTRAP_SERVERS", '["kafka:9092"]')
    monkeypatch.setenv("GROUNDWATCH_COLLECTORS__KAFKA__TOPICS", '["otlp_spans"]')
    kafka = load(None).collectors.kafka
    assert kafka is not None
    assert list(kafka.bootstrap_servers) == ["kafka:9092"]


def test_making_a_configuration_reads_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUNDWATCH_SAMPLING__RATE", "0.5")
    assert Config().sampling.rate != 0.5


def test_every_problem_is_listed_by_its_path_and_line_in_the_order_of_the_file(file: Path) -> None:
    problems = refused(
        file,
        "sampling:\n  rate: 1.5\n  flor: 0.02\n"
        "alerting:\n  webhooks:\n    - url: https://pager.example/hook\n    - url: pager.example\n"
        "web:\n  port: [1]\n",
    )
    assert problems == [
        "line 2: sampling.rate: Input should be less than or equal to 1",
        "line 3: sampling.flor: unknown key; the nearest known one is `floor`",
        "line 7: alerting.webhooks[1].url: 'pager.example' is no http:// or https:// address",
        "line 9: web.port: Input should be a valid integer",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("samplign: {}\n", "line 1: samplign: unknown key; the nearest known one is `sampling`"),
        (
            "sampling:\n  strata:\n    thumbsdown: 1\n",
            "line 3: sampling.strata.thumbsdown: unknown key; the nearest known one is `thumbs_down`",
        ),
        (
            "guardrails:\n  - {name: a, signal: unfaithful_rate, title: A, objectiv: 0.1}\n",
            "line 2: guardrails[0].objectiv: unknown key; the nearest known one is `objective`",
        ),
        (
            "normalise:\n  slice_keys: {tenant: [a]}\nalerting:\n  webhooks: [{uri: 'https://x'}]\n",
            "line 4: alerting.webhooks[0].uri: unknown key; the nearest known one is `url`",
        ),
        (
            "collectors:\n  kafka:\n    topic: [a]\n",
            "line 3: collectors.kafka.topic: unknown key; the nearest known one is `topics`",
        ),
    ],
)
def test_an_unknown_key_names_the_nearest_known_one(file: Path, text: str, problem: str) -> None:
    assert problem in refused(file, text)


def test_what_is_missing_is_said_at_the_line_of_what_lacks_it(file: Path) -> None:
    problems = refused(file, "alerting:\n  service: help\n  webhooks:\n    - bearer_token: x\n")
    assert problems == ["line 4: alerting.webhooks[0].url: must be given"]


def test_a_rule_over_several_keys_is_said_of_their_section(file: Path) -> None:
    assert refused(file, "web: {}\nquery_drift:\n  window_size: 50\n  reference_size: 10\n") == [
        "line 2: query_drift: reference_size must be at least window_size"
    ]


def test_a_section_that_is_no_mapping_is_told(file: Path) -> None:
    assert refused(file, "store: 5\n") == ["line 1: store: must be a mapping of settings"]


def test_two_guardrails_of_one_name_are_refused(file: Path) -> None:
    item = "  - {name: a, signal: unfaithful_rate, title: A, objective: 0.1}\n"
    assert refused(file, "guardrails:\n" + item * 2) == [
        "line 1: guardrails: names must differ, but a stands more than once"
    ]


def test_a_secret_is_never_in_a_message(file: Path) -> None:
    text = "alerting:\n  webhooks:\n    - {url: 'https://x.example', bearer_token: [s3cret]}\n    - s3cret\n"
    assert "s3cret" not in "\n".join(refused(file, text))
    assert "s3cret" not in repr(
        load_text(file, "alerting: {webhooks: [{url: 'https://x', bearer_token: s3cret}]}")
    )


def load_text(file: Path, text: str) -> Config:
    file.write_text(text)
    return load(file)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "web:\n  port: [1\n",
            "line 3: column 1: is no YAML: while parsing a flow sequence expected ',' or ']'",
        ),
        (
            "web:\n\tport: 1\n",
            "line 2: column 1: is no YAML: while scanning for the next token found character",
        ),
        (
            "a: 1\n---\nb: 1\n",
            "line 2: column 1: is no YAML: expected a single document in the stream but found",
        ),
        (
            "web: !!python/object/apply:os.system ['true']\n",
            "line 1: column 6: is no YAML: could not determine",
        ),
        ("web: {port: 1}\nstore: {}\nweb: {port: 2}\n", "line 3: web: the key stands twice, first in line 1"),
        ("web:\n  port: 1\n  port: 2\n", "line 3: web.port: the key stands twice, first in line 2"),
        ("- a\n- b\n", "line 1: must be a mapping of sections at its top"),
        ("just text\n", "line 1: must be a mapping of sections at its top"),
        ("web: &loop\n  port: *loop\n", "line 2: web.port: an alias that contains itself"),
        ("web: \x07\n", "is no YAML: unacceptable character #x0007"),
        ("1: {}\n", "line 1: 1: a key must be text: put it in quotes"),
        ("sampling:\n  yes: 1\n", "line 2: sampling.yes: a key must be text"),
    ],
)
def test_a_file_that_is_no_usable_yaml_is_told_by_line(file: Path, text: str, problem: str) -> None:
    (told,) = refused(file, text)
    assert told.startswith(problem)


def test_a_file_that_cannot_be_read_is_named(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"groundwatch\.yaml: cannot be read: No such file"):
        load(file)
    file.write_bytes(b"web: \xff\n")
    with pytest.raises(ConfigError, match=r"groundwatch\.yaml: is no UTF-8 text"):
        load(file)


def test_a_byte_order_mark_and_anchors_are_fine(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfsampling:\n  rate: &r 0.5\n  floor: *r\n")
    assert load(file).sampling.floor == 0.5


def test_a_wrong_variable_is_named_as_the_variable_it_is(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("sampling:\n  rate: 0.5\n")
    monkeypatch.setenv("GROUNDWATCH_SAMPLING__RATE", "2")
    monkeypatch.setenv("GROUNDWATCH_WEB__PROT", "1")
    monkeypatch.setenv("GROUNDWATCH_SAMPLIGN__RATE", "0.5")
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert {str(problem) for problem in caught.value.problems} == {
        "GROUNDWATCH_SAMPLING__RATE: sampling.rate: Input should be less than or equal to 1",
        "GROUNDWATCH_WEB__PROT: web.prot: unknown key; the nearest known one is `port`",
        "GROUNDWATCH_SAMPLIGN__RATE: samplign: unknown key; the nearest known one is `sampling`",
    }


def test_a_wrong_value_inside_a_variables_json_is_told_of_that_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GROUNDWATCH_SAMPLING__STRATA", '{"refused": 5}')
    with pytest.raises(
        ConfigError, match=r"environment: GROUNDWATCH_SAMPLING__STRATA: sampling\.strata\.refused: "
    ):
        load(None)


def test_a_variable_that_is_no_json_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUNDWATCH_GUARDRAILS", "[{")
    with pytest.raises(ConfigError, match=r"environment: .*guardrails.*JSON"):
        load(None)


def test_what_kubernetes_sets_beside_a_service_of_this_name_is_no_mistake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (
        "GROUNDWATCH_SERVICE_HOST",
        "GROUNDWATCH_SERVICE_PORT",
        "GROUNDWATCH_SERVICE_PORT_OTLP_GRPC",
        "GROUNDWATCH_PORT",
        "GROUNDWATCH_PORT_4317_TCP",
        "GROUNDWATCH_PORT_4317_TCP_ADDR",
        "GROUNDWATCH_METRICS_SERVICE_HOST",
        "GROUNDWATCH_METRICS_PORT_9464_TCP_PROTO",
    ):
        monkeypatch.setenv(name, "tcp://10.0.0.1:4317")
    assert load(None) == Config()


def test_the_example_is_the_defaults() -> None:
    values = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    assert Config.model_validate(values) == Config()
    assert load(EXAMPLE) == Config()


def test_the_example_is_what_the_command_prints() -> None:
    """When this fails: `groundwatch config-example > monitor/groundwatch.example.yaml`."""
    assert EXAMPLE.read_text(encoding="utf-8") == example_yaml()


def fields(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, str, FieldInfo]]:
    for name, field in model.model_fields.items():
        yield f"{path}{name}", name, field
        for inner in models_in(field.annotation):
            yield from fields(inner, f"{path}{name}.")


def test_every_field_is_described_and_stands_in_the_example_under_its_description() -> None:
    example = re.sub(r"(?m)^[ #-]+", "", EXAMPLE.read_text(encoding="utf-8"))
    shown = " ".join(example.split())
    wanted = {
        path: f"{' '.join((field.description or '').split())} {name}:" for path, name, field in fields(Config)
    }
    assert [path for path, text in wanted.items() if text.startswith(" ") or text not in shown] == []
    assert len(wanted) > 100


def switched_on(example: str) -> str:
    """The example with every section that is off by default uncommented and its dots filled in."""
    given = {"bootstrap_servers": "[a]", "topics": "[a]", "url": "https://x"}
    text = re.sub(
        r"(?m)^( *)# (?:kafka|webhooks|prices):\n(?:\1# .*\n)*",
        lambda block: re.sub(rf"(?m)^{block[1]}# ", block[1], block[0]),
        example,
    )
    text = re.sub(r"(?m)^ *(kafka: null|webhooks: \[\]|prices: \{\})\n", "", text.replace("<name>", "m-1"))
    return re.sub(r"(\w+): \.\.\.", lambda key: f"{key[1]}: {given.get(key[1], '1')}", text)


def test_what_the_example_shows_as_a_comment_can_be_switched_on(file: Path) -> None:
    config = load_text(file, switched_on(EXAMPLE.read_text(encoding="utf-8")))
    assert config.collectors.kafka is not None
    assert config.alerting.webhooks[0].url == "https://x"
    assert list(config.operations.prices) == ["m-1"]


def test_the_schema_accepts_the_example_and_refuses_what_we_refuse() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    example: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    validator.validate(example)
    for wrong in (
        {"samplign": {}},
        {"sampling": {"rate": 1.5}},
        {"alerting": {"webhooks": [{}]}},
        {"faithfulness": {"scorer": "magic"}},
    ):
        assert list(validator.iter_errors(example | wrong)), wrong
        with pytest.raises(ValueError, match="validation error"):
            Config.model_validate(example | wrong)


def test_reading_the_configuration_loads_no_model_library() -> None:
    heavy = "torch", "transformers", "tokenizers", "safetensors", "alibi_detect"
    code = f"import sys, monitor.config; sys.exit(', '.join(set(sys.modules) & set({heavy!r})) or 0)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(monitor.config.__file__).parents[1])


def test_the_command_line_loads_no_statistics_before_a_command_needs_them() -> None:
    code = "import sys, monitor.cli; sys.exit(', '.join(set(sys.modules) & {'scipy.stats', 'scipy.cluster'}) or 0)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(monitor.config.__file__).parents[1])
