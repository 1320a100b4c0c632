"""An inbox in the application's own Redis (extra ``ariane-sdk[redis]``).

What it promises depends on where the effect is:

- **In the same Redis**: ``take`` sends the commands of the effect and the marks of its messages in
  one ``MULTI``, and ``WATCH`` sees that nobody was faster. A message changes Redis once.
- **Anywhere else**: no transaction holds a mail and a mark. ``claim`` lets one consumer at a time
  have a message, and marks it as done after the effect. If the process dies between the two, or the
  effect takes longer than its claim, **the effect happens again**. So it happens at least once, and
  mostly once; pass the key along, so that the receiver can recognise a repeat.

A mark is as durable as Redis is. A Redis that forgets its last seconds in a crash or a failover
forgets marks, and with them what ``take`` has changed: it needs ``appendonly yes`` and
``appendfsync always`` to forget nothing, and ``maxmemory-policy noeviction``. Redis rolls nothing
back: if it refuses one command of an effect (a wrong type, say), the others and the marks count,
and ``take`` raises. One Redis and its replicas; Redis Cluster has no ``MULTI`` over its slots.

The pattern is the idempotent receiver of Hohpe and Woolf; a claim is a lease.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from inspect import iscoroutine
from typing import Any, Final, TypeVar

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import WatchError

from ariane_sdk.checks.inbox_keys import (
    Identified,
    checked_consumer,
    checked_key,
    checked_time,
    unique_id,
)
from ariane_sdk.errors import ConsumptionHeld, IllegalArgument
from ariane_sdk.runtime.clock import fork_proof_random

__all__ = ["RedisInbox"]

HOLD_S: Final = 1.0
"""How long a listener waits before it asks again for messages that another consumer has claimed."""

_DONE: Final = b"done"

_RELEASE: Final = """
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then redis.call('DEL', key) end
end
"""
"""Another consumer may have claimed what we did not finish in time: that claim stays."""

M = TypeVar("M", bound=Identified)


class RedisInbox:
    """Records in Redis the messages that a consumer has taken, and forgets them after a time.

    Example::

        inbox = RedisInbox(Redis(), "billing", keep=timedelta(days=7))

        async def count(messages):                   # the effect is in this Redis
            await inbox.take(messages, lambda pipeline, fresh: pipeline.incrby("paid", len(fresh)))

        async def mail(messages):                    # the effect is elsewhere
            async with inbox.claim(messages) as fresh:
                for message in fresh:
                    await send_mail(message)
    """

    def __init__(
        self,
        redis: Redis,
        consumer: str,
        *,
        keep: timedelta,
        claim_for: timedelta = timedelta(minutes=5),
        key: Callable[[Any], str] = unique_id,
    ) -> None:
        """Take the parts; Redis is not used yet.

        Args:
            redis: A client of the application, which also closes it.
            consumer: The name of the consumer; mostly its group. Each has keys of its own.
            keep: How long keys are kept: a message that comes later is fresh again, so this must be
                longer than messages can be redelivered.
            claim_for: How long ``claim`` keeps others away: longer than the handler may take for
                what it gets at once. After a crash, messages wait as long.
            key: Returns, for a message, the key by which repeats of it are known; at most 255
                characters.

        Raises:
            IllegalArgument: The name is empty or longer than 120 characters; or ``keep`` or
                ``claim_for`` is no time.
        """
        self._redis = redis
        self._prefix = f"ariane:inbox:{len(checked_consumer(consumer))}:{consumer}:"
        self._keep_ms = _milliseconds(checked_time("keep", keep))
        self._claim_ms = _milliseconds(checked_time("claim_for", claim_for))
        self._random = fork_proof_random()
        self._key: Callable[..., str] = key

    async def take(
        self, messages: Sequence[M], effect: Callable[[Pipeline, list[M]], object]
    ) -> list[M]:
        """Change Redis for the fresh messages, and mark them, in one transaction.

        Args:
            messages: Delivered messages, in any order; one that is twice here is fresh once.
            effect: Is called with a pipeline and the fresh messages, if there are any, and puts
                commands into the pipeline. It is called again if another consumer was faster, so
                it does nothing else, and it is no coroutine.

        Returns:
            The messages of which the effect was made by this call, in the order given. If the
            connection broke and a repeat found it made, none.

        Raises:
            IllegalArgument: A key is not a text, is empty or too long; the effect is a coroutine.
            ConsumptionHeld: Another consumer has claimed one of them; nothing was changed.
            redis.exceptions.RedisError: Redis did not answer, or refused a command. Whether the
                effect was made is unknown; a redelivery finds out.
        """
        by_key = self._by_key(messages)
        keys = list(by_key)
        async with self._redis.pipeline(transaction=True) as pipeline:
            while keys:  # A watch fails because another's transaction went through.
                await pipeline.watch(*keys)
                values = [_octets(value) for value in await pipeline.mget(keys)]
                _hold_if_claimed(values, free=None)
                fresh = [key for key, value in zip(keys, values, strict=True) if value is None]
                if not fresh:
                    break
                pipeline.multi()  # type: ignore[no-untyped-call]  # redis-py's own
                _refuse_coroutine(effect(pipeline, [by_key[key] for key in fresh]))
                for key in fresh:
                    pipeline.set(key, _DONE, px=self._keep_ms)
                try:
                    await pipeline.execute()
                except WatchError:
                    continue
                return [by_key[key] for key in fresh]
        return []

    @asynccontextmanager
    async def claim(self, messages: Sequence[M]) -> AsyncIterator[list[M]]:
        """Claim the fresh messages for the block, and mark them as done when it ends.

        If the block raises, its claims are given back, and the messages are fresh again.

        Args:
            messages: Delivered messages, in any order; one that is twice here is fresh once.

        Yields:
            The fresh messages, in the order given.

        Raises:
            IllegalArgument: A key is not a text, is empty or too long.
            ConsumptionHeld: Another consumer has claimed one of them; none was claimed. A listener
                lets it pass, and gets the messages again a little later.
            redis.exceptions.RedisError: Redis did not answer. After the block: the effect was
                made, and happens again when the message is delivered again.
        """
        by_key = self._by_key(messages)
        token = f"{self._random.getrandbits(128):032x}".encode()
        # By the token, a repeat after a lost answer knows the claim to be its own.
        values = await self._claimed(list(by_key), token)
        mine = [key for key, value in zip(by_key, values, strict=True) if value == token]
        try:
            _hold_if_claimed(values, free=token)
            yield [by_key[key] for key in mine]
        except BaseException:
            if mine:
                await self._redis.eval(_RELEASE, len(mine), *mine, token)
            raise
        async with self._redis.pipeline(transaction=True) as pipeline:
            for key in mine:
                pipeline.set(key, _DONE, px=self._keep_ms)
            await pipeline.execute()

    async def replay(self, keys: Iterable[str]) -> int:
        """Forget these keys, so that their messages are fresh at the next delivery.

        The consumer's offsets are reset separately.

        Returns:
            The number of forgotten keys.
        """
        names = {self._name(key) for key in keys}
        return int(await self._redis.delete(*names)) if names else 0

    async def _claimed(self, keys: Sequence[bytes], token: bytes) -> list[bytes | None]:
        """Claim what is free; return the value of each key then.

        In one transaction, so that of two consumers with the same messages one gets them all.
        """
        async with self._redis.pipeline(transaction=True) as pipeline:
            for key in keys:
                pipeline.set(key, token, nx=True, px=self._claim_ms)
                pipeline.get(key)
            return [_octets(value) for value in (await pipeline.execute())[1::2]]

    def _by_key(self, messages: Sequence[M]) -> dict[bytes, M]:
        """The first message of each key, in the order given."""
        by_key: dict[bytes, M] = {}
        for message in messages:
            by_key.setdefault(self._name(self._key(message)), message)
        return by_key

    def _name(self, key: object) -> bytes:
        """The name in Redis: octets, for a client may have any encoding."""
        return (self._prefix + checked_key(key)).encode()


def _hold_if_claimed(values: Iterable[bytes | None], *, free: bytes | None) -> None:
    if any(value not in (_DONE, free) for value in values):
        raise ConsumptionHeld(HOLD_S, "another consumer has claimed some of these messages")


def _refuse_coroutine(result: object) -> None:
    """Refuse an effect that is a coroutine: it would not run, and be marked as done."""
    if iscoroutine(result):
        result.close()
        raise IllegalArgument("the effect is a coroutine: a plain function is expected")


def _octets(value: object) -> bytes | None:
    """A value as it was written, also by a client with ``decode_responses``."""
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode()


def _milliseconds(time: timedelta) -> int:
    return max(1, time // timedelta(milliseconds=1))
