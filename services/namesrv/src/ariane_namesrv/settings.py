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
        description="Address to listen on, host:port; port 0 lets the system choose one. Loopback "
        "by default: nothing outside this machine reaches a service by accident.",
    )
    data_path: Path | None = Field(
        None,
        description="Folder that keeps what operators decide: key values, wiped write "
        "permissions, in RocketMQ's kvConfig.json. Unset: such changes are refused, since a "
        "restart would lose them. Routes are never on disk.",
    )
    silence_s_max: float = Field(
        120,
        ge=1,
        le=3600,
        description="Seconds that a broker may be silent before it leaves the routes, unless its "
        "registration says another. Four heartbeats: one lost call is no death.",
    )
    scan_interval_s: float = Field(
        10,
        gt=0,
        description="Seconds between two scans for silent brokers; a dead one stays in routes for "
        "so much longer at most.",
    )
    heartbeat_interval_s: float = Field(
        30,
        gt=0,
        description="Seconds between heartbeats that brokers are asked for; less for a broker "
        "whose own silence limit is shorter than three of them.",
    )
    warm_up_s: float = Field(
        45,
        ge=0,
        description="Seconds after the start in which answers say that brokers may be missing, so "
        "that clients keep what they knew. One heartbeat interval of 30 s and the longest pause of "
        "15 s between tries of a broker: by then every living one has registered.",
    )
    brokers_max: int = Field(
        1000,
        ge=1,
        description="Brokers that may be registered at once, replicas included. Keeps a stranger "
        "from filling the memory.",
    )
    topics_per_broker_max: int = Field(
        20_000,
        ge=1,
        description="Topics of one broker that stand in routes; those beyond are refused, the "
        "youngest first, and the doctor says so. A registration of so many takes some 100 ms.",
    )
    key_values_bytes_max: int = Field(
        4 << 20,
        ge=1 << 10,
        description="Size of all key values together in bytes. They are one file, replaced whole "
        "with each change.",
    )
