"""Settings of admin."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, SecretStr, model_validator

from ariane_servicekit import Address, AddressList, CommaSeparated, ListenAddress, ServiceSettings

DATABASE_FILE = "admin.db"


class AdminSettings(ServiceSettings):
    """Admin of ArianeMQ: one API and one console over the whole cluster, with an audit trail."""

    service_name: ClassVar[str] = "admin"
    example: ClassVar[str] = "--name-servers 127.0.0.1:9876 --data-path /var/lib/ariane/admin"

    listen: ListenAddress = Field(
        Address("127.0.0.1", 9881),
        description="Address to listen on, host:port; port 0 lets the system choose one. Loopback "
        "by default: nothing outside this machine reaches a service by accident.",
    )
    console_on: bool = Field(
        default=True, description="Whether to serve the console, pages for a browser."
    )
    console_listen: ListenAddress = Field(
        Address("127.0.0.1", 9882),
        description="Address of the console, host:port, spoken to by HTTP; port 0 lets the system "
        "choose one, and the log tells which.",
    )
    console_hosts: CommaSeparated = Field(
        (),
        description="Names under which browsers may ask for the console, besides 127.0.0.1, "
        "localhost and the host of console_listen, such as admin.example.com. Others are refused: "
        "a page of a stranger could otherwise lead a browser here by a name of its own.",
    )
    name_servers: AddressList = Field(
        (Address("127.0.0.1", 9876),),
        description="All name servers, host:port,host:port. They say which brokers there are.",
    )
    checkers: AddressList = Field(
        (),
        description="Transaction checkers, host:port,host:port. Those of one database answer "
        "alike: the first that answers is asked. Without one, transactions cannot be seen.",
    )
    data_path: Path | None = Field(
        None,
        description="Folder with the SQLite file of an admin that is alone. One of data_path and "
        "database_url is set.",
    )
    database_url: SecretStr | None = Field(
        None,
        description="SQLAlchemy's URL of the database that several admins share, such as "
        "postgresql+psycopg://user:password@host/name. Its tables are made and brought up to date "
        "at the start.",
    )
    database_wait_s: float = Field(
        30,
        ge=0,
        description="Seconds to wait at the start for a database that cannot be reached; then "
        "admin does not start.",
    )
    sample_interval_s: float = Field(
        15,
        ge=1,
        le=300,
        description="Seconds between two samples of rates and backlogs. One is some calls to each "
        "broker.",
    )
    keep_samples_s: float = Field(
        604_800,
        ge=3600,
        description="Seconds that samples are kept: a week. Older than two hours, one in five "
        "minutes stays.",
    )
    sampled_groups_max: int = Field(
        200,
        ge=0,
        description="Consumer groups of one sample at most, those with the longest backlogs; "
        "groups without one cost nothing.",
    )

    @model_validator(mode="after")
    def _enough_to_begin(self) -> Self:
        if not self.name_servers:
            raise ValueError("name_servers must name one at least: they know the brokers")
        if (self.data_path is None) == (self.database_url is None):
            raise ValueError("data_path or database_url must be set, and not both")
        if self.console_on and not self.console_listen.is_loopback and not self.insecure:
            msg = (
                f"console_listen: {self.console_listen} is reachable from other machines and the "
                "console has no credentials; use 127.0.0.1, or insecure to say that the network "
                "is closed"
            )
            raise ValueError(msg)
        return self

    @property
    def url(self) -> str:
        """The database's URL."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        assert self.data_path is not None  # noqa: S101 - the validator says so
        return f"sqlite:///{self.data_path / DATABASE_FILE}"
