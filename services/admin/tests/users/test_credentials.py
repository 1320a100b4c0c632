"""Credentials as admin keeps them: public halves, told with the rules, gone with their user."""

from __future__ import annotations

import stat
from types import SimpleNamespace

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from sqlalchemy import select, update

from ariane.admin.v1 import user_service_pb2 as user_pb
from ariane.common.v1 import access_rules_pb2 as rules
from ariane_admin.database.tables import ACCESS_CREDENTIAL
from ariane_admin.users import credential_store
from ariane_admin.users.credential_store import CredentialStore
from ariane_admin.users.secret_seal import SecretSeal
from ariane_admin.users.servicers import UserServicer
from ariane_admin.users.store import UserStore
from ariane_servicekit import ServiceError, StartRefused
from ariane_servicekit.rpc import calls
from ariane_servicekit.security.caller import Caller, CallerKind
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.gate.gate import Gate
from ariane_servicekit.security.rules.rule_book import RuleBook
from ariane_testkit.access_rules import entries_of
from ariane_wire import Identity

on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

KEY, OTHER = b"k" * 32, b"o" * 32
ROCKETMQ_KEY = user_pb.CREDENTIAL_KIND_ROCKETMQ_KEY
SIGNING_KEY = user_pb.CREDENTIAL_KIND_SIGNING_KEY


@pytest.fixture
def changes():
    return []


@pytest.fixture
def seal(tmp_path):
    return SecretSeal(tmp_path / "secret.key")


@pytest.fixture
def credentials(database, seal):
    return CredentialStore(database, seal)


@pytest.fixture
async def users(database, credentials, changes):
    store = UserStore(database)
    users = UserServicer(store, credentials, database, lambda: changes.append("user"))
    for name in ("anna", "bert"):
        user = user_pb.User(user=name, enabled=True)
        await users.CreateUser(user_pb.CreateUserRequest(user=user), None)
    return users


async def create(users, user="anna", credential_id="laptop", public_key=KEY, secret="", **more):
    wanted = user_pb.Credential(
        **{"credential_id": credential_id, "public_key": public_key, "kind": SIGNING_KEY, **more}
    )
    request = user_pb.CreateCredentialRequest(user=user, credential=wanted, secret=secret)
    return (await users.CreateCredential(request, None)).credential


async def ids(users, user="anna", page_size=0):
    found, request = [], user_pb.ListCredentialsRequest(user=user, page_size=page_size)
    while True:
        answer = await users.ListCredentials(request, None)
        found += (each.credential_id for each in answer.credentials)
        request.page_token = answer.next_page_token
        if not request.page_token:
            return found


async def refused(call, reason):
    with pytest.raises(ServiceError) as caught:
        await call
    assert caught.value.row.name == reason


async def test_a_credential_lives(users, database, changes):
    ends = Timestamp(seconds=4_000_000_000)
    made = await create(users, description="of work", expire_time=ends)
    assert (made.public_key, made.expire_time, made.description) == (KEY, ends, "of work")
    assert made.HasField("create_time")
    # Who asks again gets what is there; nobody takes the id of another.
    assert await create(users, description="again") == made
    await refused(create(users, public_key=OTHER), "FIELD_INVALID")
    await refused(create(users, "bert"), "FIELD_INVALID")
    await refused(create(users, "nobody", "other"), "USER_NOT_FOUND")
    drawn = await create(users, credential_id="", public_key=OTHER)
    assert await ids(users, page_size=1) == ["laptop", drawn.credential_id]

    def told():
        book = RuleBook(UserStore(database).rules())
        return [book.key_of(each) for each in ("laptop", drawn.credential_id)]

    assert told() == [("anna", KEY, 4_000_000_000_000), ("anna", OTHER, 0)]
    delete = user_pb.DeleteCredentialRequest(user="bert", credential_id="laptop")
    assert not (await users.DeleteCredential(delete, None)).known
    delete.user = "anna"
    before, version = len(changes), UserStore(database).version()
    assert (await users.DeleteCredential(delete, None)).known
    assert not (await users.DeleteCredential(delete, None)).known
    assert len(changes) == before + 2
    assert UserStore(database).version() > version
    assert told() == [None, ("anna", OTHER, 0)]
    # Of who is disabled, no key is told; of who is gone, none is left.
    await users.UpdateUser(user_pb.UpdateUserRequest(user="anna", enabled=False), None)
    assert told() == [None, None]
    await users.DeleteUser(user_pb.DeleteUserRequest(user="anna"), None)
    anna = user_pb.User(user="anna", enabled=True)
    await users.CreateUser(user_pb.CreateUserRequest(user=anna), None)
    assert await ids(users) == []


@on_sqlite
@pytest.mark.parametrize(
    "wrong",
    [
        {"credential_id": "a b"},
        {"credential_id": "a" * 65},
        {"kind": 0},
        {"kind": 2},
        {"secret": "of a signing key"},
        {"kind": ROCKETMQ_KEY, "public_key": b""},
        {"kind": ROCKETMQ_KEY, "public_key": b"", "secret": "a\nb"},
        {"kind": ROCKETMQ_KEY, "public_key": b"", "secret": "a" * 257},
        {"kind": ROCKETMQ_KEY, "public_key": b"", "secret": "a", "credential_id": ""},
        {"kind": ROCKETMQ_KEY, "secret": "with a public key"},
        {"public_key": b"k" * 31},
        {"description": "x" * 1025},
        {"expire_time": Timestamp(seconds=1 << 50)},
    ],
)
async def test_bad_credentials_are_refused(users, wrong):
    await refused(create(users, **wrong), "FIELD_INVALID")
    assert await ids(users) == []


