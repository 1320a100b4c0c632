"""Plays plans: a handler that follows scripts, a caller that follows plans, and what both saw."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from call_plans import End, Metadata, Plan, Quits, Script

SERVICE = "play.Calls"
DEADLINE_S = 0.3
"""Of a call whose deadline shall pass; the handler hangs, so that it is waited for in any case."""
FAR_S = 250.0
PATIENCE_S = 60.0
"""After which a test fails rather than hang."""


class Boom(Exception):
    """What a handler raises that shall fail."""


@dataclass(slots=True)
class HandlerSaw:
    """One call, from inside."""

    metadata: Metadata = ()
    requests: list[str] = field(default_factory=list)
    deadline: bool = False
    peer_form: str = ""
    end: str = ""
    done_callbacks: int = 0


@dataclass(slots=True)
class CallerSaw:
    """One call, from outside."""

    initial: Metadata = ()
    responses: list[str] = field(default_factory=list)
    trailing: Metadata = ()
    code: grpc.StatusCode | None = None
    details: str | None = None
    raised: str = ""
    is_done: bool = False
    is_cancelled: bool = False
    done_callbacks: int = 0


@dataclass(slots=True)
class Scene:
    """One call that is being played, as both ends know it."""

    plan: Plan
    handler: HandlerSaw = field(default_factory=HandlerSaw)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    hanging: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)


def digest(message: bytes) -> str:
    """A message in a few letters: a difference shall be readable."""
    return f"{len(message)}:{hashlib.sha256(message).hexdigest()[:8]}"


def ours(metadata: Any) -> Metadata:
    """What the plan put there, sorted by key and in its order within a key."""
    pairs = [
        (key, value)
        for key, value in metadata or ()
        if key.startswith("x-") or key == "grpc-status-details-bin"
    ]
    return tuple(sorted(pairs, key=lambda pair: pair[0]))


class ScriptedHandler(grpc.GenericRpcHandler):
    """Serves the calls of all scenes; the name of the method tells which."""

    def __init__(self) -> None:
        self.scenes: dict[str, Scene] = {}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """The handler that follows the script of one scene."""
        name = handler_call_details.method.rpartition("/")[2]
        scene = self.scenes.get(name)
        if scene is None:
            return None
        scene.handler.metadata = ours(handler_call_details.invocation_metadata)
        behaviour = _Performance(scene)
        script, kind = scene.plan.script, scene.plan.kind
        if not kind.endswith("stream"):
            act: Any = behaviour.answer_once
        elif script.by_iterator:
            act = behaviour.yield_many
        else:
            act = behaviour.write_many
        return getattr(grpc, f"{kind}_rpc_method_handler")(act)


class _Performance:
    """One run of a script."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.script: Script = scene.plan.script
        self.saw = scene.handler

    async def answer_once(self, requests: Any, context: Any) -> bytes | None:
        try:
            await self.begin(requests, context)
            await self.read(0, requests, context)
            await self.end(requests, context)
        except asyncio.CancelledError:
            self.saw.end = "cancelled"
            raise
        return bytes(self.script.writes[0])

    async def write_many(self, requests: Any, context: Any) -> None:
        try:
            await self.begin(requests, context)
            for number, payload in enumerate(self.script.writes):
                await self.read(number, requests, context)
                await context.write(bytes(payload))
            await self.read(-1, requests, context)
            await self.end(requests, context)
        except asyncio.CancelledError:
            self.saw.end = "cancelled"
            raise

    async def yield_many(self, requests: Any, context: Any) -> AsyncIterator[bytes]:
        try:
            await self.begin(requests, context)
            for number, payload in enumerate(self.script.writes):
                await self.read(number, requests, context)
                yield bytes(payload)
            await self.read(-1, requests, context)
            await self.end(requests, context)
        except asyncio.CancelledError:
            self.saw.end = "cancelled"
            raise

    async def begin(self, requests: Any, context: Any) -> None:
        self.scene.begun.set()
        context.add_done_callback(lambda _: self._count_done())
        if not self.scene.plan.streams_requests:
            self.saw.requests.append(digest(requests))
        remaining = context.time_remaining()
        self.saw.deadline = remaining is not None and remaining < 2 * FAR_S
        self.saw.peer_form = context.peer().partition(":")[0]
        assert ours(context.invocation_metadata()) == self.saw.metadata
        if self.script.compression is not None:
            context.set_compression(self.script.compression)
        if self.script.initial is not None:
            await context.send_initial_metadata(self.script.initial)
        if self.script.trailing is not None:
            context.set_trailing_metadata(self.script.trailing)

    def _count_done(self) -> None:
        self.saw.done_callbacks += 1
        self.scene.done.set()

    async def read(self, number: int, requests: Any, context: Any) -> None:
        """Ask for the requests that are due before one write."""
        if self.scene.plan.streams_requests:
            for _ in range(self.script.reads[number]):
                await self._read_one(requests, context)

    async def _read_one(self, requests: Any, context: Any) -> bool:
        if self.script.by_iterator:
            message = await anext(aiter(requests), grpc.aio.EOF)
        else:
            message = await context.read()
        self.saw.requests.append("end" if message is grpc.aio.EOF else digest(message))
        return message is not grpc.aio.EOF

    async def end(self, requests: Any, context: Any) -> None:
        script = self.script
        if self.scene.plan.streams_requests and script.drains:
            while await self._read_one(requests, context):
                pass
        self.saw.end = script.end.value
        if script.end is End.HANG:
            self.scene.hanging.set()
            await asyncio.Event().wait()
        if script.end is End.RAISE:
            raise Boom
        if script.end is End.ABORT:
            assert script.code is not None
            await context.abort(script.code, script.details, script.trailing or ())
        if script.code is not None:
            context.set_code(script.code)
            context.set_details(script.details)


