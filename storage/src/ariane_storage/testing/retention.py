"""Retention in one call, for those who may wait for the disk."""

from __future__ import annotations

from ariane_storage.keeping.retention import RetentionReport
from ariane_storage.store import Store


def apply_retention(
    store: Store, now_ms: int | None = None, *, keep_from: int | None = None
) -> RetentionReport:
    """Plan retention, let go and finish; see these steps of ``Keeper``."""
    plan = store.keeping.plan_retention(now_ms, keep_from=keep_from)
    store.keeping.let_go(plan)
    return store.keeping.finish_retention(plan)