@on_sqlite
async def test_a_user_has_so_many(users, monkeypatch):
    monkeypatch.setattr(credential_store, "CREDENTIALS_MAX", 2)
    await create(users)
    await create(users, credential_id="phone", public_key=OTHER)
    await refused(create(users, credential_id="desk"), "FIELD_INVALID")
    await create(users, "bert", "desk")


@on_sqlite
async def test_only_a_super_user_gives_a_super_user_a_key(users, monkeypatch):
    """Who may update users would else give himself a key to everything."""
    root = user_pb.User(user="root", kind=rules.USER_KIND_SUPER, enabled=True)
    await users.CreateUser(user_pb.CreateUserRequest(user=root), None)
    await create(users, "root")
    call = calls.Call("m", "", None)
    call.is_judged, call.gate = True, Gate(AccessMode.CLOSED, int, super_users=frozenset({"top"}))
    token = calls._CALL.set(call)
    try:
        call._caller = Caller(CallerKind.USER, "", "anna")
        delete = user_pb.DeleteCredentialRequest(user="root", credential_id="laptop")
        await refused(create(users, "root", "mine"), "ACCESS_DENIED")
        await refused(users.DeleteCredential(delete, None), "ACCESS_DENIED")
        # Nor does he become a super user of the settings, of whom the database knows nothing.
        top = user_pb.CreateUserRequest(user=user_pb.User(user="top", enabled=True))
        await refused(users.CreateUser(top, None), "ACCESS_DENIED")
        call._caller = Caller(CallerKind.USER, "", "top")
        await users.CreateUser(top, None)
        call._caller = Caller(CallerKind.USER, "", "anna")
        await refused(create(users, "top", "mine"), "ACCESS_DENIED")
        call._caller = Caller(CallerKind.USER, "", "top")
        assert (await users.DeleteCredential(delete, None)).known
    finally:
        calls._CALL.reset(token)


async def give_secret(users, user="anna", access_key="AK1", secret="s-1"):  # noqa: S107 - of a test
    return await create(users, user, access_key, b"", secret, kind=ROCKETMQ_KEY)


async def test_a_rocketmq_key_is_sealed_and_told_to_gateways_only(users, database, credentials):
    made = await give_secret(users)
    assert made == await give_secret(users)
    await refused(give_secret(users, secret="s-2"), "FIELD_INVALID")
    await give_secret(users, "bert", "AK2", "s-2")
    assert not RuleBook(UserStore(database).rules()).key_of("AK1")
    with database.reading() as connection:
        rows = connection.execute(select(ACCESS_CREDENTIAL)).all()
    assert not [row for row in rows if b"s-1" in row.material]

    def told():
        keys = credentials.gateway_keys()
        return [(each.access_key, each.user, each.secret_key) for each in keys]

    assert told() == [("AK1", "anna", "s-1"), ("AK2", "bert", "s-2")]
    await users.UpdateUser(user_pb.UpdateUserRequest(user="anna", enabled=False), None)
    assert told() == [("AK2", "bert", "s-2")]
    # A row that somebody moves to another user opens for nobody.
    with database.writing() as connection:
        moved = update(ACCESS_CREDENTIAL).where(ACCESS_CREDENTIAL.c.credential_id == "AK1")
        connection.execute(moved.values(user="bert"))
    assert told() == [("AK2", "bert", "s-2")]


async def test_gateways_are_told_whose_address_matters(users, database, credentials):
    for user in ("anna", "bert"):
        await give_secret(users, user, f"AK-{user}")

    def judged_by_address():
        return [key.user for key in credentials.gateway_keys() if key.by_address]

    store = UserStore(database)
    store.update_policy("anna", entries_of("allow PUBLISH topic orders"), 0)
    assert judged_by_address() == []
    store.update_policy("role:nearby", entries_of("deny GET topic * from 10.0.0.0/8"), 0)
    assert judged_by_address() == []
    await users.UpdateUser(
        user_pb.UpdateUserRequest(user="bert", roles=user_pb.RoleList(roles=["nearby"])), None
    )
    assert judged_by_address() == ["bert"]
    near = entries_of("allow PUBLISH topic orders from 10.0.0.0/8")
    store.update_policy("anna", near, store.policy("anna").version)
    assert judged_by_address() == ["anna", "bert"]


@on_sqlite
async def test_admin_starts_with_the_key_that_has_sealed(users, database, credentials, tmp_path):
    credentials.check_seal()
    await give_secret(users)
    CredentialStore(database, SecretSeal(tmp_path / "secret.key")).check_seal()
    assert stat.S_IMODE((tmp_path / "secret.key").stat().st_mode) == 0o600
    with pytest.raises(StartRefused, match="need the same file"):
        CredentialStore(database, SecretSeal(tmp_path / "other.key")).check_seal()
    (tmp_path / "other.key").write_bytes(b"short")
    with pytest.raises(StartRefused, match="32 bytes"):
        SecretSeal(tmp_path / "other.key")
    without = UserServicer(UserStore(database), CredentialStore(database, None), database, int)
    await refused(give_secret(without, access_key="AK2"), "FEATURE_NOT_AVAILABLE")


@on_sqlite
async def test_a_secret_does_not_come_in_plain_text_from_elsewhere(users):
    call = calls.Call("m", "", SimpleNamespace(identity=lambda: Identity("ipv4:10.0.0.7:1")))
    token = calls._CALL.set(call)
    try:
        await refused(give_secret(users), "CREDENTIALS_INVALID")
        call.context = SimpleNamespace(identity=lambda: Identity("ipv4:127.0.0.1:1"))
        await give_secret(users)
    finally:
        calls._CALL.reset(token)
