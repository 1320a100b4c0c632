"""The settings of a broker. Every number has a unit and a reason; the defaults are safe."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from typing_extensions import override

from ariane_broker.delay.level_table import level_waits_ms
from ariane_broker.topics.topic_table import QUEUE_COUNT_MAX
from ariane_record.layout import BLANK_SIZE_MIN_BYTES
from ariane_record.names import CLUSTER_NAME_LENGTH_MAX, GROUP_NAME_LENGTH_MAX, REPLY_SUFFIX
from ariane_servicekit import NAME_SERVER_FORMS, ListenAddress, NameServerList, ServiceSettings
from ariane_storage.config import FlushMode, StoreConfig

_NAME: str = rf"^[A-Za-z0-9_-]{{1,{GROUP_NAME_LENGTH_MAX}}}$"
_CLUSTER_NAME: str = rf"^[A-Za-z0-9_-]{{1,{CLUSTER_NAME_LENGTH_MAX}}}$"

_CALL_BYTES_MAX: int = 32 << 20


class BrokerSettings(ServiceSettings):
    """The broker: stores and serves messages."""

    service_name: ClassVar[str] = "broker"
    example: ClassVar[str] = (
        "--listen 127.0.0.1:10911 --name-servers 127.0.0.1:9876 --store-path ./store"
    )

    store_path: Path = Field(
        description="Folder of the store. One broker process owns it; it is created if it is "
        "missing."
    )
    cluster_name: str = Field(
        "DefaultCluster",
        pattern=_CLUSTER_NAME,
        description=f"The broker's cluster, as in routes. At most {CLUSTER_NAME_LENGTH_MAX} "
        f"characters, because the name of its reply topic ends with {REPLY_SUFFIX}.",
    )
    broker_name: str = Field(
        "broker-a",
        pattern=_NAME,
        description="The name, unique in its cluster; a primary and its replicas share it.",
    )
    broker_id: int = Field(
        0,
        ge=0,
        le=1000,
        description="Distinguishes brokers of one name. With replica_set_url, any of them may "
        "become primary, and broker 0 creates the set; without it, there is only broker 0.",
    )
    replica_set_url: SecretStr = Field(
        SecretStr(""),
        description="The database in which brokers of one name agree on the primary, as an "
        "SQLAlchemy URL: sqlite:////path/file.db on one machine, postgresql+psycopg://... on "
        "several. The same for all of them. With access closed: TLS (?sslmode=verify-full), this "
        "machine, or insecure_backends. Empty: the broker has no replicas. It may contain a "
        "password, and nothing shows it.",
    )
    accept_set_loss: bool = Field(
        default=False,
        description="Begin the replica set with this broker's log although the log has had "
        "primaries: after the database was lost, for the broker that has most. Only for one start.",
    )
    acknowledge: Literal["local", "replicated"] = Field(
        "replicated",
        description="With replicas, what an acknowledgement waits for. replicated: all in-sync "
        "brokers have the message (on their disks, under flush_mode sync), and no consumer gets "
        "it earlier. local: only this broker has it; a lost primary takes messages along that "
        "replicas had not copied.",
    )
    in_sync_min: int = Field(
        1,
        ge=1,
        le=10,
        description="Under acknowledge replicated, how many brokers, the primary included, must "
        "be in sync for a message to be accepted; with fewer, it is refused rather than accepted "
        "at a lower level.",
    )
    primary_lease_s: float = Field(
        5,
        gt=0,
        description="Seconds of a primary's lease. An in-sync replica takes over a little after "
        "the lease has expired; a primary that cannot renew it in the database accepts nothing "
        "after that. The others of a set wait for the lease of the primary, not for their own.",
    )
    primary_preference: int = Field(
        0,
        ge=0,
        le=1000,
        description="How much this broker is preferred as primary of its set: of those in sync, "
        "the one with the highest follows on a dead primary, `ariane broker ha balance` gives it "
        "the role, and so does preferred_return_s. Of equal ones, one in another zone than the "
        "dead primary goes first.",
    )
    preferred_return_s: float = Field(
        0,
        ge=0,
        description="Seconds for which a preferred broker must have been in sync until a primary "
        "that is less preferred hands its role to it. 0: only by command.",
    )
    replica_behind_s_max: float = Field(
        5,
        gt=0,
        description="Seconds that an in-sync replica may be behind; then it leaves the in-sync "
        "set, and nobody waits for it until it has caught up.",
    )
    replication_wait_s: float = Field(
        10,
        gt=0,
        description="Seconds that a send waits for replicas; then it is answered with "
        "REPLICATION_UNCONFIRMED: stored, outcome unknown. More than replica_behind_s_max, so "
        "that a dying replica delays sends but fails none.",
    )
    backlog_memory_ratio: float = Field(
        0.4,
        ge=0,
        le=1,
        description="Consumers of a queue that are further behind the end of the log than this "
        "share of the machine's memory read the older messages from an in-sync replica, so that "
        "fresh messages stay in memory. Only for brokers with replicas.",
    )
    replica_state_s: float = Field(
        1,
        gt=0,
        description="Seconds between two copies of the files beside the log, such as consumer "
        "offsets, by a replica.",
    )
    name_servers: NameServerList = Field(
        (),
        description="All name servers; the broker registers with each. " + NAME_SERVER_FORMS + " "
        "None: the broker is in no route and is reached by its address only.",
    )
    name_server_reread_s: float = Field(
        30.0,
        description="How often sources of name servers are read again, in seconds.",
        gt=0,
    )
    advertised_address: ListenAddress | None = Field(
        None,
        description="The address for clients, host:port, as in routes. Unset: the address it "
        "listens on.",
    )
    zone: str = Field(
        "",
        description="Machine room or zone: strategies of consumers share queues by it, and a deep "
        "backlog is read from a replica in the reader's zone. May be empty.",
    )

    flush_mode: Literal["async", "sync"] = Field(
        "async",
        description="What an acknowledgement waits for. async: nothing; a message survives the "
        "process, but not a power loss within flush_interval_ms. sync: the disk; one flush serves "
        "all that wait.",
    )
    flush_interval_ms: int = Field(
        500, ge=1, description="Milliseconds between flushes of the commit log under async."
    )
    flush_wait_s: float = Field(
        5,
        gt=0,
        description="Seconds that a send waits for its flush under sync; then it is answered with "
        "FLUSH_UNCONFIRMED: stored, outcome unknown.",
    )
    segment_bytes: int = Field(
        1 << 30,
        ge=1 << 20,
        multiple_of=4096,
        description="Bytes of a commit-log segment. Part of the store's format: a store can be "
        "opened only with the sizes that it was created with. 1 GiB as in RocketMQ.",
    )
    consume_queue_entries: int = Field(
        300_000,
        ge=1,
        description="Entries of 20 bytes in a consume-queue file. Part of the store's format. "
        "300,000 as in RocketMQ; use fewer for small stores with many queues.",
    )
    index_slots: int = Field(
        5_000_000,
        ge=1,
        description="Hash slots of an index file. Part of the store's format, as in RocketMQ.",
    )
    index_items: int = Field(
        20_000_000,
        ge=2,
        description="Items of an index file. Part of the store's format, as in RocketMQ.",
    )
    retention_hours: float = Field(
        72, gt=0, description="Hours after which messages may be deleted."
    )
    delete_at_hour: int = Field(
        4,
        ge=0,
        le=23,
        description=("Hour of the day, local time, in which old segments are deleted."),
    )
    disk_clean_ratio: float = Field(
        0.75,
        gt=0,
        le=1,
        description=("Share of the disk in use at which old segments are deleted at once."),
    )
    disk_force_ratio: float = Field(
        0.85,
        gt=0,
        le=1,
        description=("Share at which the oldest segments are deleted, however young they are."),
    )
    disk_refuse_ratio: float = Field(
        0.90, gt=0, le=1, description="Share at which the broker accepts no more messages."
    )
    accept_offset_loss: bool = Field(
        default=False,
        description="Start although the consumer offsets of an existing store are lost: every "
        "group then begins at its own start position. Never the default, because groups would "
        "consume everything again, or skip messages.",
    )

    auto_create_topics: bool = Field(
        default=True,
        description="Whether a send creates an unknown topic. Convenient at first; turn it off if "
        "a misspelt topic should be an error.",
    )
    auto_create_groups: bool = Field(
        default=True, description="Whether the first member creates its consumer group."
    )
    default_queue_count: int = Field(
        4,
        ge=1,
        le=QUEUE_COUNT_MAX,
        description="Read and write queues of a topic that is created without counts.",
    )
    topics_max: int = Field(
        10_000,
        ge=1,
        description="Topics that clients may create here, by a command or a send; existing ones "
        "stay. Together with two topics per group, this is below the name server's "
        "topics_per_broker_max, so that all topics are in routes.",
    )
    queues_max: int = Field(
        100_000,
        ge=1,
        description="Queues of all these topics together. Each queue with messages costs two "
        "files and some KiB of memory.",
    )
    groups_max: int = Field(
        4_000,
        ge=1,
        description="Consumer groups that may be created here. Each may have two topics: its "
        "retry topic and its dead letters.",
    )
    message_bytes_max: int = Field(
        4 << 20,
        ge=1,
        description="Largest body of a message in bytes. Messages that are stored already are "
        "delivered, retried and committed whatever their size.",
    )
    held_pulls_max: int = Field(
        3072,
        ge=0,
        description="Pulls that may wait for messages at a time; more are refused. Below "
        "concurrent_calls_max, so that waiting consumers leave room for producers.",
    )

    answer_bytes_max: int = Field(
        256 << 20,
        ge=8 << 20,
        description="Bytes of messages in answers that clients have not read yet, for all "
        "consumers together; one connection may hold half of what is left. Consumers that want "
        "more wait. gRPC has another copy of what it is sending.",
    )
    client_silence_s: float = Field(
        120, gt=0, description="Seconds of silence after which an attached client is forgotten."
    )
    client_scan_s: float = Field(
        10, gt=0, description="Seconds between searches for silent clients."
    )
    filter_server_silence_s: float = Field(
        30,
        gt=0,
        description="Seconds of silence after which a FilterServer leaves the routes; it sends "
        "three heartbeats in that time. Consumers do not wait for this: they use another "
        "FilterServer as soon as one does not answer.",
    )
    consumer_deaths_max: int = Field(
        3,
        ge=0,
        le=1000,
        description="How many consumers may die of a message, each while it processes nothing "
        "else, before it becomes a dead letter; the limit of its group applies, too. A death "
        "costs more than a listener that fails, so fewer are allowed. 0: deaths are not counted, "
        "and such a message is delivered again for ever.",
    )
    consumer_grace_s: float = Field(
        10,
        gt=0,
        description="Seconds that a consumer whose stream broke without a goodbye has to come "
        "back before it counts as dead. Longer than consumers need to attach again after a short "
        "network failure; a message that such a death would count against waits this long.",
    )
    client_heartbeat_s: float = Field(
        30, gt=0, description="Seconds between heartbeats of attached clients."
    )
    queue_lock_lease_s: float = Field(
        60,
        gt=0,
        description="Seconds that a member which consumes in order keeps a queue without renewing "
        "its lock; then another member may take it, and offsets of the old owner are refused. "
        "Members renew after a third of it. A member whose stream to the broker has ended keeps "
        "the queue for two thirds of it.",
    )
    name_server_heartbeat_s: float = Field(
        30,
        gt=0,
        description="Seconds between heartbeats to a name server, unless it wants them sooner.",
    )
    name_server_wait_s: float = Field(
        2,
        ge=0,
        description="Seconds that the start and topic changes wait for name servers to be "
        "informed.",
    )
    offset_save_s: float = Field(
        5, gt=0, description="Seconds between saves of consumer offsets that have changed."
    )
    producer_expiry_s: float = Field(
        3600,
        ge=60,
        description="Seconds after which an idempotent producer that sent nothing to a queue is "
        "forgotten there. Longer than any producer repeats a batch: a later repeat may be stored "
        "twice.",
    )
    producer_streams_max: int = Field(
        20_000,
        ge=1,
        description="Pairs of idempotent producer and queue that are remembered, about 1 KiB of "
        "memory each; beyond that, the users who have most lose those unused for longest.",
    )
    producer_save_s: float = Field(
        10,
        gt=0,
        description="Seconds between snapshots of states that follow from the log, such as that of "
        "idempotent producers. After a crash, the log is read from the last snapshot on. There "
        "are more of them while much is written: one for each 64 MiB, but at most one a second.",
    )

    delay_levels: str = Field(
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        description="Waits of the delay levels, level 1 first, in units of s, m, h or d: "
        "RocketMQ's messageDelayLevel, with its default. Failed messages use them, too, from "
        "level 3 on. Change it while no message waits: after the next start, a waiting message "
        "keeps its time, or waits as long as its level does now, whichever is less.",
    )
    delay_days_max: float = Field(
        40,
        gt=0,
        le=3650,
        description="Days that a delivery time may be ahead; a later one is refused. Waiting "
        "messages are written again from time to time, so that retention does not delete them.",
    )
    half_messages_max: int = Field(
        100_000,
        ge=1,
        description="Half messages that may wait for an outcome at a time, about 1 KiB of memory "
        "each; more are refused until some have ended. Those of one topic may be three quarters.",
    )
    batch_expiry_s: float = Field(
        7 * 86_400,
        ge=60,
        description="Seconds that records of a batch transaction wait for its commit after the "
        "last of them was staged; then they are dropped. Days, because the committing process may "
        "be down for a weekend. The log is kept for as long.",
    )
    transaction_outcomes_max: int = Field(
        20_000,
        ge=0,
        description="Outcomes of transactions that are kept in memory. Older ones are looked up "
        "in the log for as long as it has their op records.",
    )

    @field_validator("delay_levels")
    @classmethod
    def _are_levels(cls, text: str) -> str:
        level_waits_ms(text)
        return text

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.client_heartbeat_s >= self.client_silence_s:
            raise ValueError("client_heartbeat_s must be less than client_silence_s")
        if not self.disk_clean_ratio <= self.disk_force_ratio <= self.disk_refuse_ratio:
            raise ValueError("disk ratios must grow: clean, force, refuse")
        if self.held_pulls_max >= self.concurrent_calls_max:
            raise ValueError("held_pulls_max must be less than concurrent_calls_max")
        if self.message_bytes_max > self.receive_bytes_max:
            raise ValueError("message_bytes_max must not exceed receive_bytes_max")
        if self.message_bytes_max + (64 << 10) > self.segment_bytes:
            raise ValueError("message_bytes_max must fit into a segment, with 64 KiB around it")
        if self.broker_id and not self.replica_set_url.get_secret_value():
            raise ValueError("broker_id must be 0 unless replica_set_url is set")
        if self.advertised_address is None and self.listen.is_wildcard and self.name_servers:
            raise ValueError(
                f"listen: {self.listen} is no address that clients can connect to; "
                "set advertised_address"
            )
        return self

    def store_config(self) -> StoreConfig:
        """How the store is laid out and kept."""
        return StoreConfig(
            segment_bytes=self.segment_bytes,
            consume_queue_file_entries=self.consume_queue_entries,
            index_slots=self.index_slots,
            index_items=self.index_items,
            flush_mode=FlushMode(self.flush_mode),
            flush_interval_ms=self.flush_interval_ms,
            # Not message_bytes_max, which may be lowered: what is stored must be able to move on.
            record_bytes_max=self.segment_bytes,
            retention_ms=round(self.retention_hours * 3_600_000),
            delete_at_hour=self.delete_at_hour,
            disk_clean_ratio=self.disk_clean_ratio,
            disk_force_ratio=self.disk_force_ratio,
            disk_refuse_ratio=self.disk_refuse_ratio,
            delay_levels_ms=self.delay_levels_ms,
        )

    @property
    @override
    def backend_urls(self) -> Mapping[str, str]:
        """The URLs of what the broker calls beside the cluster, by setting; empty for none."""
        return {**super().backend_urls, "replica_set_url": self.replica_set_url.get_secret_value()}

    @property
    @override
    def member_cluster(self) -> str:
        """The broker's cluster."""
        return self.cluster_name

    @property
    @override
    def member_name(self) -> str:
        """The broker's name."""
        return self.broker_name

    @property
    def call_bytes_max(self) -> int:
        """Bytes that the records of one call's plain messages may have: they must fit a segment."""
        return min(self.segment_bytes - BLANK_SIZE_MIN_BYTES, _CALL_BYTES_MAX)

    @property
    def delay_levels_ms(self) -> tuple[int, ...]:
        """How long each delay level waits, level 1 first."""
        return level_waits_ms(self.delay_levels)