async def play(
    channel: Any, handler: ScriptedHandler, name: str, plan: Plan
) -> tuple[CallerSaw, HandlerSaw | None]:
    """Play one call to its end; what both ends saw, None where no handler began."""
    scene = handler.scenes[name] = Scene(plan)
    caller = _Caller(channel, name, scene)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await caller.play()
    finally:
        del handler.scenes[name]
    return caller.saw, scene.handler if scene.begun.is_set() else None


class _Caller:
    """The client's end of one scene."""

    def __init__(self, channel: Any, name: str, scene: Scene) -> None:
        self.scene = scene
        self.plan = scene.plan
        self.saw = CallerSaw()
        self._method = getattr(channel, scene.plan.kind)(f"/{SERVICE}/{name}")
        self._all_came = asyncio.Event()
        if not self.plan.script.writes or not self.plan.streams_responses:
            self._all_came.set()

    async def play(self) -> None:
        plan = self.plan
        options: dict[str, Any] = {"metadata": plan.metadata, "compression": plan.compression}
        if plan.wait_for_ready:
            options["wait_for_ready"] = True
        if plan.quits is Quits.DEADLINE:
            options["timeout"] = DEADLINE_S
        elif plan.far_deadline:
            options["timeout"] = FAR_S
        writing: asyncio.Task[None] | None = None
        if not plan.streams_requests:
            call = self._method(bytes(plan.requests[0]), **options)
        elif plan.by_iterator:
            call = self._method(self._requests(), **options)
        else:
            call = self._method(**options)
            writing = asyncio.create_task(self._write(call))
        call.add_done_callback(lambda _: self._count_done())
        reading = asyncio.create_task(self._read(call))
        await self._quit(call, reading)
        await reading
        await self._look(call)
        if writing is not None:
            await writing
        if self.scene.begun.is_set():
            await self.scene.done.wait()

    def _count_done(self) -> None:
        self.saw.done_callbacks += 1

    async def _requests(self) -> AsyncIterator[bytes]:
        for payload in self.plan.requests:
            yield bytes(payload)

    async def _write(self, call: Any) -> None:
        try:
            for payload in self.plan.requests:
                await call.write(bytes(payload))
            await call.done_writing()
        except (
            grpc.RpcError,
            asyncio.InvalidStateError,
            asyncio.CancelledError,
            # grpcio's, for a call that ends while its last request is being written.
            grpc.aio.InternalError,
        ):
            # The call is over, which whoever reads learns, too.
            await call.code()

    async def _read(self, call: Any) -> None:
        try:
            if not self.plan.streams_responses:
                self._note(await call)
            elif self.plan.by_iterator:
                async for message in call:
                    self._note(message)
            else:
                while (message := await call.read()) is not grpc.aio.EOF:
                    self._note(message)
        except grpc.aio.AioRpcError as failure:
            self.saw.raised = f"AioRpcError {failure.code()}"
        except asyncio.CancelledError:
            self.saw.raised = "CancelledError"

    def _note(self, message: bytes) -> None:
        self.saw.responses.append(digest(message))
        if len(self.saw.responses) == len(self.plan.script.writes):
            self._all_came.set()

    async def _quit(self, call: Any, reading: asyncio.Task[None]) -> None:
        if self.plan.quits not in {Quits.CANCEL, Quits.CANCEL_TASK}:
            return
        # If something fails, the call ends by itself and the handler never hangs.
        events = (self.scene.hanging.wait(), self._all_came.wait())
        both = asyncio.ensure_future(asyncio.gather(*events))
        await asyncio.wait((both, reading), return_when=asyncio.FIRST_COMPLETED)
        both.cancel()
        if self.plan.streams_responses and self.plan.script.initial is not None:
            # They are under way, and shall be here before the end is.
            await call.initial_metadata()
        # grpcio's client waits for ever at times if its reader is cancelled at the first response.
        nothing_read = self.plan.streams_responses and not self.saw.responses
        if self.plan.quits is Quits.CANCEL or nothing_read:
            call.cancel()
        else:
            reading.cancel()

    async def _look(self, call: Any) -> None:
        saw = self.saw
        saw.code = await call.code()
        saw.details = await call.details()
        saw.initial = ours(await call.initial_metadata())
        saw.trailing = ours(await call.trailing_metadata())
        saw.is_done, saw.is_cancelled = call.done(), call.cancelled()
