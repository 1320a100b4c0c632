"""Every client beside every server, with the limits that plans ask for; and what must be equal."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from typing import Any

import grpc
import grpc.aio
from blocking_calls import play_blocking
from both_ends import IMPLEMENTATIONS, Options, serving
from call_plans import LIMIT_BYTES, End, Limit, Plan, Quits
from grpc import StatusCode
from played_calls import CallerSaw, HandlerSaw, ScriptedHandler, digest, ours, play

import ariane_wire
import ariane_wire.blocking

ORACLE = ("grpcio", "grpcio")
SENDS: Options = (("grpc.max_send_message_length", LIMIT_BYTES),)
RECEIVES: Options = (("grpc.max_receive_message_length", LIMIT_BYTES),)
CLIENT_OPTIONS = {Limit.CLIENT_SENDS: SENDS, Limit.CLIENT_RECEIVES: RECEIVES}
SERVER_OPTIONS = {Limit.SERVER_SENDS: SENDS, Limit.SERVER_RECEIVES: RECEIVES}


CALLERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "grpcio": (grpc.aio.insecure_channel, play),
    "wire": (ariane_wire.insecure_channel, play),
    "grpcio, blocking": (grpc.insecure_channel, play_blocking),
    "wire, blocking": (ariane_wire.blocking.insecure_channel, play_blocking),
}
"""What makes a channel, and who plays on it."""
SAID_OTHERWISE = {
    f"caller's {name}" for name in ("raised", "is_done", "is_cancelled", "done_callbacks")
}
"""What blocking calls say in another way."""


class Pairings:
    """Servers and channels of all implementations, made when they are first asked for."""

    def __init__(self) -> None:
        self._handlers = {name: ScriptedHandler() for name in IMPLEMENTATIONS}
        self._servers: dict[tuple[str, Options], str] = {}
        self._channels: dict[tuple[str, str, Limit], Any] = {}
        self._stack = AsyncExitStack()
        self._numbers = itertools.count()

    async def close(self) -> None:
        """End them all."""
        await self._stack.aclose()

    async def play(self, client: str, server: str, plans: list[Plan]) -> list[dict[str, Any]]:
        """Play plans together in one pairing; what must be equal in each."""
        play_one, handler = CALLERS[client][1], self._handlers[server]
        channels = [await self._channel(client, server, plan.limit) for plan in plans]
        played = await asyncio.gather(
            *(
                play_one(channel, handler, f"{plan.kind}-{next(self._numbers)}", plan)
                for channel, plan in zip(channels, plans, strict=True)
            )
        )
        if client.startswith("grpcio"):
            played = [
                (without_failed_writes(plan, caller), handler)
                for plan, (caller, handler) in zip(plans, played, strict=True)
            ]
        counts = [what_counts(plan, *saw) for plan, saw in zip(plans, played, strict=True)]
        if play_one is play_blocking:
            counts = [
                {name: value for name, value in each.items() if name not in SAID_OTHERWISE}
                for each in counts
            ]
        return counts

    async def _channel(self, client: str, server: str, limit: Limit) -> Any:
        key = (client, server, limit)
        if key not in self._channels:
            address = await self._server(server, SERVER_OPTIONS.get(limit, ()))
            options = list(CLIENT_OPTIONS.get(limit, ()))
            make, play_one = CALLERS[client]
            channel = make(address, options=options)
            if play_one is play_blocking:
                self._channels[key] = self._stack.enter_context(channel)
            else:
                self._channels[key] = await self._stack.enter_async_context(channel)
        return self._channels[key]

    async def _server(self, server: str, options: Options) -> str:
        key = (server, options)
        if key not in self._servers:
            made = serving(IMPLEMENTATIONS[server], self._handlers[server], options=options)
            self._servers[key] = await self._stack.enter_async_context(made)
        return self._servers[key]


def without_failed_writes(plan: Plan, caller: CallerSaw) -> CallerSaw:
    """What grpcio's client saw, as it should.

    It may fail with INTERNAL if a call ends while it writes; and it loses initial metadata that
    come together with the trailers.
    """
    if not caller.initial and not caller.responses:
        caller = replace(caller, initial=ours(plan.script.initial))
    if plan.ends_early and not plan.oversteps:
        return foretold(plan)
    if plan.oversteps and plan.streams_requests and caller.code is StatusCode.INTERNAL:
        return replace(caller, code=StatusCode.RESOURCE_EXHAUSTED)
    return caller


def foretold(plan: Plan) -> CallerSaw:
    """What the caller sees of a call whose handler returns, aborts or raises."""
    script = plan.script
    code = StatusCode.UNKNOWN if script.end is End.RAISE else script.code or StatusCode.OK
    is_fine = code is StatusCode.OK
    return CallerSaw(
        initial=ours(script.initial),
        responses=[digest(bytes(each)) for each in script.writes]
        if plan.streams_responses or is_fine
        else [],
        trailing=ours(script.trailing),
        code=code,
        details=script.details,
        raised="" if is_fine else f"AioRpcError {code}",
        is_done=True,
        is_cancelled=code is StatusCode.CANCELLED,
        done_callbacks=1,
    )


def what_counts(plan: Plan, caller: CallerSaw, handler: HandlerSaw | None) -> dict[str, Any]:
    """What both ends must have seen whoever they are, without what a race decides."""
    if plan.oversteps:
        # A handler that ends early may have ended before the message came that is refused.
        return {} if plan.ends_early else {"caller's code": caller.code}
    seen = {f"caller's {name}": value for name, value in asdict(caller).items()}
    seen |= {f"handler's {name}": value for name, value in asdict(handler or HandlerSaw()).items()}
    return {name: value for name, value in seen.items() if not is_chance(plan, name)}


def is_chance(plan: Plan, name: str) -> bool:
    """Whether implementations may differ in this, or one of them between two runs."""
    says_details = plan.script.code is not None and plan.script.end in {End.RETURN, End.ABORT}
    if name == "caller's details":
        # Each implementation has words of its own for what it says by itself.
        return not says_details
    if name == "caller's initial" and not plan.streams_responses:
        # grpcio waits for the response before it looks at them: a call that is cancelled has none.
        return plan.quits is not Quits.NEVER
    if plan.quits is Quits.DEADLINE:
        # How far the call has come when the deadline passes is a matter of time.
        return name in {"caller's responses", "caller's initial"} or name.startswith("handler's")
    return False


def differences(expected: list[dict[str, Any]], seen: list[dict[str, Any]]) -> list[str]:
    """Where two plays of the same plans differ, in words."""
    return [
        f"call {number}: {name} is {value!r}, expected {one.get(name)!r}"
        for number, (one, other) in enumerate(zip(expected, seen, strict=True))
        for name, value in other.items()
        if one.get(name) != value
    ]
