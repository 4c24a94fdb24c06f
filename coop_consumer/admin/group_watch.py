"""Watches groups from outside for as long as a process runs, whatever becomes of them.

In: a configuration, whose `group.id` names a group. Out: the last look, for any thread. A thread of
its own looks, with clients that stay open. A group that is missing, a right that is missing, or
brokers that are away end nothing: the look says that it failed, and the log says why, once. A
defect of ours ends nothing either. The watch makes new clients once for it, which may help.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from time import monotonic

from coop_consumer.admin.advisor import Advisor
from coop_consumer.admin.group_search import FoundGroups, GroupSearch
from coop_consumer.admin.inspect import Inspector
from coop_consumer.config import Config
from coop_consumer.errors import CoopConsumerError
from coop_consumer.log_events import LogEvent
from coop_consumer.ops.feed import Listing
from coop_consumer.ops.group_metrics import GroupLook

log = logging.getLogger(__name__)

_CLOSE_S = 5.0
_FIND_S = 30.0
"""How often groups that are not named are looked for."""
EMPTY_MAX = 50
"""So many groups are watched that had no members when they were found: each takes a thread and
clients, and where tests run there may be hundreds."""


class GroupWatch:
    """The watch over one group.

    Args:
        config: The configuration of a member of that group.
        topics: Topics to look at besides those of the group.
        every_s: The time between the end of a look and the next one, in seconds; or says it each
            time.
        noticed: Called with each look, on the watch's thread; None: nobody is.
        options: Words that commands need to find the group, for those that a status names.

    Attributes:
        look: The last look; None: the first one is not over.
        looked: Set once the first look is over.
    """

    def __init__(
        self,
        config: Config,
        topics: tuple[str, ...],
        every_s: float | Callable[[], float],
        *,
        noticed: Callable[[GroupLook], object] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self._config = config
        self._noticed = noticed
        self._options = options
        self._topics = topics
        self._every_s = every_s
        self._closing = threading.Event()
        self._due = threading.Event()
        self._failed = ""  # the kind of failure that the log says
        self.look: GroupLook | None = None
        self.looked = threading.Event()
        name = f"coop-watch-{config.group_id}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def look_soon(self) -> None:
        """Have the next look begin at once, or after the one under way; returns at once."""
        self._due.set()

    def stop(self) -> None:
        """Have the thread end after the look under way; returns at once."""
        self._closing.set()
        self._due.set()

    def join(self, timeout_s: float) -> None:
        """Wait until the thread has ended, but no longer than so many seconds."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                with Inspector(self._config) as inspector:
                    advisor = Advisor(inspector, self._topics, records=True, options=self._options)
                    while not self._closing.is_set():
                        self._look(advisor)
            except CoopConsumerError as error:  # no broker answers
                self._note(GroupLook(self._config.group_id, 0.0, monotonic(), error=error))
            except Exception as defect:  # noqa: BLE001 - it is reported, if it is new
                self._note_defect(defect, monotonic())

    def _look(self, advisor: Advisor) -> None:
        group, began_s = self._config.group_id, monotonic()
        try:
            status, advice = advisor.look()
        except CoopConsumerError as error:
            ended_s = monotonic()
            self._note(GroupLook(group, ended_s - began_s, ended_s, error=error))
        except Exception as defect:
            if type(defect).__name__ != self._failed:
                raise  # other clients may help
            self._note_defect(defect, began_s)
        else:
            ended_s = monotonic()
            self._note(GroupLook(group, ended_s - began_s, ended_s, status, advice))

    def _note_defect(self, defect: Exception, began_s: float) -> None:
        """Keep a look that a defect has ended; report one kind of defect once."""
        group, ended_s, kind = self._config.group_id, monotonic(), type(defect).__name__
        if kind != self._failed:
            extra = LogEvent.GROUP_LOOK_FAILED.extra(group=group)
            told = "group %s: it is looked at anew"
            log.error(told, group, exc_info=defect, extra=extra)
        self._note(GroupLook(group, ended_s - began_s, ended_s), failed=kind)

    def _note(self, look: GroupLook, failed: str = "") -> None:
        """Keep a look, and wait until the next one is due.

        Args:
            look: The look.
            failed: The kind of the defect that has ended it; "": none has.
        """
        error = look.error
        told = "" if error is None else str(error)
        if told and type(error).__name__ != self._failed:
            extra = LogEvent.GROUP_UNSEEN.extra(group=look.group, error=error)
            log.warning("group %s cannot be seen: %s", look.group, told, extra=extra)
        elif self._failed and look.status is not None:
            extra = LogEvent.GROUP_SEEN.extra(group=look.group)
            log.info("group %s is seen again", look.group, extra=extra)
        self._failed = type(error).__name__ if error is not None else failed
        self.look = look
        if self._noticed is not None:
            self._noticed(look)
        self.looked.set()
        every_s = self._every_s
        self._due.wait(every_s if isinstance(every_s, float | int) else every_s())
        self._due.clear()


