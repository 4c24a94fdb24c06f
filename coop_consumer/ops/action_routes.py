"""`/confirm/ACTION/GROUP` and `/do/ACTION/GROUP` of an `OpsServer`: what people may change.

In: an operator, templates. Out: routes. A GET shows what would be done and what may break, and
changes nothing. A POST of the form that it shows does it. Each is logged before and after, with who
asked; so is a form that is refused. Both work without a script. Needs the extra `web`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from coop_consumer.errors import CoopConsumerError, ExitCode, RetriableError
from coop_consumer.log_events import LogEvent
from coop_consumer.ops.actions import Asked, PageAction, UnclearError, asked_in
from coop_consumer.ops.confirmations import Confirmations
from coop_consumer.ops.refusals import Refusals
from coop_consumer.ops.requests import form_of, who_of
from coop_consumer.plain_text import printable, shortened

if TYPE_CHECKING:
    from jinja2 import Environment

    from coop_consumer.ops.actions import Operator

log = logging.getLogger(__name__)

T = TypeVar("T")

_AT_ONCE = 2
"""An operator may wait 10 s for brokers. Scrapes and pages have the other threads."""
_NAME_MAX = 60
_PATHS = _CONFIRM, _DO = "/confirm/", "/do/"
_CHANGES_NOTHING = (
    "This page changes nothing: it was started without --allow-actions (of a member: "
    "ops.allow.actions).\n"
)
_STALE = (
    "This form was not shown by this server in the last ten minutes. Nothing was changed. Look "
    "again, and confirm what is true now."
)


class Back(NamedTuple):
    """The way back from an action.

    Attributes:
        path: Of a page.
        name: What is there, for people.
    """

    path: str
    name: str


def to_group(action: str, group: str) -> Back:
    """Whatever was asked for, back to the page of the group."""
    del action
    return Back(f"/group/{quote(group, safe='')}", printable(group))


def to_member_or_group(action: str, group: str) -> Back:
    """At a member's server: its own page pauses and resumes, and the group's page does the rest.

    >>> to_member_or_group("pause", "billing").path, to_member_or_group("skip", "billing").path
    ('/', '/group/billing')
    """
    is_own = action in {PageAction.PAUSE, PageAction.RESUME}
    return Back("/", "the member") if is_own else to_group(action, group)


def action_routes(
    operator: Operator, pages: Environment, back_of: Callable[[str, str], Back] = to_group
) -> list[Route]:
    """The routes.

    Args:
        operator: Carries actions out.
        pages: Has `confirm.html` and `done.html`.
        back_of: The way back, by action and group.
    """
    served = _Actions(operator, pages, back_of)
    return [
        Route(f"{_CONFIRM}{{action}}/{{group:path}}", served.confirm, methods=["GET"]),
        Route(f"{_DO}{{action}}/{{group:path}}", served.do, methods=["POST"]),
    ]


def refusing_routes() -> list[Route]:
    """The same paths at a server whose page changes nothing: an old link, say, is told why."""

    async def refused(request: Request) -> Response:
        del request
        return PlainTextResponse(_CHANGES_NOTHING, HTTPStatus.FORBIDDEN)

    return [Route(f"{path}{{asked:path}}", refused, methods=["GET", "POST"]) for path in _PATHS]


def confirm_url(asked: Asked) -> str:
    """The path of the page that asks to confirm this."""
    return f"{_CONFIRM}{asked.action}/{quote(asked.group, safe='')}?{urlencode(asked.fields)}"


class _Actions:
    def __init__(
        self, operator: Operator, pages: Environment, back_of: Callable[[str, str], Back]
    ) -> None:
        self._operator = operator
        self._confirm, self._done = (
            pages.get_template("confirm.html"),
            pages.get_template("done.html"),
        )
        self._back_of = back_of
        self._confirmations = Confirmations()
        self._refusals = Refusals()
        self._threads: CapacityLimiter | None = None

    async def confirm(self, request: Request) -> Response:
        """Show what would be done."""
        asked = self._asked(request, dict(request.query_params))
        if isinstance(asked, Response):
            return asked
        try:
            intent = await self._on_a_thread(partial(self._operator.look, asked))
        except CoopConsumerError as error:
            return self._failed(asked, error)
        text = self._confirm.render(
            intent=intent,
            fields=sorted(asked.fields.items()),
            token=self._confirmations.token(asked),
            do_url=f"{_DO}{asked.action}/{quote(asked.group, safe='')}",
            back_url=self._back_of(asked.action, asked.group).path,
        )
        return HTMLResponse(text)

    async def do(self, request: Request) -> Response:
        """Do what was confirmed."""
        fields = await form_of(request)
        asked = self._asked(request, fields)
        if isinstance(asked, Response):
            return asked
        who = _who(request, fields.get("by", ""))
        if not self._confirmations.is_confirmed(asked, fields.get("confirmed", "")):
            what = f"to {asked.action} {_place(asked)} of group {asked.group}"
            self._refusals.report(who, what, _STALE)
            again = confirm_url(asked)
            back = self._back_of(asked.action, asked.group)
            return self._page(
                back, "Nothing was changed", _STALE, HTTPStatus.FORBIDDEN, again=again
            )
        # Before it is done: if this process ends meanwhile, the log has who asked.
        log.warning(
            "group %s: %s asks by the page to %s %s",
            *(asked.group, who, asked.action, _place(asked)),
            extra=_extra(LogEvent.OPS_ACTION_ASKED, asked, who),
        )
        try:
            done = await self._on_a_thread(partial(self._operator.carry_out, asked))
        except CoopConsumerError as error:
            log.warning(
                "group %s: %s asked by the page to %s %s, which failed: %s",
                *(asked.group, who, asked.action, _place(asked), error),
                extra=_extra(LogEvent.OPS_ACTION_FAILED, asked, who, error),
            )
            return self._failed(asked, error)
        log.warning(
            "group %s: %s asked by the page to %s %s: %s",
            *(asked.group, who, asked.action, _place(asked), done),
            extra=_extra(LogEvent.OPS_ACTION_DONE, asked, who),
        )
        return self._page(self._back_of(asked.action, asked.group), "Done", done)

    def _asked(self, request: Request, fields: dict[str, str]) -> Asked | Response:
        action, group = request.path_params["action"], request.path_params["group"]
        back = self._back_of(action, group)
        try:
            asked = asked_in(action, group, fields)
        except UnclearError as error:
            return self._page(back, "Nothing was changed", str(error), HTTPStatus.BAD_REQUEST)
        if asked.action not in self._operator.allows:
            text = f"This server does not {asked.action}. Nothing was changed."
            return self._page(back, "Nothing was changed", text, HTTPStatus.NOT_FOUND)
        return asked

    async def _on_a_thread(self, call: Callable[[], T]) -> T:
        if self._threads is None:  # it belongs to the event loop
            self._threads = CapacityLimiter(_AT_ONCE)
        return await to_thread.run_sync(call, limiter=self._threads)

    def _failed(self, asked: Asked, error: CoopConsumerError) -> Response:
        back, again = self._back_of(asked.action, asked.group), confirm_url(asked)
        return self._page(back, "It failed", str(error), _status_of(error), again=again)

    def _page(
        self,
        back: Back,
        title: str,
        text: str,
        status: HTTPStatus = HTTPStatus.OK,
        *,
        again: str = "",
    ) -> Response:
        html = self._done.render(
            title=title,
            text=printable(text),
            back=back,
            again_url=again,
        )
        return HTMLResponse(html, status)


def _place(asked: Asked) -> str:
    if asked.tp is None:
        return "all parked records"
    return f"{asked.tp}" if asked.offset is None else f"{asked.tp} offset {asked.offset}"


def _who(request: Request, name: str) -> str:
    """The client's address, and the name that was given, if there is one."""
    name = shortened(printable(name.strip()), _NAME_MAX)
    return f"{name} at {who_of(request)}" if name else who_of(request)


def _extra(
    event: LogEvent, asked: Asked, who: str, error: CoopConsumerError | None = None
) -> dict[str, object]:
    found = event.extra(group=asked.group, error=error, who=who)
    if asked.tp is not None:
        found |= {"topic": asked.tp.topic, "partition": asked.tp.partition}
    if asked.offset is not None:
        found["offset"] = asked.offset
    return found


def _status_of(error: CoopConsumerError) -> HTTPStatus:
    if isinstance(error, RetriableError):
        return HTTPStatus.SERVICE_UNAVAILABLE
    if error.exit_code == ExitCode.MISSING:
        return HTTPStatus.NOT_FOUND
    return HTTPStatus.CONFLICT
