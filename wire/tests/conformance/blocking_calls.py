"""Plays plans with callers that block, each in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import grpc
from call_plans import Plan, Quits
from played_calls import (
    DEADLINE_S,
    FAR_S,
    PATIENCE_S,
    SERVICE,
    CallerSaw,
    HandlerSaw,
    Scene,
    ScriptedHandler,
    digest,
    ours,
)


async def play_blocking(
    channel: Any, handler: ScriptedHandler, name: str, plan: Plan
) -> tuple[CallerSaw, HandlerSaw | None]:
    """Play one call to its end at both ends; what both saw, None where no handler began."""
    scene = handler.scenes[name] = Scene(plan)
    caller = _BlockingCaller(channel, name, scene)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await caller.play()
    finally:
        del handler.scenes[name]
    return caller.saw, scene.handler if scene.begun.is_set() else None


class _BlockingCaller:
    """The client's end of one scene; the server's loop is where it is told to give up."""

    def __init__(self, channel: Any, name: str, scene: Scene) -> None:
        self.scene = scene
        self.plan = scene.plan
        self.saw = CallerSaw()
        self._method = getattr(channel, scene.plan.kind)(f"/{SERVICE}/{name}")
        self._loop = asyncio.get_running_loop()
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
        request = self._requests() if plan.streams_requests else bytes(plan.requests[0])
        begin = self._method if plan.streams_responses else self._method.future
        call = begin(request, **options)
        reading = asyncio.create_task(asyncio.to_thread(self._read, call))
        if plan.quits in {Quits.CANCEL, Quits.CANCEL_TASK}:
            await self._wait_for_both(reading)
            if plan.streams_responses and plan.script.initial is not None:
                await asyncio.to_thread(call.initial_metadata)
            call.cancel()
        await reading
        await asyncio.to_thread(self._look, call)
        if self.scene.begun.is_set():
            await self.scene.done.wait()

    async def _wait_for_both(self, reading: asyncio.Task[None]) -> None:
        events = (self.scene.hanging.wait(), self._all_came.wait())
        both = asyncio.ensure_future(asyncio.gather(*events))
        await asyncio.wait((both, reading), return_when=asyncio.FIRST_COMPLETED)
        both.cancel()

    def _requests(self) -> Iterator[bytes]:
        for payload in self.plan.requests:
            yield bytes(payload)

    def _read(self, call: Any) -> None:
        try:
            if self.plan.streams_responses:
                for message in call:
                    self._note(message)
            else:
                self._note(call.result())
        except grpc.FutureCancelledError:
            self.saw.raised = "FutureCancelledError"
        except grpc.RpcError as failure:
            self.saw.raised = f"RpcError {failure.code()}"

    def _note(self, message: bytes) -> None:
        self.saw.responses.append(digest(message))
        if len(self.saw.responses) == len(self.plan.script.writes):
            self._loop.call_soon_threadsafe(self._all_came.set)

    def _look(self, call: Any) -> None:
        self.saw.code = call.code()
        self.saw.details = call.details()
        self.saw.initial = ours(call.initial_metadata())
        self.saw.trailing = ours(call.trailing_metadata())
        self.saw.is_done = call.done()
        self.saw.is_cancelled = call.cancelled()
