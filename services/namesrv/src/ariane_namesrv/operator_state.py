"""Operators' state on disk: key values, and brokers whose write permission is wiped.

One JSON object, ``kvConfig.json``, replaced whole with each change, in RocketMQ's shape::

    {"configTable": {"ORDER_TOPIC_CONFIG": {"trades": "broker-a:4;broker-b:4"},
                     "ARIANE_WIPED_BROKERS": {"broker-b": "true"}}}

RocketMQ does not store wipes: there a wipe lasts until the broker registers again. Ours are in a
namespace of their own, so that a RocketMQ name server with this file keeps them without using them.

A change is on disk before it is visible: what a caller was told is still true after a crash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from ariane_servicekit import StartRefused, feature_not_available, field_invalid
from ariane_servicekit.errors import FileDamaged
from ariane_servicekit.files import FolderLock, JsonFile

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
"""Namespace of the order of brokers for topics whose global order matters. RocketMQ's name."""

WIPED_NAMESPACE: Final = "ARIANE_WIPED_BROKERS"
"""Namespace of the file that holds wiped brokers; callers cannot put keys there."""

FILE_NAME: Final = "kvConfig.json"
"""The file's name in the data folder, which is RocketMQ's."""

NAME_LENGTH_MAX: Final = 255
"""Characters of a namespace or key."""

VALUE_BYTES_MAX: Final = 64 << 10
"""Bytes of a value in UTF-8."""

_KeyValues: TypeAlias = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class _Decisions:
    """One version of the file's content, replaced as a whole in memory as on disk."""

    key_values: _KeyValues = field(default_factory=dict)
    """By namespace and key; no namespace is empty."""
    wiped_brokers: frozenset[str] = frozenset()

    @property
    def size_bytes(self) -> int:
        return sum(
            len(key.encode()) + len(value.encode())
            for pairs in self.key_values.values()
            for key, value in pairs.items()
        )

    def with_pairs(self, namespace: str, pairs: Mapping[str, str]) -> _Decisions:
        key_values = {**self.key_values, namespace: pairs}
        if not pairs:
            del key_values[namespace]
        return replace(self, key_values=key_values)


class OperatorState:
    """Reads and changes operators' state; one change runs after the other.

    Args:
        data_path: The folder of the file. None: the state is empty, and changes are refused.
        key_values_bytes_max: Size of all keys and values together.
        show_wiped: Called with the wiped brokers after loading and after every change.
    """

    def __init__(
        self,
        data_path: Path | None,
        *,
        key_values_bytes_max: int,
        show_wiped: Callable[[frozenset[str]], None],
    ) -> None:
        self._file = JsonFile(data_path / FILE_NAME) if data_path is not None else None
        self._folder_lock = FolderLock(data_path) if data_path is not None else None
        self._bytes_max = key_values_bytes_max
        self._show_wiped = show_wiped
        self._decisions = _Decisions()
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        """Lock the folder and load the file.

        Raises:
            StartRefused: Another process uses the folder, or the file is damaged.
        """
        if self._folder_lock is None or self._file is None:
            return
        self._folder_lock.take()
        try:
            content = await asyncio.to_thread(self._file.load)
            self._take(_read_decisions(content or {}))
        except FileDamaged as error:
            raise StartRefused(str(error)) from None
        except (TypeError, AttributeError, KeyError) as error:
            msg = f"{self._file.path} does not hold what a name server keeps: {error}"
            raise StartRefused(msg) from None

    def close(self) -> None:
        """Release the folder."""
        if self._folder_lock is not None:
            self._folder_lock.release()

    @property
    def wiped_brokers(self) -> frozenset[str]:
        """Names of brokers whose write permission is wiped."""
        return self._decisions.wiped_brokers

    def value(self, namespace: str, key: str) -> str:
        """Return a value, empty when there is none."""
        return self._decisions.key_values.get(namespace, {}).get(key, "")

    def pairs(self, namespace: str) -> list[tuple[str, str]]:
        """Return the keys and values of a namespace, sorted by key."""
        return sorted(self._decisions.key_values.get(namespace, {}).items())

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value.

        Raises:
            ServiceError: FIELD_INVALID for a name or value beyond its limit.
        """
        _check_name("namespace", namespace)
        if namespace == WIPED_NAMESPACE:
            raise field_invalid("namespace", "is the name server's own", namespace)
        _check_name("key", key)
        if len(value.encode()) > VALUE_BYTES_MAX:
            raise field_invalid("value", f"must be at most {VALUE_BYTES_MAX} bytes")

        def with_value(now: _Decisions) -> _Decisions:
            changed = now.with_pairs(namespace, {**now.key_values.get(namespace, {}), key: value})
            if changed.size_bytes > self._bytes_max:
                rule = f"would bring all key values beyond {self._bytes_max} bytes"
                raise field_invalid("value", rule)
            return changed

        await self._change(with_value)

    async def delete(self, namespace: str, key: str) -> bool:
        """Remove a key; return whether it was there."""

        def without_key(now: _Decisions) -> _Decisions:
            pairs = now.key_values.get(namespace, {})
            return now.with_pairs(namespace, {k: v for k, v in pairs.items() if k != key})

        return await self._change(without_key)

    async def wipe(self, broker_name: str) -> bool:
        """Store that a broker's write permission is wiped; return whether that is new."""
        return await self._change(
            lambda now: replace(now, wiped_brokers=now.wiped_brokers | {broker_name})
        )

    async def restore(self, broker_name: str) -> bool:
        """Store that a broker has its write permission again; return whether that is new."""
        return await self._change(
            lambda now: replace(now, wiped_brokers=now.wiped_brokers - {broker_name})
        )

    async def _change(self, decide: Callable[[_Decisions], _Decisions]) -> bool:
        # A caller that is cancelled must not interrupt a write: the next change must find this one
        # both on disk and in memory, or in neither.
        return await asyncio.shield(asyncio.create_task(self._apply(decide)))

    async def _apply(self, decide: Callable[[_Decisions], _Decisions]) -> bool:
        async with self._turn:
            changed = decide(self._decisions)
            if changed == self._decisions:
                return False
            if self._file is None:
                feature = "a change that must outlive the name server, which has no --data-path,"
                raise feature_not_available(feature)
            await asyncio.to_thread(self._file.save, _write_decisions(changed))
            self._take(changed)
            return True

    def _take(self, decisions: _Decisions) -> None:
        self._decisions = decisions
        self._show_wiped(decisions.wiped_brokers)


def _check_name(field_name: str, name: str) -> None:
    if not 1 <= len(name) <= NAME_LENGTH_MAX:
        raise field_invalid(field_name, f"must have 1 to {NAME_LENGTH_MAX} characters")


def _write_decisions(decisions: _Decisions) -> dict[str, Any]:
    table: dict[str, Mapping[str, str]] = dict(decisions.key_values)
    if decisions.wiped_brokers:
        table[WIPED_NAMESPACE] = dict.fromkeys(sorted(decisions.wiped_brokers), "true")
    return {"configTable": table}


def _read_decisions(content: Mapping[str, Any]) -> _Decisions:
    key_values = {
        namespace: {str(key): str(value) for key, value in pairs.items()}
        for namespace, pairs in content.get("configTable", {}).items()
        if pairs
    }
    wiped = key_values.pop(WIPED_NAMESPACE, {})
    return _Decisions(key_values, frozenset(wiped))
