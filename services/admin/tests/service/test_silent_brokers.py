"""A broker is frozen: what admin tells then is a part, and says so."""

import os
import signal

import pytest
from grpc import aio

from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1 import cluster_service_pb2 as cluster_pb
from ariane.admin.v1 import definition_service_pb2 as definition_pb
from ariane.admin.v1 import group_service_pb2 as group_pb
from ariane.admin.v1 import lag_service_pb2 as lag_pb
from ariane.admin.v1 import message_service_pb2 as message_pb
from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane.admin.v1.audit_service_pb2_grpc import AuditServiceStub
from ariane.admin.v1.cluster_service_pb2_grpc import ClusterServiceStub
from ariane.admin.v1.definition_service_pb2_grpc import DefinitionServiceStub
from ariane.admin.v1.group_service_pb2_grpc import GroupServiceStub
from ariane.admin.v1.lag_service_pb2_grpc import LagServiceStub
from ariane.admin.v1.message_service_pb2_grpc import MessageServiceStub
from ariane.admin.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.broker.v1.topic_service_pb2 import Topic
from ariane_servicekit.running.processes import LocalCluster

pytestmark = pytest.mark.slow

SMALL_STORE = (
    *("--segment-bytes", str(64 << 20), "--disk-clean-ratio", "0.97"),
    *("--disk-force-ratio", "0.98", "--disk-refuse-ratio", "0.99"),
)


@pytest.fixture
async def own_cluster(tmp_path):
    """Two brokers of its own: they are frozen."""
    async with LocalCluster(
        tmp_path,
        brokers=2,
        checkers=1,
        admin=True,
        extra_broker_args=SMALL_STORE,
        extra_admin_args=("--console-listen", "127.0.0.1:0"),
    ) as running:
        yield running
        for broker in running.brokers:
            os.kill(broker.pid, signal.SIGCONT)


async def test_lists_name_the_broker_that_is_away(own_cluster):
    frozen = own_cluster.brokers[1]
    async with aio.insecure_channel(own_cluster.admins[0].address) as channel:
        topics = TopicServiceStub(channel)
        await topics.CreateTopic(topic_pb.CreateTopicRequest(topic=Topic(topic="part")))
        os.kill(frozen.pid, signal.SIGSTOP)
        for answer in (
            await topics.ListTopics(topic_pb.ListTopicsRequest()),
            await topics.GetTopic(topic_pb.GetTopicRequest(topic="part")),
            await GroupServiceStub(channel).ListGroups(group_pb.ListGroupsRequest()),
            await LagServiceStub(channel).ListGroupLags(lag_pb.ListGroupLagsRequest()),
            await MessageServiceStub(channel).ListMessageTraces(
                message_pb.ListMessageTracesRequest(unique_id="0" * 32)
            ),
        ):
            assert [each.broker_name for each in answer.silent_brokers] == ["broker-b"]
            assert answer.silent_brokers[0].error.message
        listed = await ClusterServiceStub(channel).ListBrokers(cluster_pb.ListBrokersRequest())
        assert [each.HasField("error") for each in listed.brokers] == [False, True]
        with pytest.raises(aio.AioRpcError):
            await DefinitionServiceStub(channel).ExportDefinitions(
                definition_pb.ExportDefinitionsRequest()
            )
        changed = await topics.UpdateTopic(
            topic_pb.UpdateTopicRequest(topic="part", read_queue_count=5, write_queue_count=5)
        )
        assert [each.HasField("error") for each in changed.outcomes] == [False, True]
        os.kill(frozen.pid, signal.SIGCONT)
        trail = await AuditServiceStub(channel).ListAuditEntries(
            audit_pb.ListAuditEntriesRequest(method="UpdateTopic")
        )
        assert [each.outcome for each in trail.entries] == [audit_pb.AUDIT_OUTCOME_PARTLY]
