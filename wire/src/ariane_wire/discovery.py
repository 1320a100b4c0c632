"""Addresses of services that change while a process lives: from DNS, from a file, from a URL.

::

    10.0.0.7:9876               an address, as it is
    dns:names.example:9876      all addresses of a name
    file:/etc/names             a file of addresses
    http://names.example/list   the same by HTTP, or HTTPS

Files and answers have addresses separated by commas, semicolons, blanks or lines; a line that
begins with "#" is a comment. A source that cannot be read keeps the addresses that it had.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Final

READ_S_MAX: Final = 3.0
"""How long one source may take."""

BYTES_MAX: Final = 64 << 10

_DNS: Final = "dns:"
_FILE: Final = "file:"
_SOURCE: Final = re.compile(r"dns:(?P<address>.+)|file:.+|https?://[^\s/]+(/\S*)?")
_ADDRESS: Final = re.compile(r"[^\s,;/]+:(?P<port>[0-9]{1,5})")
_PORT_MAX: Final = 0xFFFF


def is_source(text: str) -> bool:
    """Whether a text names a source of addresses, rather than being one."""
    found = _SOURCE.fullmatch(text)
    return found is not None and (found["address"] is None or _is_address(found["address"]))


def _is_address(text: str) -> bool:
    found = _ADDRESS.fullmatch(text)
    return found is not None and 0 < int(found["port"]) <= _PORT_MAX


class AddressSources:
    """Addresses, some of them from sources that are read again."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Take addresses and sources; sources are not read yet."""
        self._fixed = tuple(text for text in texts if not is_source(text))
        self._found: dict[str, tuple[str, ...]] = {text: () for text in texts if is_source(text)}
        self.addresses = self._fixed
        """Those that are known now; fixed ones first, each once."""
        self.errors: dict[str, str] = {}
        """Why sources could not be read the last time, by source."""
        self._readings: dict[str, Future[str]] = {}

    @property
    def is_fixed(self) -> bool:
        """Whether there is nothing to read again."""
        return not self._found

    async def read(self) -> Sequence[str]:
        """Read all sources again, and return the addresses."""
        await asyncio.gather(*map(self._read, self._found))
        known = [address for found in self._found.values() for address in found]
        self.addresses = tuple(dict.fromkeys((*self._fixed, *known)))
        return self.addresses

    async def _read(self, source: str) -> None:
        try:
            async with asyncio.timeout(READ_S_MAX):
                found = await self._addresses_of(source)
        except (OSError, ValueError) as error:
            late = isinstance(error, TimeoutError)
            cause = f"it takes longer than {READ_S_MAX:g} s" if late else type(error).__name__
            self.errors[source] = f"{source}: {str(error) or cause}"
            return
        if not found:
            self.errors[source] = f"{source}: it has no addresses"
            return
        self._found[source] = found
        self.errors.pop(source, None)

    async def _addresses_of(self, source: str) -> tuple[str, ...]:
        if source.startswith(_DNS):
            return await _resolved(source.removeprefix(_DNS))
        before = self._readings.get(source)
        if before is not None and not before.done():
            raise TimeoutError("the reading before has not ended")
        reading: Future[str] = Future()

        def read() -> None:
            if not reading.set_running_or_notify_cancel():
                return
            try:
                reading.set_result(_content_of(source))
            except Exception as error:  # noqa: BLE001 - it is raised where it is awaited.
                reading.set_exception(error)

        # Not one of the loop's pool: while a file server is away, that would keep the program from
        # ending.
        Thread(target=read, name="ariane-addresses", daemon=True).start()
        self._readings[source] = reading
        return _listed(await asyncio.wrap_future(reading))


def _content_of(source: str) -> str:
    if source.startswith(_FILE):
        return Path(source.removeprefix(_FILE)).read_text("utf-8")
    return _fetched(source)


async def _resolved(address: str) -> tuple[str, ...]:
    """All addresses of a host and port, sorted."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    hosts = sorted({str(place[0]) for *_, place in found})
    return tuple(f"[{each}]:{port}" if ":" in each else f"{each}:{port}" for each in hosts)


def _fetched(url: str) -> str:
    # Few clients have such a source: the others need not load this at their start.
    from http.client import HTTPException  # noqa: PLC0415
    from urllib.request import ProxyHandler, build_opener  # noqa: PLC0415

    # No proxy from the environment, as for calls.
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(url, timeout=READ_S_MAX) as answer:
            content: bytes = answer.read(BYTES_MAX)
    except HTTPException as error:
        raise ValueError(f"it answers no HTTP that can be read: {error!r:.100}") from error
    return content.decode()


def _listed(text: str) -> tuple[str, ...]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    words = re.split(r"[\s,;]+", "\n".join(lines).strip())
    wrong = [word for word in words if word and not _is_address(word)]
    if wrong:
        raise ValueError(f"{wrong[0]!r:.100} is no host:port")
    return tuple(dict.fromkeys(word for word in words if word))
