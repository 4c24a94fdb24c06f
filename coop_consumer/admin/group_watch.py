"""Watches groups from outside for as long as a process runs, whatever becomes of them.

In: a configuration, whose `group.id` names a group. Out: the last look, for any thread. A thread of
its own looks, with clients that stay open. The watches over many groups share few clients. A group
that is missing, a right that is missing, or brokers that are away end nothing: the look says that
it failed, and the log says why, once. A defect of ours ends nothing either. The watch makes new
clients once for it, which may help.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from time import monotonic

from coop_consumer.admin.advisor import Advisor
from coop_consumer.admin.group_search import FoundGroups, GroupSearch
from coop_consumer.admin.inspect import Inspector
from coop_consumer.admin.look_clients import ClientsClosedError, SharedClients
from coop_consumer.config import Config
from coop_consumer.errors import CoopConsumerError, OutOfResourceError
from coop_consumer.log_events import LogEvent
from coop_consumer.ops.feed import Listing
from coop_consumer.ops.group_metrics import GroupLook
from coop_consumer.plain_text import counted
from coop_consumer.status.errors import GroupMissingError
from coop_consumer.status.seen import NO_GROUP

log = logging.getLogger(__name__)

_CLOSE_S = 5.0
_FIND_S = 30.0
"""How often groups that are not named are looked for."""
EMPTY_MAX = 50
"""So many groups are watched that had no members when they were found: each takes a thread and
looks, and where tests run there may be hundreds."""
_GONE_LOOKS = 3
"""After so many looks running that have found no group, it is gone for good."""


class GroupWatch:
    """The watch over one group.

    Args:
        config: The configuration of a member of that group.
        topics: Topics to look at besides those of the group.
        every_s: The time between the end of a look and the next one, in seconds; or says it each
            time.
        noticed: Called with each look, on the watch's thread; None: nobody is.
        options: Words that commands need to find the group, for those that a status names.
        clients: Lends it clients for each look; None: it has its own ones.

    Attributes:
        look: The last look; None: the first one is not over.
        looked: Set once the first look is over.
        gone_looks: How many looks running have found that Kafka does not know the group.
    """

    def __init__(
        self,
        config: Config,
        topics: tuple[str, ...],
        every_s: float | Callable[[], float],
        *,
        noticed: Callable[[GroupLook], object] | None = None,
        options: Sequence[str] = (),
        clients: SharedClients | None = None,
    ) -> None:
        self._config = config
        self._clients = clients
        self._noticed = noticed
        self._options = options
        self._topics = topics
        self._every_s = every_s
        self._closing = threading.Event()
        self._due = threading.Event()
        self._failed = ""  # the kind of failure that the log says
        self.look: GroupLook | None = None
        self.gone_looks = 0
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
                with Inspector(self._config, self._clients) as inspector:
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
        except ClientsClosedError:
            self._closing.set()
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
            told = (
                "group %s: a look at it has failed, and is repeated. Until one succeeds it has no "
                "figures here; its members are not concerned. Report this defect, with its "
                "traceback"
            )
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
        self.gone_looks = self.gone_looks + 1 if _is_gone(look) else 0
        self.look = look
        if self._noticed is not None:
            self._noticed(look)
        self.looked.set()
        every_s = self._every_s
        self._due.wait(every_s if isinstance(every_s, float | int) else every_s())
        self._due.clear()


def _is_gone(look: GroupLook) -> bool:
    """Whether Kafka does not know the group: neither members nor committed offsets."""
    if look.status is not None:  # the progress log has something of it yet
        return look.status.state == NO_GROUP.state
    return isinstance(look.error, GroupMissingError)


class Watches:
    """The watches over several groups of one cluster.

    A group that was found is watched no more once it is gone for good. One that was named stays.

    Args:
        make: Makes the watch over a group, with clients that all of them share.
        dropped: Called with each group that is watched no more, on the search's thread.

    Attributes:
        listing: What the search for groups has come to; None: groups are named, and none is sought.
    """

    def __init__(
        self,
        make: Callable[[str, SharedClients], GroupWatch],
        dropped: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._make = make
        self._dropped = dropped
        self._clients = SharedClients()
        self._all: dict[str, GroupWatch] = {}
        self._found_empty: set[str] = set()  # of those that are watched; the search's thread
        self._changing = threading.Lock()
        self._closing = threading.Event()
        self._is_full = False  # as the log says; the search's thread
        self.listing: Listing | None = None

    def begin(self, groups: Iterable[str]) -> None:
        """Watch these, too."""
        with self._changing:
            for group in groups:
                if group not in self._all and not self._closing.is_set():
                    extra = LogEvent.GROUP_WATCHED.extra(group=group)
                    log.info("group %s is watched", group, extra=extra)
                    watch = self._make(group, self._clients)
                    self._all = {**self._all, group: watch}
                    watch.start()

    def find(self, config: Config, refuse: Callable[[], None] = lambda: None) -> None:
        """Watch all groups of this library, and those that come later; the call returns at once.

        Args:
            config: Of any group.
            refuse: Raises an `OutOfResourceError` if this machine gives too little for one more.
        """
        self.listing = Listing()
        args = (config, refuse)
        threading.Thread(target=self._find, args=args, name="coop-find", daemon=True).start()

    def _find(self, config: Config, refuse: Callable[[], None]) -> None:
        search, failed = GroupSearch(config), ""
        while not self._closing.is_set():
            try:
                self._take(search.find(), refuse)
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
                        "the search for groups has failed, and is tried again. Groups that are "
                        "watched stay so; new ones are not found. Report this defect, with its "
                        "traceback",
                        extra=extra,
                    )
                failed = type(defect).__name__
            self._closing.wait(_FIND_S)

    def _take(self, found: FoundGroups, refuse: Callable[[], None]) -> None:
        """Watch what was found; those without members as far as there is room."""
        self._drop_gone(found.at_work | found.empty)
        self._begin_found(sorted(found.at_work - self._all.keys()), refuse)
        empty = sorted(found.empty - self._all.keys())
        room = EMPTY_MAX - len(self._found_empty)
        begun, left_out = empty[:room], len(empty[room:])
        self._begin_found(begun, refuse)
        self._found_empty.update(self._all.keys() & begun)
        before = self.listing or Listing()
        extra = LogEvent.GROUPS_UNLISTED.extra()
        if found.hidden and not before.hidden:
            whose = "of this cluster may not be described by this user:"
            one, more = f"group {whose} it is", f"groups {whose} they are"
            told = "%s left out. Grant Describe on them, or name the groups to watch"
            log.warning(told, counted(found.hidden, one, more), extra=extra)
        if left_out and not before.left_out:
            told = "%s left out: %d are watched. Name those that matter"
            which = counted(left_out, "group without members is", "groups without members are")
            log.warning(told, which, EMPTY_MAX, extra=extra)
        self.listing = Listing(is_over=True, hidden=found.hidden, left_out=left_out)

    def _begin_found(self, groups: Iterable[str], refuse: Callable[[], None]) -> None:
        """Watch these, too, as far as this machine gives what that takes."""
        try:
            for group in groups:
                refuse()
                self.begin([group])
                self._is_full = False
        except OutOfResourceError as error:
            if not self._is_full:
                told = "%s watched, and no more that are found: %s (%s)"
                which = counted(len(self._all), "group is", "groups are")
                extra = LogEvent.GROUPS_UNLISTED.extra(error=error)
                log.warning(told, which, error.lacks, error.detail, extra=extra)
            self._is_full = True

    def _drop_gone(self, found: Collection[str]) -> None:
        """Watch those no more that the search does not find, and that their looks do not, either.

        All watched groups were found: where some are named, none is sought.
        """
        for group, watch in self._all.items():
            if group not in found and watch.gone_looks >= _GONE_LOOKS:
                extra = LogEvent.GROUP_DROPPED.extra(group=group)
                log.info(
                    "group %s does not exist any more, and is watched no more", group, extra=extra
                )
                watch.stop()
                with self._changing:
                    self._all = {name: it for name, it in self._all.items() if name != group}
                self._found_empty.discard(group)
                self._dropped(group)

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
        self._clients.close()
        for watch in watches:
            watch.join(max(until_s - monotonic(), 0.0))
