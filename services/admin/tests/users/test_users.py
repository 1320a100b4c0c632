"""Users and policies as admin keeps them, and as processes are told."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import structlog

import ariane_wire
from ariane.admin.v1 import access_policy_service_pb2 as policy_pb
from ariane.admin.v1 import user_service_pb2 as user_pb
from ariane.common.v1 import access_pb2 as access
from ariane.common.v1 import access_rules_pb2 as rules
from ariane.common.v1 import access_service_pb2 as access_service_pb
from ariane.common.v1.access_service_pb2_grpc import (
    AccessServiceServicer,
    add_AccessServiceServicer_to_server,
)
from ariane_admin.users import rules_publisher as publisher_module
from ariane_admin.users import rules_room
from ariane_admin.users.credential_store import CredentialStore
from ariane_admin.users.processes import AskedProcesses
from ariane_admin.users.rules_publisher import RulesPublisher
from ariane_admin.users.servicers import AccessPolicyServicer, UserServicer
from ariane_admin.users.store import UserStore
from ariane_namesrv.app import NamesrvApp
from ariane_namesrv.settings import NamesrvSettings
from ariane_sdk import ClusterClient
from ariane_servicekit import Address, Machine, ServiceError, SystemClock, serving
from ariane_servicekit.rpc import calls
from ariane_servicekit.security.caller import Caller, CallerKind
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.gate.gate import Gate
from ariane_servicekit.security.rights.rights import Rights
from ariane_servicekit.security.rules.rule_book import RuleBook
from ariane_testkit.access_rules import entries_of, rules_of
from ariane_testkit.free_ports import free_port
from ariane_testkit.identities import stated_identity

on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def changes():
    return []


@pytest.fixture
def users(database, changes):
    store, credentials = UserStore(database), CredentialStore(database, None)
    return UserServicer(store, credentials, database, lambda: changes.append("user"))


@pytest.fixture
def policies(database, changes):
    async def no_processes():
        return ()

    return AccessPolicyServicer(
        UserStore(database),
        database,
        lambda: changes.append("policy"),
        AskedProcesses(no_processes),
    )


async def refused(call, reason, **metadata):
    with pytest.raises(ServiceError) as caught:
        await call
    assert caught.value.row.name == reason
    assert {name: caught.value.metadata.get(name) for name in metadata} == metadata


async def create(users, name, **fields):
    wanted = user_pb.User(user=name, enabled=True, **fields)
    return (await users.CreateUser(user_pb.CreateUserRequest(user=wanted), None)).user


async def grant(policies, subject, text, known_version=0):
    policy = policy_pb.AccessPolicy(user=subject, entries=entries_of(text))
    request = policy_pb.UpdateAccessPolicyRequest(policy=policy, known_version=known_version)
    return (await policies.UpdateAccessPolicy(request, None)).policy


async def test_a_user_lives(users, changes):
    created = await create(users, "anna", description="who", roles=["b", "a", "b"])
    assert (created.kind, created.enabled) == (rules.USER_KIND_NORMAL, True)
    assert list(created.roles) == ["a", "b"]
    await refused(create(users, "anna"), "USER_EXISTS", user="anna")
    update = user_pb.UpdateUserRequest(user="anna", enabled=False, known_version=created.version)
    changed = (await users.UpdateUser(update, None)).user
    assert (changed.enabled, changed.description) == (False, "who")
    assert changed.version > created.version
    await refused(users.UpdateUser(update, None), "RESOURCE_CHANGED", user="anna")
    [listed] = (await users.ListUsers(user_pb.ListUsersRequest(), None)).users
    assert listed == changed
    await users.DeleteUser(user_pb.DeleteUserRequest(user="anna"), None)
    await refused(users.GetUser(user_pb.GetUserRequest(user="anna"), None), "USER_NOT_FOUND")
    assert changes == ["user"] * 3


@on_sqlite
async def test_users_are_listed_in_pages(users):
    for name in ("d", "b", "a", "c"):
        await create(users, name)
    token, names = "", []
    while True:
        request = user_pb.ListUsersRequest(page_size=3, page_token=token)
        answer = await users.ListUsers(request, None)
        names.append([user.user for user in answer.users])
        token = answer.next_page_token
        if not token:
            break
    assert names == [["a", "b", "c"], ["d"]]


@on_sqlite
async def test_the_last_super_user_stays(users):
    await create(users, "root", kind=rules.USER_KIND_SUPER)
    for request in (
        user_pb.UpdateUserRequest(user="root", enabled=False),
        user_pb.UpdateUserRequest(user="root", kind=rules.USER_KIND_NORMAL),
    ):
        await refused(users.UpdateUser(request, None), "FIELD_INVALID")
    delete = user_pb.DeleteUserRequest(user="root")
    await refused(users.DeleteUser(delete, None), "FIELD_INVALID")
    await create(users, "other", kind=rules.USER_KIND_SUPER)
    await users.DeleteUser(delete, None)


@on_sqlite
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("", {}),
        ("a b", {}),
        ("%RETRY%a", {}),
        ("a" * 121, {}),
        ("a", {"description": "ü" * 513}),
        ("a", {"roles": ["\n"]}),
        ("a", {"roles": [f"r{i}" for i in range(65)]}),
        ("a", {"kind": 3}),
    ],
)
async def test_bad_users_are_refused(users, name, fields):
    await refused(create(users, name, **fields), "FIELD_INVALID")


async def test_a_policy_lives(users, policies, changes):
    await refused(grant(policies, "anna", "allow GET topic a"), "USER_NOT_FOUND", user="anna")
    await create(users, "anna")
    first = await grant(policies, "anna", "allow GET topic a")
    role = await grant(policies, "role:it/ops", "allow GET cluster")
    await refused(grant(policies, "anna", "", known_version=role.version), "RESOURCE_CHANGED")
    listed = await policies.ListAccessPolicies(policy_pb.ListAccessPoliciesRequest(), None)
    assert list(listed.policies) == [first, role]
    asked = policy_pb.ListAccessPoliciesRequest(resource=access.RESOURCE_TOPIC, name="a")
    assert list((await policies.ListAccessPolicies(asked, None)).policies) == [first]
    await grant(policies, "anna", "", known_version=first.version)
    got = await policies.GetAccessPolicy(policy_pb.GetAccessPolicyRequest(user="anna"), None)
    assert got.policy == policy_pb.AccessPolicy(user="anna")
    # Of a user who comes after, nothing is left.
    await grant(policies, "anna", "allow GET topic a")
    await users.DeleteUser(user_pb.DeleteUserRequest(user="anna"), None)
    await create(users, "anna")
    got = await policies.GetAccessPolicy(policy_pb.GetAccessPolicyRequest(user="anna"), None)
    assert not got.policy.entries
    assert changes.count("policy") == 4


@on_sqlite
@pytest.mark.parametrize(
    "change",
    [
        {"decision": 0},
        {"resource": 0},
        {"actions": []},
        {"actions": [access.ACTION_MEMBER]},
        {"pattern": 0},
        {"name": ""},
        {"name": "a\u202eb"},
        {"pattern": rules.NAME_PATTERN_ANY},
        {"resource": access.RESOURCE_CLUSTER},
        {"source_networks": ["10.0.0.1/8"]},
    ],
)
async def test_bad_entries_are_refused(policies, change):
    good = {
        "decision": rules.ACCESS_DECISION_ALLOW,
        "resource": access.RESOURCE_TOPIC,
        "pattern": rules.NAME_PATTERN_LITERAL,
        "name": "a",
        "actions": [access.ACTION_GET],
    }
    entry = rules.AccessEntry(**{**good, **change})
    policy = policy_pb.AccessPolicy(user="role:r", entries=[rules.AccessEntry(**good), entry])
    request = policy_pb.UpdateAccessPolicyRequest(policy=policy)
    await refused(policies.UpdateAccessPolicy(request, None), "FIELD_INVALID")


@on_sqlite
async def test_nobody_gives_more_than_he_may_do(users, policies):
    """Who may update users would else give himself, or one of his, every right."""
    for name in ("anna", "shop"):
        await users.CreateUser(user_pb.CreateUserRequest(user={"user": name}), None)

    def put(subject, text, known_version=0):
        policy = policy_pb.AccessPolicy(user=subject, entries=entries_of(text))
        return policies.UpdateAccessPolicy(
            policy_pb.UpdateAccessPolicyRequest(policy=policy, known_version=known_version), None
        )

    def roles(name, *wanted):
        return users.UpdateUser(
            user_pb.UpdateUserRequest(user=name, roles=user_pb.RoleList(roles=wanted)), None
        )

    await put("role:all", "allow SUBSCRIBE topic *")
    await put("role:some", "allow PUBLISH topic order-1")
    await put("shop", "allow PUBLISH topic *; deny PUBLISH topic secret")
    await roles("shop", "all")
    gate = Gate(AccessMode.CLOSED, int, super_users=frozenset({"top"}))
    gate.change_rules(rules_of(1, "anna: allow CREATE,UPDATE user *; allow PUBLISH topic order-*"))
    call = calls.Call("m", "r-1", None)
    call.is_judged, call.gate, call._caller = True, gate, Caller(CallerKind.USER, "", "anna")
    token = calls._CALL.set(call)
    try:
        for subject, text in (
            ("anna", "allow CREATE,UPDATE user *; allow SUBSCRIBE topic *"),
            ("role:some", "allow PUBLISH topic *"),
            ("shop", "allow PUBLISH topic *"),
        ):
            await refused(put(subject, text), "ACCESS_DENIED")
        await refused(roles("anna", "all"), "ACCESS_DENIED")
        strong = user_pb.CreateUserRequest(user={"user": "mine", "roles": ["all"]})
        await refused(users.CreateUser(strong, None), "ACCESS_DENIED")
        # To give what she has, to take away, and to leave things as they are is hers.
        await put(
            "shop", "allow PUBLISH topic *; deny PUBLISH topic secret; allow GET topic order-7"
        )
        await put("shop", "deny PUBLISH topic secret")
        await roles("shop", "some")
        # Made again, the user would be without what it is denied.
        delete = user_pb.DeleteUserRequest(user="shop")
        await refused(users.DeleteUser(delete, None), "ACCESS_DENIED")
        # Who has less by the key that he has shown gives nothing.
        call._caller = replace(call.caller, scope=Rights(entries_of("allow PUBLISH topic *")))
        await refused(put("shop", "allow PUBLISH topic order-8"), "ACCESS_DENIED")
        call._caller = Caller(CallerKind.USER, "", "top")
        await put("anna", "allow SUBSCRIBE topic *")
    finally:
        calls._CALL.reset(token)


@on_sqlite
async def test_a_check_tells_what_decides(users, policies):
    await create(users, "anna", roles=["ops"])
    await create(users, "root", kind=rules.USER_KIND_SUPER)
    await grant(policies, "anna", "deny GET topic a from 10.0.0.0/8")
    await grant(policies, "role:ops", "allow PUBLISH topic a*")

    async def check(user, name, address="127.0.0.1"):
        request = policy_pb.CheckAccessRequest(
            user=user,
            action=access.ACTION_GET,
            resource=access.RESOURCE_TOPIC,
            name=name,
            source_address=address,
        )
        answer = await policies.CheckAccess(request, None)
        return answer.decision == rules.ACCESS_DECISION_ALLOW, answer.entry.name

    assert await check("anna", "a") == (True, "a")
    assert await check("anna", "a", "10.1.1.1") == (False, "a")
    assert await check("anna", "a", "") == (False, "a")
    assert await check("anna", "b") == (False, "")
    assert await check("root", "b") == (True, "")
    await refused(check("nobody", "a"), "USER_NOT_FOUND")


@pytest.fixture
async def name_server():
    """An open process that admin tells."""
    settings = NamesrvSettings(listen=Address("127.0.0.1", 0))
    machine = Machine(identify=stated_identity)
    async with serving(settings, NamesrvApp, machine) as address:
        yield str(address)


@on_sqlite
async def test_processes_are_told_within_seconds(users, policies, database, name_server):
    async def processes():
        return {name_server}

    store = UserStore(database)
    publisher = RulesPublisher(store, database, processes, SystemClock())
    users._changed = policies._changed = publisher.changed
    await create(users, "anna")
    publisher.start()
    try:
        async with ClusterClient(name_server) as client:
            seen = Seen(client.channel(name_server))
            await seen.version_at_least(store.version())
            await grant(policies, "anna", "allow GET topic a")
            await seen.version_at_least(store.version())
            # A database from an older copy: what it says now holds all the same.
            store.raise_version(seen.version + 5)
            await grant(policies, "anna", "allow GET topic b")
            await seen.version_at_least(store.version())
    finally:
        await publisher.stop()


@on_sqlite
async def test_a_process_that_was_taken_over_keeps_no_change_from_others(
    users, database, name_server, monkeypatch, logged
):
    """By a version beyond all numbers, or by one that is always ahead."""
    monkeypatch.setattr(publisher_module, "LOOK_S", 0.02)
    monkeypatch.setattr(publisher_module, "_log", structlog.get_logger())
    said, heard = [], asyncio.Event()

    class Liar(AccessServiceServicer):
        async def PushAccessRules(self, request_iterator, context):  # noqa: N802 - the contract's.
            yield access_service_pb.PushAccessRulesResponse(version=said[0])
            async for request in request_iterator:
                heard.set()
                if request.last:
                    ahead = request.part.version + 1000
                    yield access_service_pb.PushAccessRulesResponse(version=ahead)

    liar = ariane_wire.server()
    add_AccessServiceServicer_to_server(Liar(), liar)
    port = liar.add_insecure_port("127.0.0.1:0")
    await liar.start()

    async def processes():
        return {name_server, f"127.0.0.1:{port}"}

    store = UserStore(database)
    try:
        for place, version in enumerate((1 << 62, 500)):
            said[:] = [version]
            publisher = RulesPublisher(store, database, processes, SystemClock())
            users._changed = publisher.changed
            await create(users, f"anna-{place}")
            publisher.start()
            try:
                heard.clear()
                await asyncio.wait_for(heard.wait(), 20)
                await create(users, f"bert-{place}")
                async with ClusterClient(name_server) as client:
                    seen = Seen(client.channel(name_server))
                    await seen.version_at_least(store.version())
                await asyncio.sleep(0.3)
                assert store.version() <= (100 if place == 0 else 600)
                absurd = [each for each in logged if each["event"] == "access_rules_absurd"]
                assert [each["address"] for each in absurd] == [f"127.0.0.1:{port}"]
            finally:
                await publisher.stop()
    finally:
        await liar.stop(None)


@on_sqlite
async def test_a_process_that_begins_anew_is_told_again(users, policies, database, monkeypatch):
    monkeypatch.setattr(publisher_module, "LOOK_S", 0.2)
    monkeypatch.setattr(publisher_module, "AGAIN_S", 0.1)
    listen = Address("127.0.0.1", free_port())
    settings = NamesrvSettings(listen=listen, grace_s=0)

    async def processes():
        return {str(listen)}

    store, clock = UserStore(database), TriesSeen()
    publisher = RulesPublisher(store, database, processes, clock)
    users._changed = policies._changed = publisher.changed
    await create(users, "anna")
    publisher.start()
    try:
        for _ in range(2):
            async with serving(settings, NamesrvApp), ClusterClient(str(listen)) as client:
                await Seen(client.channel(str(listen))).version_at_least(store.version())
                clock.waits_for_a_try.clear()
            # While it is away, admin finds that out by its next word.
            async with asyncio.timeout(20):
                await clock.waits_for_a_try.wait()
    finally:
        await publisher.stop()


class TriesSeen(SystemClock):
    """A clock that shows when admin waits for its next try to reach a process."""

    def __init__(self):
        self.waits_for_a_try = asyncio.Event()

    async def sleep(self, seconds):
        self.waits_for_a_try.set()
        await super().sleep(seconds)


class Seen:
    """What version a process acts on."""

    def __init__(self, channel):
        self.channel = channel
        self.version = 0

    async def version_at_least(self, wanted):
        from ariane.common.v1.access_service_pb2_grpc import AccessServiceStub  # noqa: PLC0415

        async with asyncio.timeout(20):
            while self.version < wanted:
                stream = AccessServiceStub(self.channel).PushAccessRules()
                self.version = (await stream.read()).version
                stream.cancel()
                await asyncio.sleep(0.02)


@on_sqlite
async def test_rules_have_the_enabled_and_name_the_disabled(users, policies, database):
    await create(users, "anna", roles=["ops"])
    await create(users, "bert")
    await users.UpdateUser(user_pb.UpdateUserRequest(user="bert", enabled=False), None)
    await grant(policies, "anna", "allow GET topic a")
    await grant(policies, "bert", "allow GET topic a")
    await grant(policies, "role:ops", "allow GET topic b")
    told = UserStore(database).rules()
    assert [(user.user, list(user.roles)) for user in told.users] == [("anna", ["ops"])]
    assert list(told.disabled_users) == ["bert"]
    assert [(role.role, role.entries[0].name) for role in told.roles] == [("ops", "b")]


@on_sqlite
async def test_the_name_of_a_deleted_user_stays_out_until_it_is_made_again(
    users, policies, database
):
    """Groups of an OpenID provider would let in whom the cluster has disabled, or denied things."""
    await grant(policies, "role:ops", "allow PUBLISH topic *")
    store = UserStore(database)

    def may(name):
        caller = Caller(CallerKind.USER, "ipv4:10.0.0.1:1", name, groups=("ops",))
        rights = RuleBook(store.rules()).rights_of(caller)
        return rights is not None and rights.allows(
            access.ACTION_PUBLISH, access.RESOURCE_TOPIC, "pay"
        )

    for name, text in (("anna", "deny PUBLISH topic pay"), ("bert", "allow GET topic a")):
        await create(users, name)
        await grant(policies, name, text)
    await users.UpdateUser(user_pb.UpdateUserRequest(user="bert", enabled=False), None)
    for name in ("anna", "bert"):
        assert not may(name)
        await users.DeleteUser(user_pb.DeleteUserRequest(user=name), None)
        assert not may(name)
    assert may("carl")
    assert list(store.rules().disabled_users) == ["anna", "bert"]
    await create(users, "bert")
    assert may("bert")
    assert list(store.rules().disabled_users) == ["anna"]


async def test_users_and_names_of_deleted_ones_are_so_many_at_most(users, policies, monkeypatch):
    """Who makes and deletes users for ever would fill the memory of every process."""
    monkeypatch.setattr(rules_room, "RECORDS_MAX", 4)
    for name in ("a", "b", "c", "d"):
        await create(users, name)
        await users.DeleteUser(user_pb.DeleteUserRequest(user=name), None)
    await refused(create(users, "e"), "FIELD_INVALID")
    await refused(grant(policies, "role:ops", "allow GET cluster"), "FIELD_INVALID")
    # A name that is kept out takes no more room than its user.
    await create(users, "b")
    await users.DeleteUser(user_pb.DeleteUserRequest(user="b"), None)


async def test_policies_do_not_grow_beyond_what_processes_take(
    users, policies, database, monkeypatch
):
    """Who may change some users would else let no change of rights reach any process."""
    monkeypatch.setattr(rules_room, "RECORDS_BYTES_MAX", 2000)
    texts = [f"deny PUBLISH topic {'x' * 200}{number}" for number in range(8)]
    for name in ("a", "b"):
        await create(users, name)
    first = await grant(policies, "a", "; ".join(texts[:4]))
    await refused(grant(policies, "b", "; ".join(texts)), "FIELD_INVALID")
    await refused(grant(policies, "role:ops", "; ".join(texts)), "FIELD_INVALID")
    told = UserStore(database).rules()
    assert [len(user.entries) for user in told.users] == [4, 0]
    assert told.ByteSize() < 2000
    # What is taken away makes room, and is taken away wherever the bound is.
    monkeypatch.setattr(rules_room, "RECORDS_BYTES_MAX", 10)
    await grant(policies, "a", texts[0], known_version=first.version)
    await users.UpdateUser(user_pb.UpdateUserRequest(user="b", enabled=False), None)
    await grant(policies, "a", "")
    monkeypatch.setattr(rules_room, "RECORDS_BYTES_MAX", 2000)
    await grant(policies, "b", "; ".join(texts[:6]))
