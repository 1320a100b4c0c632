"""Failed messages of one queue, by column, and the properties that their copies get."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Final, Literal

import numpy as np

from ariane_broker.retry.failed_records import DROPPED, DeadLetterReason
from ariane_record import PropertyName, RecordTable
from ariane_record.decoding.columns import RecordColumns
from ariane_record.encoding.moved_records import MovedRecords
from ariane_record.layout import Host, SystemFlag
from ariane_record.names import retry_topic
from ariane_storage.log.records.fields import Int64s

CAUSE_BYTES_MAX: Final = 1024


class FailedColumns:
    """Messages of one queue on which a group failed.

    Each copy names the record before it, and the first record, by commit-log offset. The same
    properties in a record outside of the group's retry topic were written by its producer, and are
    ignored.
    """

    def __init__(self, columns: RecordColumns, topic: str, consumer_group: str) -> None:
        self.columns = columns
        """Their records, perhaps with other records in between."""
        self.attempts: Int64s = columns.headers["attempts"].astype(np.int64)
        """Number of earlier tries of each."""
        self._topic = topic
        self._moved = MovedRecords(columns, dropped=DROPPED)
        self._came_back = topic == retry_topic(consumer_group)
        counts = self._texts(PropertyName.CONSUMER_DEATHS)
        numbers = (int(text) if _is_number(text) else 0 for text in counts)
        self.deaths: Int64s = np.fromiter(numbers, np.int64, len(counts))
        """Number of consumers of the group that died of each."""

    @property
    def born_keys(self) -> list[tuple[int, int, int]]:
        """For each record a key that is equal for records of one born host."""
        headers = self.columns.headers
        ipv6 = headers["system_flag"] & SystemFlag.BORN_HOST_IPV6
        # The header holds only the beginning of an IPv6 host, so such records go one by one.
        own = np.where(ipv6, np.arange(1, len(headers) + 1), 0)
        return list(
            zip(
                headers["born_ip"].tolist(),
                headers["born_port"].tolist(),
                own.tolist(),
                strict=True,
            )
        )

    def born_host(self, row: int) -> Host:
        """The address of a record's producer."""
        return self.columns.message(row).born_host

    def copies(
        self,
        rows: Int64s,
        topic: str,
        *,
        attempts: int,
        deaths: Int64s,
        cause: str,
        return_id: str,
        reason: DeadLetterReason | Literal[""],
    ) -> RecordTable:
        """Make copies of some records, or their dead letters.

        Args:
            rows: Which.
            topic: The destination topic.
            attempts: Number of tries by now, the same for all.
            deaths: Number of consumers that died of each by now.
            cause: Why they failed, for people; empty to leave it out.
            return_id: The client's id of the return; perhaps empty.
            reason: Why they become dead letters; empty if they are retried.

        Raises:
            RecordTooLarge: A record has no room for the new properties.
        """
        places = self.columns.commit_log_offset[rows].tolist()
        origins = self._origins(rows, dead=bool(reason))
        counts = (
            f"{PropertyName.CONSUMER_DEATHS}\x01{n}\x02" if n else "" for n in deaths.tolist()
        )
        last = _encoded(
            (PropertyName.RETURN_ID, return_id),
            (PropertyName.LAST_ERROR, _printable(cause)),
            (PropertyName.DEAD_LETTER_REASON, reason),
        )
        heads = [
            f"{origin}{PropertyName.RETURNED_OFFSET}\x01{place}\x02{count}{last}".encode()
            for origin, place, count in zip(origins, places, counts, strict=True)
        ]
        return self._moved.block(topic, rows, heads=heads, attempts=attempts)

    def _origins(self, rows: Int64s, *, dead: bool) -> Iterator[str]:
        """Encode the origin of each record; for dead letters under RocketMQ's names as well."""
        chosen = rows.tolist()
        queue_ids = map(str, self.columns.queue_id[rows].tolist())
        queue_offsets = map(str, self.columns.queue_offset[rows].tolist())
        firsts = zip(
            self._first(PropertyName.RETRY_TOPIC, chosen, repeat(self._topic)),
            self._first(PropertyName.ORIGIN_MESSAGE_ID, chosen, self._message_ids(rows)),
            self._first(PropertyName.ORIGIN_QUEUE_ID, chosen, queue_ids),
            self._first(PropertyName.ORIGIN_QUEUE_OFFSET, chosen, queue_offsets),
            strict=True,
        )
        for topic, message_id, queue_id, queue_offset in firsts:
            yield _encoded(
                (PropertyName.RETRY_TOPIC, topic),
                (PropertyName.ORIGIN_MESSAGE_ID, message_id),
                (PropertyName.ORIGIN_QUEUE_ID, queue_id),
                (PropertyName.ORIGIN_QUEUE_OFFSET, queue_offset),
                (PropertyName.DEAD_LETTER_TOPIC, topic if dead else ""),
                (PropertyName.DEAD_LETTER_MESSAGE_ID, message_id if dead else ""),
            )

    def _first(self, name: str, rows: list[int], own: Iterable[str]) -> Iterator[str]:
        """Read a property of the origin from each record; the origin itself gives its own."""
        texts = self._texts(name)
        return (text or mine for text, mine in zip(map(texts.__getitem__, rows), own, strict=False))

    def _message_ids(self, rows: Int64s) -> Iterator[str]:
        headers = self.columns.headers[rows]
        hosts = zip(headers["store_ip"].tolist(), headers["store_port"].tolist(), strict=True)
        ipv6 = (headers["system_flag"] & SystemFlag.STORE_HOST_IPV6).tolist()
        places = self.columns.commit_log_offset[rows].tolist()
        for row, (ip, port), longer, place in zip(rows.tolist(), hosts, ipv6, places, strict=True):
            if longer:
                yield self.columns.offset_message_id(row)
            else:
                yield f"{ip:08X}{port:08X}{place:016X}"

    def _texts(self, name: str) -> list[str]:
        """A property that an earlier return wrote into each record; empty where none did."""
        return self._moved.values(name) if self._came_back else [""] * len(self.columns)


def _encoded(*properties: tuple[str, str]) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in properties if value)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


def _printable(cause: str) -> str:
    """The beginning of a text, without characters that properties cannot hold."""
    spaced = "".join(sign if sign.isprintable() else " " for sign in cause[:CAUSE_BYTES_MAX])
    return spaced.encode(errors="replace")[:CAUSE_BYTES_MAX].decode(errors="ignore").strip()
