"""Credentials as admin keeps them: public halves, told with the rules, gone with their user."""

from __future__ import annotations

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from ariane.admin.v1 import user_service_pb2 as user_pb
from ariane.common.v1 import access_rules_pb2 as rules
from ariane_admin.users import credential_store
from ariane_admin.users.credential_store import CredentialStore
from ariane_admin.users.servicers import UserServicer
from ariane_admin.users.store import UserStore
from ariane_servicekit import ServiceError
from ariane_servicekit.rpc import calls
from ariane_servicekit.security.access_mode import AccessMode
from ariane_servicekit.security.caller import Caller, CallerKind
from ariane_servicekit.security.gate import Gate
from ariane_servicekit.security.rule_book import RuleBook

on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

KEY, OTHER = b"k" * 32, b"o" * 32
SIGNING_KEY = user_pb.CREDENTIAL_KIND_SIGNING_KEY


@pytest.fixture
def changes():
    return []


@pytest.fixture
async def users(database, changes):
    store, credentials = UserStore(database), CredentialStore(database)
    users = UserServicer(store, credentials, database, lambda: changes.append("user"))
    for name in ("anna", "bert"):
        user = user_pb.User(user=name, enabled=True)
        await users.CreateUser(user_pb.CreateUserRequest(user=user), None)
    return users


async def create(users, user="anna", credential_id="laptop", public_key=KEY, **more):
    wanted = user_pb.Credential(
        **{"credential_id": credential_id, "public_key": public_key, "kind": SIGNING_KEY, **more}
    )
    request = user_pb.CreateCredentialRequest(user=user, credential=wanted)
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
        call._caller = Caller(CallerKind.USER, "", "top")
        assert (await users.DeleteCredential(delete, None)).known
    finally:
        calls._CALL.reset(token)
