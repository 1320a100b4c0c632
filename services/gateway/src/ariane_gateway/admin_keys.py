"""The access keys that admin tells; on disk they are sealed, for a start while admin is away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import cycle
from types import MappingProxyType
from typing import Any, Final

from grpc import RpcError

from ariane.admin.v1 import gateway_key_service_pb2 as key_pb
from ariane.admin.v1.gateway_key_service_pb2_grpc import GatewayKeyServiceStub
from ariane_gateway.access_keys import AccessKey
from ariane_gateway.kept_keys import KeptKeys, SealedKeys
from ariane_servicekit import Address, get_logger, open_channel
from ariane_servicekit.clock import Clock
from ariane_servicekit.security.caller import MemberKind

AGAIN_S: Final = 2.0
"""Seconds before another admin is asked."""

SILENCE_S_MAX: Final = 15.0
"""Admin says something every two seconds."""

FIRST_S_MAX: Final = 5.0
"""Seconds that a gateway waits at its start; without keys it refuses everybody."""

NOTED_MS: Final = 60_000
"""Between two notes on disk of when admin had its last word."""

_log = get_logger(__name__)


class AdminKeys:
    """Follows one of several admins, which all tell the same."""

    def __init__(
        self,
        admins: Sequence[Address],
        clock: Clock,
        *,
        hold_s_max: float,
        file: SealedKeys | None = None,
    ) -> None:
        """Follow nobody yet.

        Args:
            admins: Their addresses.
            clock: The clock.
            hold_s_max: Seconds that keys hold after admin's last word.
            file: Keeps them over a restart; None to keep them in memory only.
        """
        self._admins = admins
        self._clock = clock
        self._hold_ms_max = int(hold_s_max * 1000)
        self._file = file
        self._heard_ms = self._noted_ms = 0
        self._all = key_pb.WatchGatewayKeysResponse()
        self._keys: Mapping[str, AccessKey] = MappingProxyType({})
        self._received = asyncio.Event()
        self._changed: Callable[[], None] = _nobody_asks
        self._following: asyncio.Task[None] | None = None

    @property
    def known(self) -> bool:
        """Whether admin's last word still holds."""
        return self._clock.now_ms() - self._heard_ms <= self._hold_ms_max

    def find(self, access_key: str) -> AccessKey | None:
        """The key of a name; None if it does not hold."""
        key = self._keys.get(access_key)
        if key is None or not self.known:
            return None
        return None if 0 < key.ends_ms <= self._clock.now_ms() else key

    async def start(self, changed: Callable[[], None]) -> None:
        """Follow an admin; wait a little for the first keys, or until kept ones have to do."""
        self._changed = changed
        if self._file is not None:
            self._begin(await asyncio.to_thread(self._file.read))
        self._following = asyncio.create_task(self._follow_each(), name="gateway-keys")
        with suppress(TimeoutError):
            await asyncio.wait_for(self._received.wait(), FIRST_S_MAX)

    async def stop(self) -> None:
        """Follow no more. Repeating is harmless."""
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            await asyncio.wait((following,))

    def look(self) -> None:
        """Nothing to look at: admin says when something has changed."""

    async def _follow_each(self) -> None:
        for address in cycle(self._admins):
            try:
                async with open_channel(address, kinds=(MemberKind.ADMIN,)) as channel:
                    await self._follow(GatewayKeyServiceStub(channel))
            except (RpcError, OSError) as error:
                _log.warning(
                    "gateway_keys_not_received", admin=str(address), cause=str(error)[:200]
                )
                if self._keys:
                    self._received.set()
            await self._clock.sleep(AGAIN_S)

    async def _follow(self, stub: GatewayKeyServiceStub) -> None:
        answers: Any = stub.WatchGatewayKeys(key_pb.WatchGatewayKeysRequest())
        gathered = key_pb.WatchGatewayKeysResponse()
        while True:
            async with asyncio.timeout(SILENCE_S_MAX):
                answer = await answers.read()
            if not isinstance(answer, key_pb.WatchGatewayKeysResponse):
                return
            self._heard_ms = self._clock.now_ms()
            gathered.MergeFrom(answer)
            if answer.last:
                _log.info("gateway_keys_received", count=len(gathered.keys))
                self._take(gathered)
                gathered = key_pb.WatchGatewayKeysResponse()
                self._received.set()
                self._changed()
            if answer.last or self._heard_ms - self._noted_ms >= NOTED_MS:
                await self._save()

    def _begin(self, kept: KeptKeys | None) -> None:
        """Act on what was read at the start."""
        if kept is not None:
            self._heard_ms = self._noted_ms = min(kept.heard_ms, self._clock.now_ms())
            self._take(kept.keys)
            _log.info("access_keys_kept", count=len(self._keys))

    def _take(self, answer: key_pb.WatchGatewayKeysResponse) -> None:
        self._all = answer
        self._keys = {each.access_key: _key_of(each) for each in answer.keys}

    async def _save(self) -> None:
        self._noted_ms = self._heard_ms
        if self._file is not None and self._received.is_set():
            await asyncio.to_thread(self._file.save, KeptKeys(self._all, self._heard_ms))


def _nobody_asks() -> None:
    pass


def _key_of(key: key_pb.GatewayKey) -> AccessKey:
    ends_ms = key.expire_time.ToMilliseconds() if key.HasField("expire_time") else 0
    return AccessKey(key.user, key.secret_key, ends_ms, key.by_address)
