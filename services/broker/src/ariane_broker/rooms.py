"""The rooms of a broker, as ``app.py`` builds them."""

from __future__ import annotations

from typing import NamedTuple

from ariane_broker.append.room import AppendRoom
from ariane_broker.clients.room import ClientsRoom
from ariane_broker.delay.room import DelayRoom
from ariane_broker.log.room import LogRoom
from ariane_broker.naming.room import NamingRoom
from ariane_broker.read.room import ReadRoom
from ariane_broker.receive.room import ReceiveRoom
from ariane_broker.retry.room import RetryRoom
from ariane_broker.rpc.sink_calls import SinkCalls
from ariane_broker.spark_batches.room import SparkBatchesRoom
from ariane_broker.state.room import StateRoom
from ariane_broker.transactions.room import TransactionsRoom


class Rooms(NamedTuple):
    """The rooms of a broker."""

    log: LogRoom
    """The store, and who waits for its disk."""
    state: StateRoom
    """Topics, groups and offsets."""
    naming: NamingRoom
    """The registration with name servers."""
    clients: ClientsRoom
    """The attached clients."""
    delay: DelayRoom
    """Messages that are delivered later."""
    append: AppendRoom
    """Messages in."""
    transactions: TransactionsRoom
    """Half messages."""
    spark_batches: SparkBatchesRoom
    """What Spark writes."""
    retry: RetryRoom
    """Failed messages."""
    receive: ReceiveRoom
    """Messages out, for an invisible time."""
    read: ReadRoom
    """Messages out."""
    sink_calls: SinkCalls
    """Calls to other brokers about sinks."""
