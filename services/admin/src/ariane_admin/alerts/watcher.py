"""Watches the figures of a cluster by regular looks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import inf
from typing import Final, Protocol

from ariane.admin.v1 import alert_service_pb2 as alert_pb
from ariane_admin.alerts.bounds import Bounds, Watched
from ariane_admin.alerts.store import AlertStore, KeptAlert
from ariane_admin.alerts.webhook import WebhookFailed
from ariane_admin.asking.answers import Answers
from ariane_admin.asking.broker_readings import broker_state, replica_set_of
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_record.names import dead_letter_topic, is_system_group
from ariane_sdk import LiveBroker, QueueLag
from ariane_sdk.errors import ArianeError, RouteNotFound
from ariane_servicekit import Clock, get_logger
from ariane_servicekit.database import Database

EVENTS_MAX: Final = 100
"""The most events that one turn sends to the webhook."""

_LAG_COUNT: Final = alert_pb.ALERT_FIGURE_LAG_MESSAGE_COUNT
_LAG_SECONDS: Final = alert_pb.ALERT_FIGURE_LAG_SECONDS
_DEAD: Final = alert_pb.ALERT_FIGURE_DEAD_LETTER_COUNT
_DISK: Final = alert_pb.ALERT_FIGURE_DISK_USED_RATIO
_OUT_OF_SYNC: Final = alert_pb.ALERT_FIGURE_REPLICAS_OUT_OF_SYNC

_SUMMED: Final = {_LAG_COUNT, _LAG_SECONDS}
"""Figures that are sums over all brokers."""

_log = get_logger(__name__)

Values = dict[Watched, float | None]


class Notifier(Protocol):
    """A receiver of alerts."""

    async def send(self, event: Mapping[str, object]) -> None:
        """Send one event.

        Raises:
            WebhookFailed: It was not accepted.
        """


class Watcher:
    """Raises and ends alerts; one look makes some calls to each broker.

    Args:
        cluster: The cluster to watch.
        store: The store of alerts.
        database: The database, whose threads use the store.
        clock: The clock of admin.
        thresholds: The greatest value within bounds by figure.
        patience_s: Seconds that a figure must be out of bounds.
        webhook: The receiver of alerts; None without one.
    """

    def __init__(
        self,
        cluster: ClusterAccess,
        store: AlertStore,
        database: Database,
        clock: Clock,
        *,
        thresholds: Mapping[int, float],
        patience_s: float,
        webhook: Notifier | None,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._database = database
        self._clock = clock
        self._thresholds = dict(thresholds)
        self._patience_s = patience_s
        self._webhook = webhook
        self._bounds: Bounds | None = None

    async def look(self) -> None:
        """Look once, and store the changes of alerts."""
        bounds = self._bounds
        if bounds is None:
            standing = await self._database.call(self._store.standing)
            bounds = Bounds(self._thresholds, patience_s=self._patience_s, standing=standing)
            self._bounds = bounds
        try:
            values = await self._values(bounds)
        except ArianeError as error:
            _log.info("alerts_not_judged", error=str(error))
        else:
            turns = bounds.look(values, self._clock.monotonic())
            for one, value in turns.raised.items():
                _log.warning("alert_raised", figure=_word(one), subject=one.subject, value=value)
            now_ms = self._clock.now_ms()
            await self._database.call(self._store.take, turns, self._thresholds, now_ms)

    async def notify(self) -> None:
        """Send the webhook, if there is one, the events that it does not have yet.

        This is a turn of its own, so that a slow webhook does not delay looks.
        """
        if self._webhook is not None:
            await self._send_events(self._webhook)

    async def _values(self, bounds: Bounds) -> Values:
        doors = self._cluster.doors
        answers = Answers(await doors.primaries())
        values: Values = {}
        for broker, used, behind in await answers.ask(self._of_broker, nobody_ok=True):
            values[Watched(_DISK, broker.broker_name)] = used
            if behind is not None:
                values[Watched(_OUT_OF_SYNC, broker.broker_name)] = behind
        lags = await answers.ask(self._lags, nobody_ok=True)
        self._add_lags(values, [lag for found in lags for lag in found])
        await self._add_dead_letters(values, answers)
        if answers.silent:
            # The figures of a silent broker are unknown: its alerts and those of groups continue.
            # The other brokers return a part of a group's lag, which may exceed the bound alone.
            for one in bounds.remembered:
                part = values.get(one) if one.figure in _SUMMED else None
                if one not in values or (part is not None and part <= self._bound(one)):
                    values[one] = None
        return values

    def _bound(self, one: Watched) -> float:
        return self._thresholds.get(one.figure, inf)

    async def _of_broker(self, broker: LiveBroker) -> tuple[LiveBroker, float, float | None]:
        doors = self._cluster.doors
        used = (await broker_state(doors, broker)).store.disk_used_ratio
        state = await replica_set_of(doors, broker)
        if state is None:
            return broker, used, None
        replicas = state.replica_set
        return broker, used, len(replicas.addresses) - len(replicas.in_sync_broker_ids)

    async def _lags(self, broker: LiveBroker) -> list[QueueLag]:
        client = self._cluster.doors.client
        return await client.consumer_lag(broker_names=[broker.broker_name])

    def _add_lags(self, values: Values, lags: list[QueueLag]) -> None:
        counts: dict[str, int] = defaultdict(int)
        ages_s: dict[str, float] = defaultdict(float)
        now_s = self._clock.now_ms() / 1000
        for lag in lags:
            if is_system_group(lag.group):
                continue
            counts[lag.group] += lag.message_count
            if lag.oldest_store_time is not None:
                age_s = max(0.0, now_s - lag.oldest_store_time.timestamp())
                ages_s[lag.group] = max(ages_s[lag.group], age_s)
        for group, count in counts.items():
            values[Watched(_LAG_COUNT, group)] = count
            values[Watched(_LAG_SECONDS, group)] = ages_s[group]

    async def _add_dead_letters(self, values: Values, answers: Answers) -> None:
        if _DEAD not in self._thresholds:
            return
        prefix = dead_letter_topic("")
        topics = await self._cluster.doors.client.list_topics(include_system=True)
        for topic in (each for each in topics if each.startswith(prefix)):
            one = Watched(_DEAD, topic.removeprefix(prefix))
            if answers.silent:
                values[one] = None
                continue
            try:
                bounds = await (await self._cluster.reader()).bounds(topic)
            except RouteNotFound as error:
                if error.away_brokers:
                    values[one] = None
                continue
            values[one] = sum(end - begin for begin, end in bounds.values())

    async def _send_events(self, webhook: Notifier) -> None:
        for alert in await self._database.call(self._store.unsent, EVENTS_MAX):
            for is_end in (False, True):
                if is_end and alert.ended_ms is None:
                    continue
                mine = await self._database.call(self._store.claim, alert.alert_id, is_end=is_end)
                if not mine:
                    continue
                try:
                    await webhook.send(_event(alert, is_end=is_end))
                except BaseException as error:
                    await self._database.call(
                        self._store.claim, alert.alert_id, is_end=is_end, sent=False
                    )
                    if not isinstance(error, WebhookFailed):
                        raise
                    _log.warning("alert_not_sent", alert=alert.alert_id, error=str(error))
                    # The next look tries again.
                    return


def _word(one: Watched) -> str:
    return alert_pb.AlertFigure.Name(one.figure).removeprefix("ALERT_FIGURE_")  # type: ignore[arg-type]


def _event(alert: KeptAlert, *, is_end: bool) -> Mapping[str, object]:
    return {
        "event": "ended" if is_end else "raised",
        "alert": alert.alert_id,
        "figure": _word(alert.watched),
        "subject": alert.watched.subject,
        "value": alert.last_value if is_end else alert.first_value,
        "threshold": alert.threshold,
        "raised_ms": alert.raised_ms,
        "ended_ms": alert.ended_ms,
    }
