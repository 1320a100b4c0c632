"""Settings of admin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, SecretStr, model_validator

from ariane.admin.v1 import alert_service_pb2 as alert_pb
from ariane_admin.service.console_settings import ConsoleSettings
from ariane_servicekit import (
    NAME_SERVER_FORMS,
    Address,
    AddressList,
    ListenAddress,
    NameServerList,
)

DATABASE_FILE = "admin.db"


class AdminSettings(ConsoleSettings):
    """Admin of ArianeMQ: one API and one console over the whole cluster, with an audit trail."""

    service_name: ClassVar[str] = "admin"
    example: ClassVar[str] = "--name-servers 127.0.0.1:9876 --data-path /var/lib/ariane/admin"

    listen: ListenAddress = Field(
        Address("127.0.0.1", 9881),
        description="Address to listen on, host:port; with port 0 the system chooses one. The "
        "default is loopback, so that nothing outside this machine reaches a service by accident.",
    )
    name_servers: NameServerList = Field(
        ("127.0.0.1:9876",),
        description="All name servers, which say which brokers exist. " + NAME_SERVER_FORMS,
    )
    checkers: AddressList = Field(
        (),
        description="Transaction checkers, host:port,host:port. Checkers that share a database "
        "give the same answers, so the first that answers is used. Without a checker, "
        "transactions cannot be seen.",
    )
    data_path: Path | None = Field(
        None,
        description="Folder of the SQLite file, for an admin that runs alone. Set either data_path "
        "or database_url.",
    )
    database_url: SecretStr | None = Field(
        None,
        description="SQLAlchemy URL of the database that several admins share, such as "
        "postgresql+psycopg://user:password@host/name?sslmode=verify-full. Its tables are created "
        "and migrated at the start. With access closed: TLS, this machine, or insecure_backends.",
    )
    secret_key_file: Path | None = Field(
        None,
        description="File with the key that seals secret keys of RocketMQ's clients in the "
        "database, 32 bytes; made at the start if it is not there. All admins of one database need "
        "the same file, and whoever has a copy of the database must not have it. Unset: no such "
        "keys are taken.",
    )
    database_wait_s: float = Field(
        30,
        ge=0,
        description="Seconds to wait at the start for a database that cannot be reached; after "
        "that admin gives up and does not start.",
    )
    sample_interval_s: float = Field(
        15,
        ge=1,
        le=300,
        description="Seconds between two samples of rates and backlogs. A sample takes a few calls "
        "to each broker.",
    )
    keep_samples_s: float = Field(
        604_800,
        ge=3600,
        description="Seconds that samples are kept; the default is a week. Of samples older than "
        "two hours, one in five minutes is kept.",
    )
    sampled_groups_max: int = Field(
        200,
        ge=0,
        description="Most consumer groups in one sample: those with the longest backlogs. Groups "
        "without a backlog cost nothing.",
    )

    keep_audit_s: float = Field(
        34_560_000,
        ge=86_400,
        description="Seconds that records of the audit trail are kept; the default is 400 days. "
        "They are removed once a day.",
    )
    audit_records_max: int = Field(
        2_000_000,
        ge=10_000,
        description="Records of the audit trail that are kept, two for each change, 1 KiB each as "
        "a rule and 48 KiB at most. Beyond that the oldest are removed, but none younger than "
        "keep_audit_at_least_s.",
    )
    keep_audit_at_least_s: float = Field(
        2_592_000,
        ge=0,
        description="Seconds that records of the audit trail are kept however many there are, so "
        "that nobody pushes them out with changes of his own; the default is 30 days. While these "
        "alone are more than audit_records_max, admin logs audit_records_too_many once an hour.",
    )

    alert_interval_s: float = Field(
        30,
        ge=1,
        le=3600,
        description="Seconds between two readings of the figures that alerts watch. A reading "
        "takes a few calls to each broker, and two for each dead-letter queue.",
    )
    alert_patience_s: float = Field(
        60,
        ge=0,
        description="Seconds that a figure must stay out of bounds before it raises an alert.",
    )
    alert_lag_messages: int = Field(
        0,
        ge=0,
        description="Alert when a group has more unconsumed messages than this; 0: not watched. "
        "What counts as many differs from cluster to cluster.",
    )
    alert_lag_s: float = Field(
        900,
        ge=0,
        description="Alert when a message of a group has waited for more seconds than this; 0: not "
        "watched.",
    )
    alert_dead_letters: int = Field(
        1000,
        ge=0,
        description="Alert when a group has more dead letters than this; 0: not watched.",
    )
    alert_disk_ratio: float = Field(
        0.85,
        ge=0,
        le=1,
        description="Alert when more than this share of a broker's disk is in use; 0: not watched. "
        "A broker has its own bounds: at one it deletes old messages, at a higher one it refuses "
        "new ones.",
    )
    alert_replicas: bool = Field(
        default=True, description="Whether to alert when a replica is not in sync."
    )
    alert_webhook: SecretStr | None = Field(
        None,
        description="URL that receives a JSON POST for each alert that is raised or ends; a failed "
        "call is repeated. The URL may contain a secret, and no log shows it. With access closed "
        "it is https://, of this machine, or allowed by insecure_backends.",
    )

    @model_validator(mode="after")
    def _enough_to_begin(self) -> Self:
        if not self.name_servers:
            raise ValueError("name_servers must name one at least: they know the brokers")
        if (self.data_path is None) == (self.database_url is None):
            raise ValueError("data_path or database_url must be set, and not both")
        return self

    @model_validator(mode="after")
    def _webhook_is_a_url(self) -> Self:
        hook = "" if self.alert_webhook is None else self.alert_webhook.get_secret_value()
        if hook and not hook.startswith(("http://", "https://")):
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
    def backend_urls(self) -> Mapping[str, str]:
        """The URLs of what admin calls beside the cluster, by setting; empty for none."""
        hook, database = self.alert_webhook, self.database_url
        return {
            **super().backend_urls,
            "alert_webhook": "" if hook is None else hook.get_secret_value(),
            "database_url": "" if database is None else database.get_secret_value(),
        }

    @property
    def url(self) -> str:
        """The database's URL."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        assert self.data_path is not None  # noqa: S101 - the validator says so
        return f"sqlite:///{self.data_path / DATABASE_FILE}"
