"""Settings of a transaction checker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, SecretStr, model_validator

from ariane_servicekit import (
    NAME_SERVER_FORMS,
    Address,
    ListenAddress,
    NameServerList,
    ServiceSettings,
)
from ariane_txn_checker.watching.questioner import CheckRules
from ariane_txn_checker.watching.survey import SurveyTimes

DATABASE_FILE = "checker.db"


class CheckerSettings(ServiceSettings):
    """Transaction checker of ArianeMQ: has producers asked how their transactions ended."""

    service_name: ClassVar[str] = "txn-checker"
    example: ClassVar[str] = "--name-servers 127.0.0.1:9876 --data-path /var/lib/ariane/txn-checker"

    listen: ListenAddress = Field(
        Address("127.0.0.1", 9880),
        description="Address to listen on, host:port; with port 0 the system chooses one. The "
        "default is loopback, so that nothing outside this machine reaches a service by accident.",
    )
    name_servers: NameServerList = Field(
        ("127.0.0.1:9876",),
        description="All name servers, which say which brokers exist; the checker watches every "
        "primary. " + NAME_SERVER_FORMS,
    )
    data_path: Path | None = Field(
        None,
        description="Folder of the SQLite file, for a checker that runs alone. Set either "
        "data_path or database_url.",
    )
    database_url: SecretStr | None = Field(
        None,
        description="SQLAlchemy URL of the database that several checkers share, such as "
        "postgresql+psycopg://user:password@host/name?sslmode=verify-full. Its tables are created "
        "and migrated at the start. With access closed: TLS, this machine, or insecure_backends.",
    )
    database_wait_s: float = Field(
        30,
        ge=0,
        description="Seconds to wait at the start for a database that cannot be reached; after "
        "that the checker gives up and does not start.",
    )
    check_interval_s: float = Field(
        60, gt=0, description="Seconds between two checks of one transaction."
    )
    first_check_s: float = Field(
        6,
        ge=0,
        description="Seconds from the storing of a half message to its first check, unless the "
        "message itself says how long to wait.",
    )
    check_count_max: int = Field(
        15,
        ge=1,
        le=1000,
        description="Most checks of one transaction. One interval after the last check the "
        "transaction is parked, and an operator decides. A check that found no producer to "
        "answer counts; one that never reached the broker does not.",
    )
    answer_s_max: float = Field(
        3,
        gt=0,
        le=30,
        description="Seconds that a producer has to answer. Must not exceed the time that brokers "
        "wait.",
    )
    checks_in_work_max: int = Field(
        64,
        ge=1,
        description="Most checks of one broker at once. Each is a call that waits for a producer.",
    )
    checks_in_work_per_group_max: int = Field(
        16,
        ge=1,
        description="Most checks of one producer group on one broker at once, so that a group "
        "whose producers do not answer leaves room for others.",
    )
    survey_interval_s: float = Field(
        2,
        gt=0,
        description="Seconds between two looks at the half messages of a broker. If nothing "
        "happened there, a look is one small call.",
    )
    note_age_s: float = Field(
        3,
        ge=0,
        description="Seconds after which a half message gets a row in the database. Nearly all "
        "transactions end before that; a message whose first check is due earlier gets its row "
        "at that time.",
    )
    retry_s: float = Field(
        5, gt=0, description="Seconds until the next try after a broker could not be asked."
    )
    lease_s: float = Field(
        15,
        ge=1,
        description="Seconds after which other checkers take over the brokers of a checker that "
        "died. The lease is renewed three times in that span, by the database's clock.",
    )
    keep_decided_s: float = Field(
        259_200,
        ge=0,
        description="Seconds that a decided transaction and its checks remain visible: by default "
        "three days, as long as brokers keep messages. Parked transactions stay until somebody "
        "decides.",
    )

    @model_validator(mode="after")
    def _enough_to_begin(self) -> Self:
        if not self.name_servers:
            raise ValueError("name_servers must name one at least: they know the brokers")
        if (self.data_path is None) == (self.database_url is None):
            raise ValueError("data_path or database_url must be set, and not both")
        return self

    @property
    def backend_urls(self) -> Mapping[str, str]:
        """The URLs of what the checker calls beside the cluster, by setting; empty for none."""
        database = self.database_url
        return {
            **super().backend_urls,
            "database_url": "" if database is None else database.get_secret_value(),
        }

    @property
    def url(self) -> str:
        """The database's URL."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        assert self.data_path is not None  # noqa: S101 - the validator says so
        return f"sqlite:///{self.data_path / DATABASE_FILE}"

    @property
    def rules(self) -> CheckRules:
        """How often a transaction is checked, and how many at once."""
        return CheckRules(
            interval_ms=_ms(self.check_interval_s),
            check_count_max=self.check_count_max,
            retry_ms=_ms(self.retry_s),
            concurrency=self.checks_in_work_max,
            group_concurrency=self.checks_in_work_per_group_max,
        )

    @property
    def times(self) -> SurveyTimes:
        """When half messages are noted and deleted."""
        return SurveyTimes(
            first_check_ms=_ms(self.first_check_s),
            note_age_ms=_ms(self.note_age_s),
            keep_decided_ms=_ms(self.keep_decided_s),
        )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
