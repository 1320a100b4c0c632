"""The cluster, its settings, definitions and history through the service."""

import asyncio

import pytest
from grpc import StatusCode
from grpc.aio import AioRpcError

from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1 import cluster_service_pb2 as cluster_pb
from ariane.admin.v1 import definition_service_pb2 as definition_pb
from ariane.admin.v1 import history_service_pb2 as history_pb
from ariane.admin.v1 import setting_service_pb2 as setting_pb
from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane.admin.v1 import transaction_service_pb2 as transaction_pb
from ariane.admin.v1.audit_service_pb2_grpc import AuditServiceStub
from ariane.admin.v1.cluster_service_pb2_grpc import ClusterServiceStub
from ariane.admin.v1.definition_service_pb2_grpc import DefinitionServiceStub
from ariane.admin.v1.history_service_pb2_grpc import HistoryServiceStub
from ariane.admin.v1.setting_service_pb2_grpc import SettingServiceStub
from ariane.admin.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.admin.v1.transaction_service_pb2_grpc import TransactionServiceStub
from ariane.broker.v1.topic_service_pb2 import Topic
from ariane.common.v1 import access_pb2
from ariane_admin.service.app import AdminApp
from ariane_admin.service.settings import AdminSettings
from ariane_servicekit import StopRequest
from ariane_servicekit.security.rules.method_rules import access_rule, changes


async def test_the_cluster_as_a_whole(admin):
    stub = ClusterServiceStub(admin)
    [cluster] = (await stub.ListClusters(cluster_pb.ListClustersRequest())).clusters
    assert (cluster.broker_count, cluster.silent_broker_count) == (2, 0)
    servers = (await stub.ListNameServers(cluster_pb.ListNameServersRequest())).name_servers
    assert [each.broker_count for each in servers] == [2, 2]
    page = await stub.ListBrokers(cluster_pb.ListBrokersRequest(page_size=1))
    assert [b.liveness.identity.broker_name for b in page.brokers] == ["broker-a"]
    rest = await stub.ListBrokers(cluster_pb.ListBrokersRequest(page_token=page.next_page_token))
    assert [b.liveness.identity.broker_name for b in rest.brokers] == ["broker-b"]
    assert rest.brokers[0].writable
    told = await stub.DiagnoseCluster(cluster_pb.DiagnoseClusterRequest())
    assert (told.name_server_count, told.broker_count) == (2, 2)


async def test_a_broker_is_drained_and_restored(admin, entries):
    stub = ClusterServiceStub(admin)
    drained = await stub.DrainBroker(cluster_pb.DrainBrokerRequest(broker_name="broker-b"))
    try:
        assert not drained.writable
        read = await stub.GetBroker(cluster_pb.GetBrokerRequest(broker_name="broker-b"))
        assert not read.broker.writable
    finally:
        restored = await stub.RestoreBroker(cluster_pb.RestoreBrokerRequest(broker_name="broker-b"))
    assert restored.writable
    outcomes = [each.outcome for each in await entries(resource_name="broker-b")]
    assert outcomes == [audit_pb.AUDIT_OUTCOME_DONE] * 2
    with pytest.raises(AioRpcError) as refused:
        await stub.DrainBroker(cluster_pb.DrainBrokerRequest(broker_name="nobody"))
    assert refused.value.code() is StatusCode.NOT_FOUND


async def test_a_setting_is_changed_only_where_it_may(admin, entries):
    stub = SettingServiceStub(admin)
    processes = (await stub.ListProcesses(setting_pb.ListProcessesRequest())).processes
    assert [p.process.service for p in processes] == [
        "admin",
        *("broker", "broker"),
        *("namesrv", "namesrv"),
    ]
    assert all(p.state.version for p in processes)
    asked = setting_pb.UpdateSettingRequest(
        service="namesrv", name="concurrent_calls_max", value="4095"
    )
    changed = await stub.UpdateSetting(asked)
    assert [each.previous_value for each in changed.outcomes] == ["4096", "4096"]
    differing = await stub.ListSettings(
        setting_pb.ListSettingsRequest(service="namesrv", differing_only=True)
    )
    assert "concurrent_calls_max" in {each.setting.name for each in differing.settings}
    asked.value = "4096"
    await stub.UpdateSetting(asked)
    for name, value in (("listen", "0.0.0.0:1"), ("concurrent_calls_max", "0"), ("none", "1")):
        asked.name, asked.value = name, value
        with pytest.raises(AioRpcError) as refused:
            await stub.UpdateSetting(asked)
        assert refused.value.code() is StatusCode.INVALID_ARGUMENT, name
    stranger = setting_pb.UpdateSettingRequest(
        service="namesrv", addresses=["10.0.0.1:9876"], name="concurrent_calls_max", value="1"
    )
    with pytest.raises(AioRpcError) as refused:
        await stub.UpdateSetting(stranger)
    assert "there is no namesrv at 10.0.0.1:9876" in refused.value.details()
    changes = await entries(method="UpdateSetting")
    assert [each.outcome for each in changes[:2]] == [audit_pb.AUDIT_OUTCOME_DONE] * 2


