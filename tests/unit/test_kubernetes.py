"""The manifests: would Kubernetes take them, do they fit each other, and this library?"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jsonschema
import kubernetes_validate
import pytest
import yaml

from coop_consumer.config import Config
from coop_consumer.config.properties_file import read_config_file
from coop_consumer.ops.api_routes import api_routes
from coop_consumer.ops.metric import MetricSection
from coop_consumer.ops.table import TABLE
from tests.support.asking import ask, serving
from tests.support.manifests import CUSTOM, FOLDER, Manifest, manifests
from tests.unit.page_values import group
from tests.unit.test_pages import refusal
from tests.unit.test_unread_streams import OneFeed

ALL = list(manifests())
WITH_PODS = [it for it in ALL if it.pod]
MEMBERS = [it for it in WITH_PODS if it.containers[0]["args"][1] == "run"]
SCALERS = [it for it in ALL if it.kind in {"ScaledObject", "HorizontalPodAutoscaler"}]
ROOM_MS = 10_000
"""For a flush, the last commit and the leave, after the longest handler."""


def settings_of(member: Manifest, folder: Path) -> Config:
    """What a member would be configured by: the Secret, and its own words."""
    [config] = [it for it in ALL if it.name == "billing-config"]
    file = folder / "coop.properties"
    file.write_text(config.body["stringData"][file.name], encoding="utf-8")
    words = [it.removeprefix("--config=") for it in arguments(member) if "--config=" in it]
    own = dict(word.split("=", 1) for word in words)
    assert own.pop("group.instance.id", "$(POD_NAME)") == "$(POD_NAME)"
    return Config.from_dict({**read_config_file(file), "group.id": "billing", **own})


def arguments(it: Manifest) -> list[str]:
    return [str(word) for word in it.containers[0]["args"]]


def labels(it: Manifest) -> dict[str, str]:
    assert it.pod is not None
    return dict(it.pod["metadata"]["labels"])


def selected(by: dict[str, str]) -> list[Manifest]:
    """Whose pods have these labels."""
    return [it for it in WITH_PODS if by.items() <= labels(it).items()]


# ---- schemas -------------------------------------------------------------------------------------


@pytest.mark.parametrize("it", ALL, ids=str)
def test_a_manifest_is_one_of_kubernetes_or_of_a_custom_resource(it: Manifest) -> None:
    validate(it.kind, it.body)


@pytest.mark.parametrize("kind", ["Deployment", *sorted({it.kind for it in ALL} & set(CUSTOM))])
def test_a_field_that_does_not_exist_is_found(kind: str) -> None:
    [it, *_] = [it for it in ALL if it.kind == kind]
    wrong = {**it.body, "spec": {**it.body["spec"], "replcas": 3}}
    with pytest.raises((jsonschema.ValidationError, kubernetes_validate.ValidationError)):
        validate(it.kind, wrong)


def validate(kind: str, body: dict[str, Any]) -> None:
    """By the schema of the kind; no field may be unknown to it."""
    if kind in CUSTOM:
        jsonschema.validate(body, CUSTOM[kind])
    else:
        kubernetes_validate.validate(body, kubernetes_validate.latest_version(), strict=True)


# ---- pods ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("it", WITH_PODS, ids=str)
def test_a_pod_is_no_root_and_cannot_write_where_it_should_not(it: Manifest) -> None:
    assert it.pod is not None
    spec = it.pod["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    for container in it.containers:
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("it", WITH_PODS, ids=str)
def test_a_pod_runs_a_command_that_exists(it: Manifest) -> None:
    assert it.containers[0]["args"][0] == "coop-consumer"
    assert refusal(arguments(it)[1:]) == ""


@pytest.mark.parametrize("it", WITH_PODS, ids=str)
def test_what_a_pod_mounts_and_asks_for_is_there(it: Manifest) -> None:
    assert it.pod is not None
    volumes = {volume["name"]: volume for volume in it.pod["spec"]["volumes"]}
    claims = {one["metadata"]["name"] for one in it.body["spec"].get("volumeClaimTemplates", ())}
    secrets = {one.name: one.body["stringData"] for one in ALL if one.kind == "Secret"}
    mounts = {one["mountPath"]: one["name"] for one in it.containers[0]["volumeMounts"]}
    assert set(mounts.values()) == set(volumes) | claims
    for word in arguments(it):
        option, _, path = word.partition("=")
        if option in {"--config-file", "--token-file"}:
            folder, name = path.rsplit("/", 1)
            assert name in secrets[volumes[mounts[folder]]["secret"]["secretName"]]
        elif word.startswith("--config=state.dir="):
            assert word.rsplit("=", 1)[1] in mounts


@pytest.mark.parametrize("it", WITH_PODS, ids=str)
def test_a_probe_asks_where_the_pod_answers(it: Manifest) -> None:
    [container] = it.containers
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    addresses = [word for word in arguments(it) if re.match("--(ops|address)=", word)]
    assert [f"0.0.0.0:{port}" for port in ports.values()] == [
        word.partition("=")[2] for word in addresses
    ]
    asked = {
        name: container[name].get("httpGet") or container[name]["tcpSocket"]
        for name in ("livenessProbe", "readinessProbe")
        if name in container
    }
    assert {probe["port"] for probe in asked.values()} <= set(ports)
    if it in MEMBERS:
        assert [probe["path"] for probe in asked.values()] == ["/livez", "/readyz"]


# ---- members -------------------------------------------------------------------------------------


def test_there_are_members_of_both_kinds() -> None:
    assert sorted(it.kind for it in MEMBERS) == ["Deployment", "StatefulSet"]


@pytest.mark.parametrize("it", MEMBERS, ids=str)
def test_a_member_has_time_for_its_handlers_and_says_before_the_end_what_it_waits_for(
    it: Manifest, tmp_path: Path
) -> None:
    assert it.pod is not None
    config = settings_of(it, tmp_path)
    grace_ms = 1_000 * it.pod["spec"]["terminationGracePeriodSeconds"]
    assert grace_ms >= config.max_processing_ms + ROOM_MS
    assert config.shutdown_timeout_ms < grace_ms - ROOM_MS


@pytest.mark.parametrize("it", MEMBERS, ids=str)
def test_the_number_of_a_members_workers_can_change_while_it_runs(
    it: Manifest, tmp_path: Path
) -> None:
    """SIGHUP has it read the file again, which `--workers` would override."""
    assert settings_of(it, tmp_path).workers == 64
    assert [word for word in arguments(it) if "workers" in word] == []


@pytest.mark.parametrize("it", MEMBERS, ids=str)
def test_a_member_has_a_budget_for_disruptions(it: Manifest) -> None:
    [budget] = [one for one in ALL if one.kind == "PodDisruptionBudget" and one.file == it.file]
    assert it in selected(budget.body["spec"]["selector"]["matchLabels"])


def test_a_static_member_has_the_name_of_its_pod_and_a_session_that_outlasts_a_restart(
    tmp_path: Path,
) -> None:
    [it] = [one for one in MEMBERS if one.kind == "StatefulSet"]
    [dynamic] = [one for one in MEMBERS if one.kind == "Deployment"]
    [name] = [one for one in it.containers[0]["env"] if one["name"] == "POD_NAME"]
    assert name["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert "--config=group.instance.id=$(POD_NAME)" in arguments(it)
    assert settings_of(it, tmp_path).session_timeout_ms >= 45_000
    assert "group.instance.id" not in " ".join(arguments(dynamic))


# ---- metrics and autoscalers ---------------------------------------------------------------------


def test_the_monitor_selects_members_and_exporter_by_ports_that_they_have() -> None:
    [monitor] = [it for it in ALL if it.kind == "PodMonitor"]
    pods = selected(monitor.body["spec"]["selector"]["matchLabels"])
    ports = {port["name"] for it in pods for port in it.containers[0]["ports"]}
    commands = {it.containers[0]["args"][1] for it in pods}
    assert {"run", "exporter"} <= commands
    assert {it["port"] for it in monitor.body["spec"]["podMetricsEndpoints"]} <= ports


@pytest.mark.parametrize("it", SCALERS, ids=str)
def test_an_autoscaler_asks_for_members_that_are_there_by_a_number_that_is_there(
    it: Manifest,
) -> None:
    spec = it.body["spec"]
    assert ("Deployment", spec["scaleTargetRef"]["name"]) in {
        (one.kind, one.name) for one in MEMBERS
    }
    text = (FOLDER / it.file).read_text(encoding="utf-8")
    assert set(re.findall(r"\bcoop_\w+", text)) <= {row.name for row in TABLE.values()}
    assert spec.get("maxReplicaCount", spec.get("maxReplicas")) == alert_bound()
    assert MEASURES[it.file](spec)


def asks_prometheus(spec: dict[str, Any]) -> bool:
    """Whether KEDA asks for the wanted members of the members' group, by a metric of groups."""
    [trigger] = spec["triggers"]
    found = re.fullmatch(r'max\((\w+)\{group="(\w+)"\}\)', trigger["metadata"]["query"])
    return found is not None and is_wanted(found[1]) and found[2] == group_of_members()


