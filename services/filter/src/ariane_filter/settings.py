"""Settings of a FilterServer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar, Final, Literal, Self

from pydantic import Field, SecretStr, model_validator

from ariane_filter.jail.limits import JailLimits
from ariane_servicekit import CHANGEABLE, Address, ListenAddress, ServiceSettings

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}", re.ASCII)


class FilterSettings(ServiceSettings):
    """FilterServer of ArianeMQ: runs uploaded filters between a broker and its consumers."""

    service_name: ClassVar[str] = "filter"
    example: ClassVar[str] = "--broker 127.0.0.1:10911 --data-path /var/lib/ariane/filters"

    listen: ListenAddress = Field(
        Address("127.0.0.1", 9885),
        description="Address to listen on, host:port; port 0 lets the system choose one. Loopback "
        "by default: nothing outside this machine reaches a service by accident.",
    )
    advertised_address: ListenAddress | None = Field(
        None,
        description="host:port that consumers are told in routes. Unset: the address it listens "
        "on.",
    )
    broker: ListenAddress = Field(
        Address("127.0.0.1", 10911),
        description="The broker that it runs beside, host:port on this machine: brokers take "
        "registrations of FilterServers over loopback only.",
    )
    data_path: Path = Field(
        description="Folder of the catalogue: the uploaded modules, and which are quarantined. "
        "All FilterServers of one broker are given the same folder, and so have the same filters; "
        "one that was away finds what came meanwhile.",
    )
    uploads: Literal["off", "wasm", "any"] = Field(
        "off",
        description="What may be uploaded: nothing; WebAssembly; or Python too. What is in the "
        "catalogue runs in each case. Python runs with nothing but the kernel around it: for "
        "authors you trust. Beyond a loopback address uploads need upload_token.",
    )
    upload_token: SecretStr = Field(
        SecretStr(""),
        description="What callers must say, as metadata authorization: Bearer TOKEN, to upload, "
        "try, quarantine, release or delete filters: 16 to 512 characters of A-Z a-z 0-9 and "
        "-._~+/=. Not as a flag, which every user of the machine can read. Empty: whoever reaches "
        "the port may.",
    )
    filters_max: int = Field(
        1000, ge=1, description="Versions in the catalogue; more are refused. 1 MiB each at most."
    )
    workers_max: int = Field(
        16,
        ge=1,
        description="Workers at once, one for each version in use; a group that needs one more is "
        "led to another FilterServer with SERVICE_BUSY.",
    )
    worker_idle_s: float = Field(
        60, gt=0, description="Seconds without a pull after which a worker is ended."
    )
    memory_bytes: int = Field(
        64 << 20,
        ge=8 << 20,
        description="Memory in bytes that a filter may take, beyond what its worker needs.",
    )
    batch_cpu_s: float = Field(
        1.0,
        gt=0,
        description="Processor seconds for one batch, which is 4096 messages or 2 MiB at most.",
    )
    batch_s: float = Field(
        10.0,
        gt=0,
        description="Seconds for one batch by the clock on the wall: more than processor time, "
        "because a worker may have to wait for its turn on a busy machine.",
    )
    start_s: float = Field(
        60.0,
        gt=0,
        description="Seconds until a worker has locked itself in, and again until it has loaded "
        "its module.",
    )
    fuel_per_message: int = Field(
        10_000_000, ge=1, description="WebAssembly instructions for one message."
    )
    answer_bytes_max: int = Field(
        64 << 20,
        ge=8 << 20,
        description="Bytes of messages that the broker is asked for, or that consumers have not "
        "taken yet, of all consumers together; one connection may hold half of what is left. Who "
        "wants more waits. Less than half of what the broker gives to all (its "
        "answer_bytes_max), so that who takes nothing keeps no other consumer waiting there.",
    )
    concurrent_calls_max: int = Field(
        512,
        ge=1,
        description="Calls in work at once, streams and held pulls included; more are refused "
        "with SERVICE_BUSY. Each may hold one answer in memory. One connection may have a quarter "
        "of them, one host three quarters.",
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

    @model_validator(mode="after")
    def _uploads_are_permitted(self) -> Self:
        token = self.upload_token.get_secret_value()
        if token and not _TOKEN.fullmatch(token):
            raise ValueError(
                "upload_token must have 16 to 512 characters of A-Z a-z 0-9 and -._~+/="
            )
        if not token and self.uploads != "off" and not self.listen.is_loopback:
            raise ValueError(
                f"uploads: {self.listen} is reachable from other machines, and whoever reaches it "
                "might upload code; set upload_token"
            )
        return self

    @property
    def limits(self) -> JailLimits:
        """What a worker may spend."""
        return JailLimits(
            memory_bytes=self.memory_bytes,
            batch_cpu_s=self.batch_cpu_s,
            batch_s=self.batch_s,
            start_s=self.start_s,
            fuel_per_message=self.fuel_per_message,
        )
