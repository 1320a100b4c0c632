"""All that a process needs to judge its callers, in one piece for its life."""

from __future__ import annotations

import asyncio
from typing import Final

from ariane_servicekit.configuration.settings import ServiceSettings
from ariane_servicekit.machine import Machine
from ariane_servicekit.rpc.server import RpcService
from ariane_servicekit.running.background import Loop
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.gate.access_servicer import AccessServicer, access_rpc_service
from ariane_servicekit.security.gate.gate import Gate
from ariane_servicekit.security.gate.rules_keeper import RulesKeeper

RULES_LOOK_S: Final = 10.0
"""Seconds between two looks at the age of the rules."""


class AccessGuard:
    """The gate of a process, and the rules that it judges by."""

    def __init__(self, settings: ServiceSettings, machine: Machine) -> None:
        """Judge as the settings say."""
        self.gate = Gate(
            settings.access,
            machine.clock.now_ms,
            now_s=machine.clock.monotonic,
            own_name=settings.member_name,
            super_users=frozenset(settings.super_users),
        )
        """Judges calls."""
        self._keeper = RulesKeeper(
            self.gate,
            settings.access_rules_file,
            machine.clock,
            hold_s_max=settings.access_rules_s_max,
        )
        self._servicer = AccessServicer(self.gate, self._keeper)
        self.rpc_service: RpcService = access_rpc_service(self._servicer)
        """By which admin tells rules."""
        self._ageing = Loop(
            "access-rules", self._keeper.turn, interval_s=RULES_LOOK_S, clock=machine.clock
        )

    @property
    def closed(self) -> bool:
        """Whether callers without rights are refused."""
        return self.gate.mode is AccessMode.CLOSED

    async def start(self) -> None:
        """Read the rules that are on disk, and watch their age.

        Raises:
            StartRefused: They cannot be read.
        """
        # Who watches rules, such as calls that last, lives in the loop.
        self._keeper.begin(await asyncio.to_thread(self._keeper.read))
        self._ageing.start()

    def close(self) -> None:
        """End the streams of rules. Repeating is harmless."""
        self._servicer.close()

    async def stop(self) -> None:
        """Stop watching. Repeating is harmless."""
        await self._ageing.stop()