def asks_the_page(spec: dict[str, Any]) -> bool:
    """Whether KEDA asks the page, by its Service, for a number that is there."""
    [trigger] = spec["triggers"]
    url = urlsplit(trigger["metadata"]["url"])
    name, _, rest = str(url.hostname).partition(".")
    [service] = [one for one in ALL if one.kind == "Service" and one.name == name]
    [page] = selected(service.body["spec"]["selector"])
    [port] = service.body["spec"]["ports"]
    assert (url.scheme, rest) == ("http", "default.svc")
    assert url.port == port["port"]
    assert arguments(page)[1] == "web"
    assert {"name": port["targetPort"], "containerPort": url.port} in page.containers[0]["ports"]
    groups = [word for word in arguments(page)[2:] if not word.startswith("--")]
    assert groups == [group_of_members()]
    status = replace(group(members=4, partitions=3), group=groups[0])
    with serving(api_routes(OneFeed(status))) as server:
        answer = ask(server, url.path)
    assert answer.status == HTTPStatus.OK, url.path
    assert isinstance(json.loads(answer.text)[trigger["metadata"]["valueLocation"]], int)
    return trigger["metadata"]["valueLocation"] == "wanted_members"


def asks_an_adapter(spec: dict[str, Any]) -> bool:
    """Whether the external metric is the wanted members of the members' group."""
    [external] = [one["external"] for one in spec["metrics"]]
    labels = external["metric"]["selector"]["matchLabels"]
    return is_wanted(external["metric"]["name"]) and labels == {"group": group_of_members()}


