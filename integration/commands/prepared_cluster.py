"""A cluster with everything that pages name, and a shell beside it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import create_engine
from sqlalchemy.orm import sessionmaker

from ariane.broker.v1.send_service_pb2 import SendMessagesRequest
from ariane.broker.v1.send_service_pb2_grpc import SendServiceStub
from ariane.broker.v1.sink_service_pb2 import NoteSinkHomeRequest, SinkHome
from ariane.broker.v1.sink_service_pb2_grpc import SinkServiceStub
from ariane.broker.v1.transaction_service_pb2 import (
    CommitBatchRequest,
)
from ariane.broker.v1.transaction_service_pb2_grpc import TransactionServiceStub
from ariane.common.v1.message_pb2 import MESSAGE_TYPE_TRANSACTION
from ariane.common.v1.message_pb2 import Message as WireMessage
from ariane_sdk import Message, Producer, ProducerSettings, PushConsumer, PushSettings
from ariane_sdk.errors import MessagesFailed
from ariane_sdk.sql import Outbox, create_tables
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.closed_clusters import open_aio_channel, open_blocking_channel
from ariane_testkit.small_store import SMALL_STORE

BIN = Path(sys.executable).parent
LINE_S_MAX = 60

LONG = {
    r"^ariane dev\b": 0,
    r"^ariane (topic tail|consume|top)\b(?!.*(--no-follow|--count|--until))": 130,
}
"""Lines that go on until Ctrl-C, and the status they end with."""

LATE = """def matches(message):
    properties = message.properties
    return properties.get("origin") == "JFK" and int(properties.get("dep_delay", 0)) > 60
