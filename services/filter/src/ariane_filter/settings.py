"""Settings of a FilterServer."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from ariane_filter.jail.limits import JailLimits
from ariane_servicekit import CHANGEABLE, Address, ListenAddress, ServiceSettings


class FilterSettings(ServiceSettings):
    """FilterServer of ArianeMQ: runs uploaded filters between a broker and its consumers."""

    service_name: ClassVar[str] = "filter"
    example: ClassVar[str] = "--broker 127.0.0.1:10911 --data-path /var/lib/ariane/filters"

    listen: ListenAddress = Field(
        Address("127.0.0.1", 9885),
        description="Address to listen on, host:port; with port 0 the system chooses one. The "
        "default is loopback, so that nothing outside this machine reaches a service by accident.",
    )
    advertised_address: ListenAddress | None = Field(
        None,
        description="Address that routes give to consumers, host:port. Unset: the address to "
        "listen on.",
    )
    broker: ListenAddress = Field(
        Address("127.0.0.1", 10911),
        description="The broker on this machine that the FilterServer serves, host:port. Brokers "
        "accept registrations of FilterServers over loopback only.",
    )
    data_path: Path = Field(
        description="Folder of the catalogue: the uploaded modules, and which are quarantined. All "
        "FilterServers of one broker use the same folder and therefore have the same filters; "
        "one that was away finds what was added meanwhile.",
    )
    uploads: Literal["off", "wasm", "any"] = Field(
        "off",
        description="What may be uploaded: nothing, WebAssembly, or also Python. Filters already "
        "in the catalogue run in each case. Only the kernel's sandbox confines Python, so allow "
        "it only for authors you trust. Unless access is closed, filters are changed from this "
        "machine only: elsewhere callers have to be known, and to have the right on the filter.",
    )
    filters_max: int = Field(
        1000,
        ge=1,
        description="Most versions in the catalogue; more are refused. Each is at most 1 MiB.",
    )
    workers_max: int = Field(
        32,
        ge=1,
        description="Most workers at once, one for each group and version in use. A group that "
        "needs one more gets the place of one that was not used for 5 s; if there is none, it is "
        "sent to another FilterServer by SERVICE_BUSY.",
    )
    worker_idle_s: float = Field(
        60, gt=0, description="Seconds without a pull after which a worker is stopped."
    )
    memory_bytes: int = Field(
        64 << 20,
        ge=8 << 20,
        description="Bytes of memory that a filter may take, beyond what its worker needs.",
    )
    batch_cpu_s: float = Field(
        1.0,
        gt=0,
        description="Seconds of processor time for one batch, which has at most 4096 messages or 2 "
        "MiB.",
    )
    batch_s: float = Field(
        10.0,
        gt=0,
        description="Seconds of wall-clock time for one batch. More than the processor time, "
        "because a worker may have to wait for its turn on a busy machine.",
    )
    start_s: float = Field(
        60.0,
        gt=0,
        description="Seconds until a worker has locked itself in, and the same again until it has "
        "loaded its module.",
    )
    fuel_per_message: int = Field(
        10_000_000,
        ge=1,
        description="WebAssembly instructions that a filter may run for one message.",
    )
    answer_bytes_max: int = Field(
        64 << 20,
        ge=8 << 20,
        description="Most bytes of messages, over all consumers, that the broker has been asked "
        "for or that consumers have not taken yet. One connection may hold half of what is left; "
        "a consumer that wants more waits. Keep it below half of the broker's own "
        "answer_bytes_max, so that a consumer that takes nothing does not keep others waiting "
        "there.",
    )
    concurrent_calls_max: int = Field(
        512,
        ge=1,
        description="Most calls in work at once, including streams and held pulls; more are "
        "refused with SERVICE_BUSY. Each may hold one answer in memory. One connection may have "
        "a quarter of them, one host three quarters.",
        json_schema_extra=CHANGEABLE,
    )

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.advertised_address is None and self.listen.is_wildcard:
            raise ValueError(
                f"listen: {self.listen} is no address that consumers can connect to; "
                "set advertised_address"
            )
        return self

    @property
    def limits(self) -> JailLimits:
        """The limits of a worker."""
        return JailLimits(
            memory_bytes=self.memory_bytes,
            batch_cpu_s=self.batch_cpu_s,
            batch_s=self.batch_s,
            start_s=self.start_s,
            fuel_per_message=self.fuel_per_message,
        )