MEASURES: dict[str, Callable[[dict[str, Any]], bool]] = {
    "hpa.yaml": asks_an_adapter,
    "keda-metrics-api.yaml": asks_the_page,
    "keda-prometheus.yaml": asks_prometheus,
}
"""By the file of an autoscaler: whether it asks for the right number."""


def is_wanted(metric: str) -> bool:
    row = TABLE[metric]
    assert "group" in row.labels
    return row.section is MetricSection.GROUP and metric == "coop_group_wanted_members"


def group_of_members() -> str:
    """The group that all members join."""
    words = {word for it in MEMBERS for word in arguments(it) if word.startswith("--group=")}
    [named] = words
    return named.partition("=")[2]


def token_of(it: Manifest) -> tuple[str, str]:
    """The Secret that holds the token a pod asks for, and its key."""
    assert it.pod is not None
    volumes = {one["name"]: one.get("secret") for one in it.pod["spec"]["volumes"]}
    [path] = [one for one in arguments(it) if one.startswith("--token-file=")]
    folder, _, key = path.partition("=")[2].rpartition("/")
    [mount] = [one for one in it.containers[0]["volumeMounts"] if one["mountPath"] == folder]
    return volumes[mount["name"]]["secretName"], key


def test_prometheus_sends_the_token_to_whoever_asks_for_it() -> None:
    [monitor] = [it for it in ALL if it.kind == "PodMonitor"]
    for endpoint in monitor.body["spec"]["podMetricsEndpoints"]:
        sent = endpoint.get("authorization", {}).get("credentials", {})
        pods = selected(monitor.body["spec"]["selector"]["matchLabels"])
        asking = [it for it in pods if it.containers[0]["ports"][0]["name"] == endpoint["port"]]
        assert asking
        for it in asking:
            if arguments(it)[1] == "run":
                assert (sent["name"], sent["key"]) == token_of(it)
            else:
                assert (arguments(it)[1], sent) == ("exporter", {}), "it has no token to ask for"


@pytest.mark.parametrize("it", WITH_PODS, ids=str)
def test_what_shows_a_page_to_the_cluster_asks_for_a_token(it: Manifest) -> None:
    """Without one, people who look at night find a page that is closed."""
    if arguments(it)[1] in {"run", "web"}:
        assert token_of(it) == ("billing-token", "token")


def test_all_secrets_are_in_one_file() -> None:
    assert {it.file for it in ALL if it.kind == "Secret"} == {"config.yaml"}


def test_keda_sends_the_secret_that_the_page_asks_for() -> None:
    [scaler] = [it for it in SCALERS if it.file == "keda-metrics-api.yaml"]
    [trigger] = scaler.body["spec"]["triggers"]
    [login] = [one for one in ALL if one.kind == "TriggerAuthentication"]
    assert trigger["authenticationRef"]["name"] == login.name
    [target] = login.body["spec"]["secretTargetRef"]
    [page] = [it for it in WITH_PODS if arguments(it)[1] == "web"]
    assert token_of(page) == (target["name"], target["key"])
    assert target["parameter"] == "token", "KEDA's name for what `bearer` sends"


def alert_bound() -> int:
    """The bound of the alert that more members are wanted than may be started."""
    alerts = yaml.safe_load((FOLDER.parent / "prometheus" / "alerts.yaml").read_text())
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    [found] = [rule for rule in rules if rule["alert"] == "CoopWantedAboveMax"]
    return int(found["expr"].rpartition(">")[2])


@pytest.mark.parametrize(
    "it", [it for it in ALL if it.kind in {"Service", "TriggerAuthentication"}], ids=str
)
def test_a_reference_leads_to_something(it: Manifest) -> None:
    if it.kind == "Service":
        [pods, *_] = selected(it.body["spec"]["selector"])
        ports = {port["name"] for port in pods.containers[0]["ports"]}
        assert {port["targetPort"] for port in it.body["spec"]["ports"]} <= ports
    else:
        secrets = {one.name: one.body["stringData"] for one in ALL if one.kind == "Secret"}
        for one in it.body["spec"]["secretTargetRef"]:
            assert one["key"] in secrets[one["name"]]
