"""Settings of a name server."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from ariane_servicekit import Address, ListenAddress, ServiceSettings


class NamesrvSettings(ServiceSettings):
    """Name server of ArianeMQ: tells clients which brokers hold a topic."""

    service_name: ClassVar[str] = "namesrv"
    example: ClassVar[str] = "--listen 127.0.0.1:9876 --data-path /var/lib/ariane/namesrv"

    listen: ListenAddress = Field(
        Address("127.0.0.1", 9876),
        description="Address to listen on, host:port; with port 0 the system chooses one. The "
        "default is loopback, so that nothing outside this machine reaches a service by accident.",
    )
    data_path: Path | None = Field(
        None,
        description="Folder that keeps operators' decisions (key values, wiped write permissions) "
        "in RocketMQ's kvConfig.json. Unset: such changes are refused, since a restart would "
        "lose them. Routes are never written to disk.",
    )
    silence_s_max: float = Field(
        120,
        ge=1,
        le=3600,
        description="Seconds without a heartbeat after which a broker leaves the routes, unless "
        "its registration names another limit. The default is four heartbeats: one lost call "
        "does not remove a broker.",
    )
    scan_interval_s: float = Field(
        10,
        gt=0,
        description="Seconds between two scans for silent brokers; a dead broker stays in the "
        "routes for at most this much longer.",
    )
    heartbeat_interval_s: float = Field(
        30,
        gt=0,
        description="Seconds between two heartbeats of a broker; shorter for a broker whose own "
        "silence limit is less than three of these intervals.",
    )
    warm_up_s: float = Field(
        45,
        ge=0,
        description="Seconds after the start in which answers say that brokers may be missing, so "
        "that clients keep the routes they knew. The default is one heartbeat interval (30 s) "
        "plus the longest pause between two tries of a broker (15 s): by then every living "
        "broker has registered.",
    )
    brokers_max: int = Field(
        1000,
        ge=1,
        description="Most brokers that may be registered at once, including replicas. Keeps a "
        "stranger from filling the memory.",
    )
    topics_per_broker_max: int = Field(
        20_000,
        ge=1,
        description="Most topics of one broker that routes contain. Topics beyond that are "
        "refused, the youngest first, and the doctor reports them. Registering this many takes "
        "about 100 ms.",
    )
    key_values_bytes_max: int = Field(
        4 << 20,
        ge=1 << 10,
        description="Most bytes that all key values may take together. They are stored in one "
        "file, which each change replaces as a whole.",
    )
