"""The manifests of `deploy/kubernetes`, and schemas of those that Kubernetes does not know.

In: the files. Out: their documents, each with its file. The schemas hold the fields that
we use, as the custom resource definitions of KEDA 2 and of the Prometheus operator have them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Manifest:
    """One document of a file."""

    file: str
    body: Json

    @property
    def kind(self) -> str:
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def pod(self) -> Json | None:
        """What its pods are made of; None: it has none."""
        return self.body["spec"].get("template") if "spec" in self.body else None

    @property
    def containers(self) -> list[Json]:
        return self.pod["spec"]["containers"] if self.pod else []

    def __str__(self) -> str:
        return f"{self.file}-{self.kind}"


def manifests() -> Iterator[Manifest]:
    """All documents of all files."""
    for path in sorted(FOLDER.glob("*.yaml")):
        for body in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            yield Manifest(path.name, body)


def mounted(it: Manifest, folder: Path) -> list[str]:
    """The arguments of its container, with all that the pod mounts below a folder.

    Secrets are files there, as they would be in the pod.
    """
    assert it.pod is not None
    secrets = {one.name: one.body["stringData"] for one in manifests() if one.kind == "Secret"}
    volumes = {one["name"]: one.get("secret") for one in it.pod["spec"]["volumes"]}
    places: dict[str, Path] = {}
    for mount in it.containers[0]["volumeMounts"]:
        places[mount["mountPath"]] = place = folder / mount["name"]
        place.mkdir()
        if secret := volumes.get(mount["name"]):
            for name, text in secrets[secret["secretName"]].items():
                (place / name).write_text(text, encoding="utf-8")
    inside = re.compile(f"=({'|'.join(map(re.escape, places))})(?=/|$)")
    return [
        inside.sub(lambda found: f"={places[found[1]]}", word) for word in it.containers[0]["args"]
    ]


def _object(required: str = "", **properties: Json) -> Json:
    """Nothing but these properties; the required ones by their names, between blanks."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": required.split(),
        "properties": properties,
    }


def _list(items: Json) -> Json:
    return {"type": "array", "minItems": 1, "items": items}


_TEXT: Json = {"type": "string", "minLength": 1}
_COUNT: Json = {"type": "integer", "minimum": 0}
_TEXTS: Json = {"type": "object", "additionalProperties": _TEXT}
_METADATA = _object("name", name=_TEXT, labels=_TEXTS)


def _custom(version: str, spec: Json) -> Json:
    fixed: Json = {"const": version}
    return _object(
        "apiVersion kind metadata spec",
        apiVersion=fixed, kind=_TEXT, metadata=_METADATA, spec=spec,
    )  # fmt: skip


CUSTOM: dict[str, Json] = {
    "PodMonitor": _custom(
        "monitoring.coreos.com/v1",
        _object(
            "selector podMetricsEndpoints",
            selector=_object("matchLabels", matchLabels=_TEXTS),
            podMetricsEndpoints=_list(
                _object(
                    "port",
                    port=_TEXT,
                    path=_TEXT,
                    interval={"type": "string", "pattern": "^[0-9]+(ms|s|m)$"},
                    authorization=_object(
                        "credentials",
                        type=_TEXT,
                        credentials=_object("name key", name=_TEXT, key=_TEXT),
                    ),
                )
            ),
        ),
    ),
    "ScaledObject": _custom(
        "keda.sh/v1alpha1",
        _object(
            "scaleTargetRef triggers",
            scaleTargetRef=_object("name", name=_TEXT, kind=_TEXT),
            minReplicaCount=_COUNT,
            maxReplicaCount=_COUNT,
            pollingInterval=_COUNT,
            fallback=_object(
                "failureThreshold replicas",
                failureThreshold=_COUNT,
                replicas=_COUNT,
                behavior={
                    "enum": [
                        *("static", "currentReplicas"),
                        *("currentReplicasIfHigher", "currentReplicasIfLower"),
                    ]
                },
            ),
            triggers=_list(
                {
                    "oneOf": [
                        _object(
                            "type metadata",
                            type={"const": "prometheus"},
                            metadata=_object(
                                "serverAddress query threshold",
                                serverAddress=_TEXT,
                                query=_TEXT,
                                threshold=_TEXT,
                                ignoreNullValues={"enum": ["true", "false"]},
                            ),
                        ),
                        _object(
                            "type metadata authenticationRef",
                            type={"const": "metrics-api"},
                            metadata=_object(
                                "url valueLocation targetValue authMode",
                                url=_TEXT,
                                valueLocation=_TEXT,
                                targetValue=_TEXT,
                                authMode={"const": "bearer"},
                            ),
                            authenticationRef=_object("name", name=_TEXT),
                        ),
                    ]
                }
            ),
        ),
    ),
    "TriggerAuthentication": _custom(
        "keda.sh/v1alpha1",
        _object(
            "secretTargetRef",
            secretTargetRef=_list(
                _object("parameter name key", parameter=_TEXT, name=_TEXT, key=_TEXT)
            ),
        ),
    ),
}
"""By kind. The values of triggers are all text, as KEDA wants them."""
