"""``AlertService``: the rules of alerts, and present and past alerts."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.duration_pb2 import Duration
from grpc import aio

from ariane.admin.v1 import alert_service_pb2 as alert_pb
from ariane.admin.v1.alert_service_pb2_grpc import AlertServiceServicer
from ariane_admin.alerts.store import AlertStore, KeptAlert
from ariane_admin.servicers.times import time_of
from ariane_servicekit import PageRequest
from ariane_servicekit.database import Database

_Context = aio.ServicerContext[Any, Any]


class AlertServicer(AlertServiceServicer):
    """Translates questions about alerts.

    Args:
        store: The store of alerts.
        database: The database, whose threads read.
        thresholds: The bound of each watched figure.
        patience_s: Seconds that a figure must be out of bounds.
        webhook: Whether there is a webhook.
    """

    def __init__(
        self,
        store: AlertStore,
        database: Database,
        *,
        thresholds: Mapping[int, float],
        patience_s: float,
        webhook: bool,
    ) -> None:
        self._store = store
        self._database = database
        self._thresholds = thresholds
        self._patience_s = patience_s
        self._webhook = webhook

    async def ListAlertRules(
        self, request: alert_pb.ListAlertRulesRequest, context: _Context
    ) -> alert_pb.ListAlertRulesResponse:
        """List the rules."""
        patience = Duration()
        patience.FromMilliseconds(round(self._patience_s * 1000))
        return alert_pb.ListAlertRulesResponse(
            rules=(
                # The number is one of the contract's.
                alert_pb.AlertRule(figure=figure, threshold=threshold, patience=patience)  # type: ignore[arg-type]
                for figure, threshold in sorted(self._thresholds.items())
            ),
            webhook=self._webhook,
        )

    async def ListAlerts(
        self, request: alert_pb.ListAlertsRequest, context: _Context
    ) -> alert_pb.ListAlertsResponse:
        """List alerts, newest first."""
        page = PageRequest.of(
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"alerts:{request.figure}:{request.include_ended}",
            kinds=(int,),
        )
        found = await self._database.call(
            self._store.alerts,
            figure=int(request.figure),
            include_ended=request.include_ended,
            before=None if page.last is None else int(page.last[0]),
            limit=page.limit + 1,
        )
        taken = page.page_of(found, lambda each: (each.alert_id,))
        return alert_pb.ListAlertsResponse(
            alerts=map(_message, taken.entries), next_page_token=taken.next_page_token
        )


def _message(kept: KeptAlert) -> alert_pb.Alert:
    alert = alert_pb.Alert(
        figure=kept.watched.figure,  # type: ignore[arg-type]
        subject=kept.watched.subject,
        first_value=kept.first_value,
        last_value=kept.last_value,
        raise_time=time_of(kept.raised_ms),
        threshold=kept.threshold,
    )
    if kept.ended_ms is not None:
        alert.end_time.CopyFrom(time_of(kept.ended_ms))
    return alert
