"""The chart, rendered by a real helm, and its configuration read by the sidecar's own reader."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.config import load

pytestmark = pytest.mark.part("helm")

CHART = Path(__file__).resolve().parents[2] / "helm" / "groundwatch"
Helm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def helm(part: Callable[[str], Path], tmp_path: Path) -> Helm:
    def run(*arguments: str, **values: Any) -> subprocess.CompletedProcess[str]:
        (tmp_path / "values.json").write_text(json.dumps(values))
        command = [str(part("helm")), *arguments, "--values", str(tmp_path / "values.json")]
        environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, env=environment
        )

    return run


def rendered(helm: Helm, **values: Any) -> dict[str, Any]:
    done = helm("template", "watch", str(CHART), "--namespace", "rag", **values)
    assert done.returncode == 0, done.stderr
    documents = [document for document in yaml.safe_load_all(done.stdout) if document]
    assert len({document["kind"] for document in documents}) == len(documents)
    return {document["kind"]: document for document in documents}


def container(documents: dict[str, Any]) -> dict[str, Any]:
    (only,) = documents["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    return only


def test_lint_finds_nothing(helm: Helm) -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rendered_configuration_is_one_that_the_sidecar_takes(helm: Helm, tmp_path: Path) -> None:
    documents = rendered(helm, config={"alerting": {"alertmanager_urls": ["http://am:9093"]}})
    file = tmp_path / "groundwatch.yaml"
    file.write_text(documents["ConfigMap"]["data"]["groundwatch.yaml"])
    config = load(file)
    assert config.alerting.alertmanager_urls == ("http://am:9093",)
    assert (
        config.web.host == config.collectors.otlp_grpc.host == config.collectors.otlp_http.host == "0.0.0.0"
    )
    mounts = {
        mount["mountPath"] for mount in container(documents)["volumeMounts"] if not mount.get("readOnly")
    }
    assert {str(config.store.path.parent), str(config.dead_letters.path.parent)} <= mounts


def test_ports_agree_from_the_configuration_to_the_service(helm: Helm) -> None:
    for web in (9464, 8080):
        documents = rendered(helm, config={"web": {"port": web}})
        ports = {port["name"]: port["containerPort"] for port in container(documents)["ports"]}
        assert ports == {"grpc-otlp": 4317, "http-otlp": 4318, "http-web": web}
        for port in documents["Service"]["spec"]["ports"]:
            assert port["port"] == ports[port["targetPort"]]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container(documents)[probe]["httpGet"]["port"] in ports
    template = documents["StatefulSet"]["spec"]["template"]
    assert documents["Service"]["spec"]["selector"].items() <= template["metadata"]["labels"].items()


def test_it_runs_with_the_least_it_needs(helm: Helm) -> None:
    documents = rendered(helm)
    stateful = documents["StatefulSet"]["spec"]
    pod = stateful["template"]["spec"]
    assert stateful["replicas"] == 1
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(documents)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_a_change_of_configuration_and_nothing_else_restarts_the_pod(helm: Helm) -> None:
    def checksum(**values: Any) -> str:
        metadata = rendered(helm, **values)["StatefulSet"]["spec"]["template"]["metadata"]
        return str(metadata["annotations"]["checksum/config"])

    assert checksum() == checksum(service={"type": "NodePort"})
    assert checksum() != checksum(config={"watch": {"evaluation_s": 7}})


def test_the_state_has_a_volume_either_way(helm: Helm) -> None:
    kept = rendered(helm)["StatefulSet"]["spec"]
    assert [claim["metadata"]["name"] for claim in kept["volumeClaimTemplates"]] == ["state"]
    lost = rendered(helm, persistence={"enabled": False})["StatefulSet"]["spec"]
    assert "volumeClaimTemplates" not in lost
    assert {"name": "state", "emptyDir": {}} in lost["template"]["spec"]["volumes"]


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"replicas": 2}, "replicas"),
        ({"image": {"repositry": "x"}}, "repositry"),
        ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
        ({"config": {"web": {"port": "9464"}}}, "port"),
        ({"persistence": {"size": "five"}}, "size"),
        ({"podAnnotations": {"a": 1}}, "podAnnotations"),
    ],
)
def test_a_wrong_value_fails_and_names_its_key(helm: Helm, values: dict[str, Any], key: str) -> None:
    done = helm("template", "watch", str(CHART), **values)
    assert done.returncode != 0
    assert key in done.stderr


def test_parent_charts_may_pass_their_globals(helm: Helm) -> None:
    assert rendered(helm, **{"global": {"imageRegistry": "x"}, "enabled": True})["StatefulSet"]
