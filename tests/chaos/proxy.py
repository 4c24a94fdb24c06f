"""A TCP proxy between some members and the broker, to cut the network of these alone.

In: the port of a broker's listener, and the port that this listener advertises: the proxy's. Out:
connections that go through, are held as by a cable pulled out, or are reset. What is held is not
dropped, as TCP would send it again: it goes on when the direction is opened. One thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

LOOPBACK = "127.0.0.1"
CHUNK_BYTES = 65_536
START_TIMEOUT_S = 10.0
_AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER of 0 s: what closes is reset."""


class Proxy:
    """Forwards `port` to `upstream_port`, both on the loopback address, while the block lasts."""

    def __init__(self, port: int, upstream_port: int) -> None:
        self.address = f"{LOOPBACK}:{port}"
        self._port = port
        self._upstream_port = upstream_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=f"proxy-{port}")
        self._listening = threading.Event()
        self._ending = asyncio.Event()
        self._to_broker, self._to_member = asyncio.Event(), asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._refuses = False

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listening.wait(START_TIMEOUT_S), f"nothing listens at {self.address}"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._do(self._ending.set)
        self._thread.join()

    def hold(self, *, to_broker: bool, to_member: bool) -> None:
        """Let nothing through in these directions; connections stay, and new ones are taken."""
        self._do(lambda: self._hold(to_broker=to_broker, to_member=to_member))

    def refuse(self) -> None:
        """Reset every connection, and every new one at once, until `open`."""
        self._do(lambda: self._reset(refuses=True))

    def reset(self) -> None:
        """Reset every connection; new ones are taken."""
        self._do(lambda: self._reset(refuses=False))

    def open(self) -> None:
        """Let everything through again, first of all what was held."""
        self._do(lambda: self._hold(to_broker=False, to_member=False))

    # ---- the thread ----------------------------------------------------------------------------

    def _do(self, change: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(change)

    def _hold(self, *, to_broker: bool, to_member: bool) -> None:
        self._refuses = False
        for flow, held in ((self._to_broker, to_broker), (self._to_member, to_member)):
            if held:
                flow.clear()
            else:
                flow.set()

    def _reset(self, *, refuses: bool) -> None:
        self._refuses = refuses
        writers, self._writers = self._writers, set()
        for writer in writers:
            writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE
            )
            writer.transport.abort()

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._listen())

    async def _listen(self) -> None:
        self._hold(to_broker=False, to_member=False)
        server = await asyncio.start_server(self._link, LOOPBACK, self._port)
        self._listening.set()
        await self._ending.wait()
        server.close()
        self._reset(refuses=True)
        self._to_broker.set()
        self._to_member.set()
        links = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*links, return_exceptions=True)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One member's connection and ours to the broker, until either of them ends."""
        pair = {writer}
        try:
            if not self._refuses:
                far_reader, far_writer = await asyncio.open_connection(
                    LOOPBACK, self._upstream_port
                )
                pair.add(far_writer)
                self._writers |= pair
                await self._forward((reader, far_writer), (far_reader, writer))
        except OSError:  # no broker there: the member sees what it would see without us
            return
        finally:
            self._writers -= pair
            for end in pair:
                end.close()
                with contextlib.suppress(OSError):
                    await end.wait_closed()

    async def _forward(
        self,
        out: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        back: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        pumps = {
            asyncio.create_task(pump(*out, self._to_broker)),
            asyncio.create_task(pump(*back, self._to_member)),
        }
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for other in pumps:
            other.cancel()
        await asyncio.wait(pumps)


async def pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flow: asyncio.Event
) -> None:
    """Forward until one side ends, only while `flow` is set."""
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK_BYTES):
            await flow.wait()
            writer.write(chunk)
            await writer.drain()