class Watches:
    """The watches over several groups.

    Args:
        make: Makes the watch over a group.

    Attributes:
        listing: What the search for groups has come to; None: groups are named, and none is sought.
    """

    def __init__(self, make: Callable[[str], GroupWatch]) -> None:
        self._make = make
        self._all: dict[str, GroupWatch] = {}
        self._room = EMPTY_MAX  # for groups without members; the search's thread
        self._changing = threading.Lock()
        self._closing = threading.Event()
        self.listing: Listing | None = None

    def begin(self, groups: Iterable[str]) -> None:
        """Watch these, too."""
        with self._changing:
            for group in groups:
                if group not in self._all and not self._closing.is_set():
                    extra = LogEvent.GROUP_WATCHED.extra(group=group)
                    log.info("group %s is watched", group, extra=extra)
                    watch = self._make(group)
                    self._all = {**self._all, group: watch}
                    watch.start()

    def find(self, config: Config) -> None:
        """Watch all groups of this library, and those that come later; the call returns at once.

        Args:
            config: Of any group.
        """
        self.listing = Listing()
        args = (config,)
        threading.Thread(target=self._find, args=args, name="coop-find", daemon=True).start()

    def _find(self, config: Config) -> None:
        search, failed = GroupSearch(config), ""
        while not self._closing.is_set():
            try:
                self._take(search.find())
                failed = ""
            except CoopConsumerError as error:
                self._note_failed(error)
                if failed != type(error).__name__:
                    extra = LogEvent.GROUPS_UNLISTED.extra(error=error)
                    log.warning(
                        "the groups of this cluster cannot be listed: %s", error, extra=extra
                    )
                failed = type(error).__name__
            except Exception as defect:
                self._note_failed(None)
                if failed != type(defect).__name__:
                    extra = LogEvent.GROUPS_UNLISTED.extra(error=defect)
                    log.exception(
                        "the search for groups has failed, and is tried again", extra=extra
                    )
                failed = type(defect).__name__
            self._closing.wait(_FIND_S)

    def _take(self, found: FoundGroups) -> None:
        """Watch what was found; those without members as far as there is room."""
        self.begin(sorted(found.at_work))
        empty = sorted(found.empty - self._all.keys())
        begun, left_out = empty[: self._room], len(empty[self._room :])
        self.begin(begun)
        self._room -= len(begun)
        before = self.listing or Listing()
        extra = LogEvent.GROUPS_UNLISTED.extra()
        if found.hidden and not before.hidden:
            told = "%d groups of this cluster may not be described by this user: they are left out"
            log.warning(told, found.hidden, extra=extra)
        if left_out and not before.left_out:
            told = "%d groups without members are left out: %d are watched. Name those that matter"
            log.warning(told, left_out, EMPTY_MAX, extra=extra)
        self.listing = Listing(is_over=True, hidden=found.hidden, left_out=left_out)

    def _note_failed(self, error: CoopConsumerError | None) -> None:
        """Keep that a search has failed, beside what the last one saw that has not."""
        before = self.listing or Listing()
        self.listing = replace(before, is_over=True, has_failed=True, error=error)

    @property
    def looks(self) -> list[GroupLook]:
        """The last look at each group, as far as there is one; any thread."""
        return [watch.look for watch in self._all.values() if watch.look is not None]

    def close(self) -> None:
        """End all, after the looks under way, if these do not take long."""
        self._closing.set()
        with self._changing:
            watches = list(self._all.values())
        until_s = monotonic() + _CLOSE_S
        for watch in watches:
            watch.stop()
        for watch in watches:
            watch.join(max(until_s - monotonic(), 0.0))
