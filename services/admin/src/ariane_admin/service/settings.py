"""Settings of admin."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, SecretStr, model_validator

from ariane.admin.v1 import alert_service_pb2 as alert_pb
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

    alert_interval_s: float = Field(
        30,
        ge=1,
        le=3600,
        description="Seconds between two looks at what alerts watch. One is some calls to each "
        "broker, and two for each dead-letter queue.",
    )
    alert_patience_s: float = Field(
        60, ge=0, description="Seconds that a figure must be out of bounds before it is an alert."
    )
    alert_lag_messages: int = Field(
        0,
        ge=0,
        description="More messages than this that a group has not consumed yet are an alert; 0: "
        "not watched. What is much is another figure for each cluster.",
    )
    alert_lag_s: float = Field(
        900,
        ge=0,
        description="A message of a group that waits for more seconds than this is an alert; 0: "
        "not watched.",
    )
    alert_dead_letters: int = Field(
        1000,
        ge=0,
        description="More dead letters of a group than this are an alert; 0: not watched.",
    )
    alert_disk_ratio: float = Field(
        0.85,
        ge=0,
        le=1,
        description="A broker's disk of which more than this share is in use is an alert; 0: not "
        "watched. A broker gives up old messages at its own bound, and refuses new ones later.",
    )
    alert_replicas: bool = Field(
        default=True, description="Whether a replica that is not in sync is an alert."
    )
    alert_webhook: SecretStr | None = Field(
        None,
        description="URL that is told by POST, in JSON, of each alert that is raised or ends; "
        "again where it fails. It may hold a secret, and no log shows it.",
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
        hook = self.alert_webhook
        if hook is not None and not hook.get_secret_value().startswith(("http://", "https://")):
            raise ValueError("alert_webhook must begin with http:// or https://")
        return self

    @property
    def alert_thresholds(self) -> dict[int, float]:
        """The greatest value within bounds by ``AlertFigure``, of those that are watched."""
        bounds = {
            alert_pb.ALERT_FIGURE_LAG_MESSAGE_COUNT: self.alert_lag_messages,
            alert_pb.ALERT_FIGURE_LAG_SECONDS: self.alert_lag_s,
            alert_pb.ALERT_FIGURE_DEAD_LETTER_COUNT: self.alert_dead_letters,
            alert_pb.ALERT_FIGURE_DISK_USED_RATIO: self.alert_disk_ratio,
        }
        found = {int(figure): float(bound) for figure, bound in bounds.items() if bound}
        if self.alert_replicas:
            found[int(alert_pb.ALERT_FIGURE_REPLICAS_OUT_OF_SYNC)] = 0.0
        return found

    @property
    def url(self) -> str:
        """The database's URL."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        assert self.data_path is not None  # noqa: S101 - the validator says so
        return f"sqlite:///{self.data_path / DATABASE_FILE}"
