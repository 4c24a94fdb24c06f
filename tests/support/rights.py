"""A broker with SASL/SCRAM over TLS and ACLs: who may do what on it.

In: certificates made by the test, a job. Out: rights for `ann`, whose members work on the job;
`root` may do everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined] # its stubs do not export ACLs
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.stock import PROGRESS_TOPIC, eventually

Right = tuple[str, str, str]
"""A kind of resource, its name (with {topic} and {group} for those of the job), an operation.

A name that ends in a star means all names that begin so.
"""

READ_TOPIC: Right = ("TOPIC", "{topic}", "READ")
READ_GROUP: Right = ("GROUP", "{group}", "READ")
READ_PROGRESS: Right = ("TOPIC", PROGRESS_TOPIC, "READ")
WRITE_PROGRESS: Right = ("TOPIC", PROGRESS_TOPIC, "WRITE")
READ_OWN_LOG: Right = ("TOPIC", f"{PROGRESS_TOPIC}-{{group}}", "READ")
WRITE_OWN_LOG: Right = ("TOPIC", f"{PROGRESS_TOPIC}-{{group}}", "WRITE")
CREATE_OWN_LOG: Right = ("TOPIC", f"{PROGRESS_TOPIC}-{{group}}", "CREATE")
WRITE_IDS: Right = ("TRANSACTIONAL_ID", "coop-{group}-*", "WRITE")
CREATE_PROGRESS: Right = ("TOPIC", PROGRESS_TOPIC, "CREATE")
WRITE_DEAD: Right = ("TOPIC", "{topic}.dlq", "WRITE")
EVERYTHING = AclBindingFilter(
    ResourceType.ANY,
    None,  # type: ignore[arg-type] # confluent's type forgets that it stands for any
    ResourcePatternType.ANY,
    None,  # type: ignore[arg-type]
    None,  # type: ignore[arg-type]
    AclOperation.ANY,
    AclPermissionType.ANY,
)
NEEDED = (READ_TOPIC, READ_GROUP, READ_PROGRESS, WRITE_PROGRESS)
NEEDED_ONCE = (READ_TOPIC, READ_GROUP, READ_OWN_LOG, WRITE_OWN_LOG, WRITE_IDS)
"""With exactly once, of a group whose progress topic is there."""


def grant(root: AdminClient, job: Job, rights: Sequence[Right]) -> None:
    """Give `ann` exactly these rights; rights that she already has stay meanwhile."""
    wanted = {_binding(job, right) for right in rights}
    granted = set(root.describe_acls(EVERYTHING).result(WAIT_S))
    _await(root.create_acls(list(wanted - granted)) if wanted - granted else {})
    _await(root.delete_acls([_only(it) for it in granted - wanted]) if granted - wanted else {})
    eventually(lambda: set(root.describe_acls(EVERYTHING).result(WAIT_S)) == wanted)


def _binding(job: Job, right: Right) -> AclBinding:
    kind, name, operation = right
    pattern = ResourcePatternType.PREFIXED if name.endswith("*") else ResourcePatternType.LITERAL
    return AclBinding(
        ResourceType[kind],
        name.removesuffix("*").format(topic=job.topic, group=job.group),
        pattern,
        "User:ann",
        "*",
        AclOperation[operation],
        AclPermissionType.ALLOW,
    )


def _only(it: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        it.restype,
        it.name,
        it.resource_pattern_type,
        it.principal,
        it.host,
        it.operation,
        it.permission_type,
    )


def _await(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result(WAIT_S)