async def test_definitions_go_out_and_come_in(admin, entries):
    topics, stub = TopicServiceStub(admin), DefinitionServiceStub(admin)
    wanted = Topic(topic="adm-defined", read_queue_count=3)
    await topics.CreateTopic(topic_pb.CreateTopicRequest(topic=wanted))
    taken = await stub.ExportDefinitions(definition_pb.ExportDefinitionsRequest())
    [topic] = [each for each in taken.definitions.topics if each.topic == "adm-defined"]
    assert topic.read_queue_count == 3
    await topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="adm-defined"))
    bring = definition_pb.ImportDefinitionsRequest(
        definitions=definition_pb.Definitions(topics=[topic]), validate_only=True
    )
    told = await stub.ImportDefinitions(bring)
    assert [(c.subject, c.action, c.failure) for c in told.changes] == [
        ("topic adm-defined", "created", "")
    ] * 2
    bring.validate_only = False
    await stub.ImportDefinitions(bring)
    again = await stub.ImportDefinitions(bring)
    assert not again.changes
    assert len(await entries(method="ImportDefinitions")) == 2
    for broker, since in ("broker-a", "1001"), ("broker-b", "1002"):
        attributes = {"shown.since.ms": since, "retention.ms": "3600000"}
        await topics.UpdateTopic(
            topic_pb.UpdateTopicRequest(
                topic="adm-defined", broker_names=[broker], attributes=attributes
            )
        )
    # A purge is no definition: brokers that purge by their own clocks are alike, and stay purged.
    found = (await topics.GetTopic(topic_pb.GetTopicRequest(topic="adm-defined"))).topic
    assert not found.uneven
    taken = await stub.ExportDefinitions(definition_pb.ExportDefinitionsRequest())
    [kept] = [each for each in taken.definitions.topics if each.topic == "adm-defined"]
    assert dict(kept.attributes) == {"retention.ms": "3600000"}
    assert "topic adm-defined" not in taken.uneven_names
    assert [each.action for each in (await stub.ImportDefinitions(bring)).changes] == [
        "changed"
    ] * 2
    assert not (await stub.ImportDefinitions(bring)).changes
    found = (await topics.GetTopic(topic_pb.GetTopicRequest(topic="adm-defined"))).topic
    left = [dict(each.topic.attributes) for each in found.placements]
    assert left == [{"shown.since.ms": "1001"}, {"shown.since.ms": "1002"}]
    await topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="adm-defined"))


async def test_history_is_sampled(admin):
    stub = HistoryServiceStub(admin)
    series = history_pb.ListSeriesRequest(kind=history_pb.SERIES_KIND_DISK_RATIO)
    async with asyncio.timeout(120):
        # A broker that answers late is in a later sample.
        while True:
            names = {each.name for each in (await stub.ListSeries(series)).series}
            if names == {"broker-a", "broker-b"}:
                break
            await asyncio.sleep(0.05)
    request = history_pb.GetHistoryRequest(kind=history_pb.SERIES_KIND_DISK_RATIO, name="broker-a")
    points = (await stub.GetHistory(request)).points
    assert 0 < points[-1].value < 1
    with pytest.raises(AioRpcError) as refused:
        await stub.GetHistory(history_pb.GetHistoryRequest())
    assert refused.value.code() is StatusCode.INVALID_ARGUMENT


async def test_transactions_need_a_checker(admin):
    with pytest.raises(AioRpcError) as refused:
        await TransactionServiceStub(admin).ListTransactions(
            transaction_pb.ListTransactionsRequest()
        )
    assert refused.value.code() is StatusCode.UNIMPLEMENTED


async def test_the_trail_is_checked_and_known_hashes_are_compared(admin):
    with pytest.raises(AioRpcError):
        await TopicServiceStub(admin).DeleteTopic(topic_pb.DeleteTopicRequest(topic="none"))
    stub = AuditServiceStub(admin)
    told = await stub.VerifyAuditTrail(audit_pb.VerifyAuditTrailRequest())
    assert (told.record_count, told.broken_sequence, told.last_sequence) == (2, 0, 2)
    known = audit_pb.VerifyAuditTrailRequest(known_sequence=2, known_sha256=told.last_sha256)
    assert (await stub.VerifyAuditTrail(known)).broken_sequence == 0
    known.known_sha256 = bytes(32)
    assert (await stub.VerifyAuditTrail(known)).broken_sequence == 2


async def test_every_changing_method_is_audited(tmp_path):
    app = AdminApp(AdminSettings(data_path=tmp_path), StopRequest())
    changing = 0
    for service in app.rpc_services:
        for method in service.descriptor.methods:
            audited = getattr(service.servicer, method.name).__qualname__.startswith("Auditing.")
            assert audited == changes(method), method.full_name
            changing += audited
            writes = method.name.startswith(
                ("Create", "Update", "Delete", "Drain", "Restore", "Reset", "Clone", "Send")
            ) or method.name.startswith(
                (
                    *("Redrive", "Recall", "Decide", "Resume", "Import"),
                    *("Upload", "Transfer", "Elect", "Remove", "Consume", "Move", "Disconnect"),
                    *("Clean", "Forget", "Purge", "Set"),
                )
            )
            # A link lasts for two minutes and changes nothing of the cluster.
            is_link = method.name == "CreateSignInLink"
            assert (writes and not is_link) == audited, method.full_name
            needed = {each.action for each in access_rule(method).requirements}
            assert access_pb2.ACTION_NONE not in needed
    assert changing == 40
    await app.stop()
