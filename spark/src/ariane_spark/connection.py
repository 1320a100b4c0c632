"""Connections of this process."""

from __future__ import annotations

from typing import Any

from ariane_spark.cluster import Cluster
from ariane_spark.options import ReadOptions, WriteOptions


def connect_once(options: ReadOptions) -> Cluster:
    raise NotImplementedError(options)


def connect_producer_once(options: WriteOptions) -> Any:
    raise NotImplementedError(options)