"""


class Stage:
    """A cluster with all that pages name, and a shell beside it."""

    def __init__(self, cluster, checker, admin, folder):
        self.cluster = cluster
        self.folder = folder
        self.environment = {
            **os.environ,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder / ".config"),
            "ARIANE_NAME_SERVERS": cluster.name_servers,
            "ARIANE_ADMIN": admin.address,
            "ARIANE_TXN_CHECKER": checker.address,
            "ARIANE_OUTBOX_DATABASE": f"sqlite:///{folder}/shop.db",
            "BROKER_LOG": str(cluster.brokers[0].log_path),
        }

    def tell(self, line):
        """A line that prepares; its output."""
        done = subprocess.run(
            ("bash", "-euo", "pipefail", "-c", line),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LINE_S_MAX,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        return done.stdout

    def ask(self, line):
        return json.loads(self.tell(f"{line} -o json"))

    def run(self, line):
        """Run a line as a person at a terminal does, who says yes.

        Returns:
            Whether it ended as it should, what it wrote, and what it said beside.
        """
        status = next((status for words, status in LONG.items() if re.search(words, line)), None)
        keyboard, terminal = pty.openpty()
        with self._typed(line, terminal) as process:
            os.close(terminal)
            os.write(keyboard, b"y\n\x04")
            limit = threading.Timer(LINE_S_MAX, os.killpg, (process.pid, signal.SIGKILL))
            limit.start()
            first = ""
            if status is not None:
                with self._messages_come():
                    first = process.stdout.readline()
                # To what the shell waits for, as a terminal does.
                os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate()
            limit.cancel()
            os.close(keyboard)
        return process.returncode == (status or 0), first + out, err

    @contextlib.contextmanager
    def _messages_come(self):
        """What follows a topic may begin at its end."""
        feed = "while true; do seq 20 | ariane produce orders --tag created; done"
        with self._typed(feed, subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
            yield
            os.killpg(process.pid, signal.SIGKILL)

    def _typed(self, line, stdin, stdout=subprocess.PIPE):
        return subprocess.Popen(
            ("bash", "-euo", "pipefail", "-c", line),
            cwd=self.folder,
            env=self.environment,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE if stdout == subprocess.PIPE else subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def park_transaction(self):
        """A half message that nobody answers for, put aside by the checker."""
        self.environment["TRANSACTION"] = transaction_id = uuid.uuid4().hex.upper()
        store_half(self.cluster, transaction_id)
        self.tell(
            "until ariane transaction parked -o json | grep $TRANSACTION >&2; do sleep 0.2; done"
        )

    def make_sink(self):
        """A sink of exactly-once writes."""
        self.environment["SINK"] = name = f"{uuid.uuid4().hex}/copies"
        note_sink(self.cluster, name)

    def delay_message(self):
        """A message that waits for its time."""
        self.tell("ariane topic create later --exists-ok")
        self.tell("echo later | ariane produce later --delay 1d --handles handles")
        self.environment["HANDLE"] = (self.folder / "handles").read_text().strip()

    def trace_message(self):
        """A message whose sending is traced."""
        self.tell("ariane topic create orders --exists-ok")
        sent = asyncio.run(send_traced(self.cluster))
        self.environment |= {"UNIQUE_ID": sent.unique_id, "MESSAGE_ID": sent.message_id}
        self.tell("until ariane message trace $UNIQUE_ID >&2; do sleep 0.2; done")

    def give_up_messages(self):
        """Dead letters of a group."""
        self.tell("ariane topic create orders --exists-ok")
        asyncio.run(give_up(self.cluster, "billing", "orders"))
        self.environment["PLACE"] = self.ask("ariane dead-letter list billing")[-1]["place"]

    def let_nobody_be_behind(self):
        """A broker that is drained waits for groups, and these have no members."""
        for group in self.ask("ariane group list"):
            self.tell(f"ariane group delete {group['group']} --yes")

    def stop_replica(self):
        """Broker 0 of broker-a is its primary, and broker 1 has gone."""
        replica = self.cluster.replicas[0]
        if not replica.running:
            self.cluster.call_blocking(replica.start)

        def is_primary(row):
            return row["id"] == 0 and row["role"] == "primary"

        # Between two primaries nobody is registered: there is nothing to show, nor to hand on.
        status = "ariane broker ha status broker-a -o json || echo '[]'"
        while not any(map(is_primary, json.loads(self.tell(status)))):
            self.tell("ariane broker ha switchover broker-a --to 0 --yes || sleep 0.5")
        self.cluster.call_blocking(replica.stop)

    def fill_outbox(self):
        """Two messages that brokers refuse, and one that waits."""
        engine = create_engine(self.environment["ARIANE_OUTBOX_DATABASE"])
        with engine.begin() as connection:
            create_tables(connection)
        with sessionmaker(engine).begin() as session:
            large = Message("paid-orders", bytes(5 << 20))
            Outbox("shop", body_bytes_max=16 << 20).add(session, large, large)
        self.tell("ariane outbox relay shop --until-empty")
        with sessionmaker(engine).begin() as session:
            Outbox("shop").add(session, Message("paid-orders", b"from the outbox"))
        engine.dispose()
        rows = self.ask("ariane outbox list shop")
        self.environment["ROW_IDS"] = " ".join(str(row["row_id"]) for row in rows)


async def give_up(cluster, group, topic):
    """Messages of a topic that a group has given up."""
    seen = []

    async def listen(messages):
        seen.extend(messages)
        raise MessagesFailed(messages, "no such account", rejected=True)

    settings = PushSettings(handover_s=0.1, rebalance_gap_s_min=0.05)
    async with (
        asyncio.timeout(LINE_S_MAX),
        PushConsumer(
            cluster.name_servers,
            group=group,
            subscriptions={topic: "dead"},
            listener=listen,
            start="earliest",
            settings=settings,
        ) as consumer,
    ):
        async with Producer(cluster.name_servers) as producer:
            await producer.send_batch(
                [Message(topic, b"%d" % number, tag="dead") for number in range(8)]
            )
        while len(seen) < 8:  # noqa: ASYNC110 - there is nothing to be told by.
            await asyncio.sleep(0.05)
        await consumer.store_offsets()


async def send_traced(cluster):
    """A message that is traced, and what came of sending it."""
    settings = ProducerSettings(message_trace=True)
    async with Producer(cluster.name_servers, settings=settings) as producer:
        message = Message("orders", b"an espresso", keys=["o-4711"], tag="created")
        return await producer.send(message)


def store_half(cluster, transaction_id):
    async def send():
        message = WireMessage(
            body=b"paid", unique_id=transaction_id, message_type=MESSAGE_TYPE_TRANSACTION
        )
        async with open_aio_channel(cluster.brokers[0].address) as channel:
            request = SendMessagesRequest(topic="orders", messages=[message], half_group="payments")
            await SendServiceStub(channel).SendMessages(request)

    asyncio.run(send())


def note_sink(cluster, name):
    home = SinkHome(broker_name="broker-a")
    for broker in cluster.brokers:
        with open_blocking_channel(str(broker.address)) as channel:
            note = NoteSinkHomeRequest(query_id=name, topic="copies", home=home)
            SinkServiceStub(channel).NoteSinkHome(note)
            if broker is cluster.brokers[0]:
                commit = CommitBatchRequest(query_id=name, batch_id=3)
                TransactionServiceStub(channel).CommitBatch(commit)


def prepare(stage):
    """Make what pages name, and say in the shell's environment how it is called here."""
    told = stage.environment
    for topic in ("orders", "refunds", "flights", "copies", "paid-orders"):
        stage.tell(f"ariane topic create {topic} --queues 4 --exists-ok")
    stage.tell("ariane topic create trades --queues 1 --broker broker-a --type fifo --exists-ok")
    (stage.folder / "late.py").write_text(LATE)
    (stage.folder / "events.jsonl").write_text('{"body": "a", "tag": "created"}\n')
    told["FILTER"] = f"late@{stage.ask('ariane filter upload late late.py')['version'][:12]}"
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    told["TOMORROW"] = tomorrow.isoformat(timespec="seconds")
    stage.fill_outbox()
    stage.trace_message()
    stage.give_up_messages()
    close_a_store(stage)
    told |= {"KNOWN": "{last_sequence}:{last_sha256}".format(**stage.ask("ariane audit verify"))}
    for name in ("prod", "test", "old"):
        stage.tell(f"ariane context add {name} --name-servers {told['ARIANE_NAME_SERVERS']}")


def close_a_store(stage):
    """The store of a broker that has ended, as ``closed``."""
    with LocalCluster(stage.folder / "ended", extra_broker_args=SMALL_STORE) as ended:
        servers = f"--name-servers {ended.name_servers}"
        stage.tell(f"ARIANE_ADMIN=none ariane topic create orders --queues 1 {servers}")
        stage.tell(f"echo stored | ariane produce orders --key o-4711 {servers}")
    (stage.folder / "closed").symlink_to(stage.folder / "ended" / "broker-a")
