"""Trace contexts as text: in headers of records that are sent, and on the way to child processes.

In: a context of OpenTelemetry. Out: headers by the program's own propagators (`traceparent`, by
default); a mapping that another process of ours makes a context of. Needs the extra `otel`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.propagate import inject
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import Setter
from opentelemetry.trace import Span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from coop_consumer.ops.otel_trouble import report

_between_processes = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
"""A program may set up propagators in one of its processes only; these are the same in all."""


class Carried(NamedTuple):
    """The context of a span, as it goes to a child process.

    Attributes:
        context: As text; empty: there is none.
        is_recording: The parent wants to know when the handler ran.
    """

    context: Mapping[str, str]
    is_recording: bool


class _HeaderSetter(Setter[list[tuple[str, bytes]]]):
    def set(self, carrier: list[tuple[str, bytes]], key: str, value: str) -> None:
        carrier.append((key, value.encode()))


_SETTER = _HeaderSetter()


def sent_headers(context: Context | None) -> Sequence[tuple[str, bytes]]:
    """The headers of a record that is sent in a context; None: in the current one."""
    headers: list[tuple[str, bytes]] = []
    try:
        inject(headers, context, _SETTER)
    except Exception as error:  # noqa: BLE001 - whatever a propagator raises, the record is sent
        report(error)
    return headers


def to_child(span: Span, context: Context) -> Carried:
    """What a child process needs to go on in the context of a span."""
    carrier: dict[str, str] = {}
    _between_processes.inject(carrier, context)
    return Carried(carrier, span.is_recording())


def from_parent(carried: Carried) -> Context:
    """The context that a parent process goes on in here."""
    return _between_processes.extract(carried.context, Context())
