"""The parts list of a transaction checker."""

from __future__ import annotations

import socket
from collections.abc import Collection, Sequence
from typing import Final

from ariane.transaction.v1 import (
    checked_transaction_service_pb2,
    checked_transaction_service_pb2_grpc,
    checker_service_pb2,
    checker_service_pb2_grpc,
)
from ariane_servicekit import (
    Address,
    Loop,
    Machine,
    RpcService,
    StartRefused,
    StopRequest,
)
from ariane_servicekit.database import DATABASE_ERROR_RULES, Database, DatabaseError
from ariane_servicekit.observability.measures import Measures, one
from ariane_txn_checker.database import SCHEMA
from ariane_txn_checker.decisions import OperatorDecisions
from ariane_txn_checker.lease_keeper import LeaseKeeper
from ariane_txn_checker.rpc.remote_brokers import RemoteBrokers
from ariane_txn_checker.rpc.servicers import CheckedTransactionServicer, CheckerServicer
from ariane_txn_checker.settings import CheckerSettings
from ariane_txn_checker.watching.broker_watch import BrokerWatch

BROKERS_INTERVAL_S: Final = 5.0
"""Seconds between two queries of the brokers that exist."""


class CheckerApp:
    """A checker: one database, leases of brokers, a watch for each, two services."""

    def __init__(
        self, settings: CheckerSettings, _stop: StopRequest, machine: Machine | None = None
    ) -> None:
        machine = machine or Machine()
        clock = machine.clock
        self._settings = settings
        try:
            self._database = Database(settings.url, SCHEMA, clock)
        except DatabaseError as error:
            raise StartRefused(str(error)) from error
        self._brokers = RemoteBrokers(
            settings.name_servers,
            answer_ms_max=round(settings.answer_s_max * 1000),
            chance=machine.chance,
        )
        # Unique for all time, because leases name their holder by it.
        self.checker_id = f"{socket.gethostname()[:200]}-{machine.process_id}-{machine.new_id()}"
        self.watch = BrokerWatch(
            self._brokers,
            self._database,
            settings.times,
            settings.rules,
            clock,
            survey_interval_s=settings.survey_interval_s,
        )
        self._keeper = LeaseKeeper(
            self.checker_id,
            self._brokers,
            self._database,
            self.watch.run,
            clock,
            lease_s=settings.lease_s,
        )
        self._sharing = Loop(
            "leases", self._keeper.turn, interval_s=self._keeper.interval_s, clock=clock
        )
        self._finding = Loop("brokers", self._find, interval_s=BROKERS_INTERVAL_S, clock=clock)
        decisions = OperatorDecisions(self._database, self._brokers)
        self.error_rules = DATABASE_ERROR_RULES
        self.open_while_draining: Collection[str] = ()
        self.rpc_services: Sequence[RpcService] = (
            RpcService(
                checked_transaction_service_pb2.DESCRIPTOR.services_by_name[
                    "CheckedTransactionService"
                ],
                checked_transaction_service_pb2_grpc.add_CheckedTransactionServiceServicer_to_server,
                CheckedTransactionServicer(
                    self._database, decisions, check_count_max=settings.check_count_max
                ),
            ),
            RpcService(
                checker_service_pb2.DESCRIPTOR.services_by_name["CheckerService"],
                checker_service_pb2_grpc.add_CheckerServiceServicer_to_server,
                CheckerServicer(self.checker_id, self._database, lambda: self.watch.counts),
            ),
        )

    def measure(self, measures: Measures) -> None:
        """Make the instruments of the checker."""
        for name, description, read in (
            (
                "ariane.checker.checks",
                "Questions put to producers.",
                lambda: one(self.watch.counts.checks),
            ),
            (
                "ariane.checker.checks.unanswered",
                "Questions that brought no outcome.",
                lambda: one(self.watch.counts.unanswered),
            ),
            (
                "ariane.checker.decided",
                "Transactions that a producer's answer ended.",
                lambda: one(self.watch.counts.decided),
            ),
            (
                "ariane.checker.parked",
                "Transactions put aside because nobody could answer for them.",
                lambda: one(self.watch.counts.parked),
            ),
        ):
            measures.counter(name, "{transaction}", description, read)

    async def recover(self, _address: Address) -> None:
        """Bring the database up to date."""
        if self._settings.data_path is not None:
            self._settings.data_path.mkdir(parents=True, exist_ok=True)
        try:
            await self._database.open(wait_s=self._settings.database_wait_s)
        except DatabaseError as error:
            raise StartRefused(str(error)) from error

    async def serve_started(self, _address: Address) -> None:
        """Begin to look for brokers, and to take brokers without a checker."""
        self._finding.start(at_once=True)
        self._sharing.start(at_once=True)

    async def drain(self) -> None:
        """Release all brokers at once, so that other checkers need not wait for leases to end."""
        await self._sharing.stop()
        await self._keeper.close()

    async def stop(self) -> None:
        """Stop the loops, close the connections and the database."""
        await self._finding.stop()
        await self._sharing.stop()
        await self._keeper.drop_all()
        await self._brokers.close()
        self._database.close()

    async def _find(self) -> None:
        before = self._brokers.keys
        await self._brokers.refresh()
        if self._brokers.keys != before:
            self._sharing.wake()
