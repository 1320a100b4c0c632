"""What brokers of a query agree on: parts that wait, and decisions that others do not know."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from ariane_broker.log.derived.snapshots import Document
from ariane_broker.spark_batches.records.batch_records import BatchKey, Contents


@dataclass(slots=True)
class Owed:
    """A decision of this broker of which others are to be notified."""

    contents: Contents
    """The batch."""
    unnotified: set[str]
    """Brokers that have a part of it and do not know."""
    witnessed: bool = False
    """Whether some other broker knows. Before that nothing is visible here: if this broker is lost
    then, its decision is lost, and nobody has seen anything of it."""


class BatchAgreements:
    """Parts that wait, and decisions of which others are to be notified, by batch."""

    def __init__(self) -> None:
        """Start without any."""
        self.prepared: dict[BatchKey, dict[int, tuple[int, ...]]] = {}
        """Parts that wait for the word of the home: by batch and decision, the commit-log offsets
        of their stages, in the order of publication. A call to prepare may arrive after a later
        one, so each decision keeps its own."""
        self.owed: dict[BatchKey, Owed] = {}

    def prepared_of(self, query_id: str) -> list[BatchKey]:
        """The batches of a query that wait here, by their ids."""
        return sorted(batch for batch in self.prepared if batch.query_id == query_id)

    def owed_of(self, query_id: str) -> list[BatchKey]:
        """The batches of a query of which others are to be notified, by their ids."""
        return sorted(batch for batch in self.owed if batch.query_id == query_id)

    def prepare(self, batch: BatchKey, decision_id: int, stages: Iterable[int]) -> None:
        """Keep a part of a batch for a decision."""
        self.prepared.setdefault(batch, {})[decision_id] = tuple(stages)

    def release(self, batch: BatchKey, decision_id: int) -> None:
        """Keep a part of a batch no longer for a decision."""
        parts = self.prepared.get(batch, {})
        parts.pop(decision_id, None)
        if not parts:
            self.prepared.pop(batch, None)

    def is_unwitnessed(self, query_id: str) -> bool:
        """Whether there is a decision about a query that only this broker knows."""
        return any(
            not each.witnessed for key, each in self.owed.items() if key.query_id == query_id
        )

    def unnotified_of(self, query_id: str) -> set[str]:
        """The brokers that have parts of committed batches and do not know."""
        owed = (each.unnotified for key, each in self.owed.items() if key.query_id == query_id)
        return set[str]().union(*owed)

    def notified(self, batch: BatchKey, broker_names: Collection[str]) -> None:
        """Note that brokers know of a decision; without any: that there are no others."""
        owed = self.owed.get(batch)
        if owed is None:
            return
        owed.witnessed = True
        owed.unnotified.difference_update(broker_names)
        if not owed.unnotified:
            del self.owed[batch]

    def forget(self, query_id: str) -> None:
        """Forget a query."""
        for batch in self.prepared_of(query_id):
            del self.prepared[batch]
        for batch in self.owed_of(query_id):
            del self.owed[batch]

    def clear(self) -> None:
        """Forget everything."""
        self.prepared.clear()
        self.owed.clear()

    def copied(self) -> Document:
        """Copy everything."""
        prepared, batches = list(self.prepared), list(self.owed)
        parts = list(map(dict.copy, self.prepared.values()))
        known = list(map(attrgetter("contents", "witnessed"), self.owed.values()))
        unnotified = list(map(set, map(attrgetter("unnotified"), self.owed.values())))

        def contents() -> dict[str, Any]:
            owed = zip(batches, known, unnotified, strict=True)
            return {
                "prepared": [
                    [*batch, decision_id, list(stages)]
                    for batch, of_batch in zip(prepared, parts, strict=True)
                    for decision_id, stages in of_batch.items()
                ],
                "owed": [
                    [*batch, list(contents), sorted(names), witnessed]
                    for batch, (contents, witnessed), names in owed
                ],
            }

        return contents

    def take_over(self, contents: Mapping[str, Any]) -> None:
        """Restore what ``copied`` made."""
        self.clear()
        for query_id, batch_id, decision_id, stages in contents["prepared"]:
            self.prepare(BatchKey(query_id, batch_id), decision_id, stages)
        for query_id, batch_id, decided, unnotified, witnessed in contents["owed"]:
            owed = Owed(Contents(*decided), set(unnotified), witnessed)
            self.owed[BatchKey(query_id, batch_id)] = owed
