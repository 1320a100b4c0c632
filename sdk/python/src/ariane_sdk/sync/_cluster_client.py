"""A client for questions and changes to a cluster, with blocking calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ariane_sdk.client.stateless_client import CALL_TIMEOUT_S
from ariane_sdk.cluster import cluster_client as _cluster_client
from ariane_sdk.routing.failover import PATIENCE_S
from ariane_sdk.routing.name_servers import NameServerAddresses
from ariane_sdk.runtime.blocking import BlockingClient, blocking
from ariane_sdk.security import CredentialsGiven, TlsGiven


class ClusterClient(BlockingClient[_cluster_client.ClusterClient]):
    """Shows and changes the topics, groups, offsets and sinks of a cluster."""

    def __init__(
        self,
        name_servers: NameServerAddresses | None = None,
        *,
        call_timeout_s: float = CALL_TIMEOUT_S,
        patience_s: float = PATIENCE_S,
        tls: TlsGiven = None,
        credentials: CredentialsGiven = None,
    ) -> None:
        """Set up; see ``ariane_sdk.ClusterClient``."""
        super().__init__(
            _cluster_client.ClusterClient(
                name_servers,
                call_timeout_s=call_timeout_s,
                patience_s=patience_s,
                tls=tls,
                credentials=credentials,
            )
        )

    create_topic = blocking(_cluster_client.ClusterClient.create_topic)

    @contextmanager
    def queue_order_first(self, topic: str, counts: Mapping[str, int]) -> Iterator[None]:
        """Fix the order of queues of a topic that the block creates; as the asynchronous client."""
        block = self._client.queue_order_first(topic, counts)
        self._run(block.__aenter__())
        try:
            yield
        except BaseException as error:
            if not self._run(block.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            self._run(block.__aexit__(None, None, None))

    keep_queue_order = blocking(_cluster_client.ClusterClient.keep_queue_order)
    forget_queue_order = blocking(_cluster_client.ClusterClient.forget_queue_order)
    delete_topic = blocking(_cluster_client.ClusterClient.delete_topic)
    list_topics = blocking(_cluster_client.ClusterClient.list_topics)
    list_brokers = blocking(_cluster_client.ClusterClient.list_brokers)
    route = blocking(_cluster_client.ClusterClient.route)
    list_groups = blocking(_cluster_client.ClusterClient.list_groups)
    set_receive_in_order = blocking(_cluster_client.ClusterClient.set_receive_in_order)
    list_members = blocking(_cluster_client.ClusterClient.list_members)
    queue_owners = blocking(_cluster_client.ClusterClient.queue_owners)
    members_of_groups = blocking(_cluster_client.ClusterClient.members_of_groups)
    consumer_lag = blocking(_cluster_client.ClusterClient.consumer_lag)
    reset_offsets = blocking(_cluster_client.ClusterClient.reset_offsets)
    clone_offsets = blocking(_cluster_client.ClusterClient.clone_offsets)
    subscription_conflicts = blocking(_cluster_client.ClusterClient.subscription_conflicts)
    list_sinks = blocking(_cluster_client.ClusterClient.list_sinks)
    move_sink = blocking(_cluster_client.ClusterClient.move_sink)
    delete_sink = blocking(_cluster_client.ClusterClient.delete_sink)
