"""Logins by key: what is right is taken once, and nothing that travels is taken again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ariane.common.v1 import access_pb2 as access
from ariane.common.v1 import access_rules_pb2 as rules
from ariane.common.v1.login_service_pb2 import Delegation, DelegationTerms, KeyProof
from ariane_servicekit import Machine, ServiceError
from ariane_servicekit.security.caller import Caller, CallerKind, MemberKind
from ariane_servicekit.security.identity import logins as logins_module
from ariane_servicekit.security.identity.delegations import DELEGATION_MS_MAX, PREFIX
from ariane_servicekit.security.identity.identify import SESSION_KEY, Identifier, note_proof
from ariane_servicekit.security.identity.identities import Identities
from ariane_servicekit.security.identity.logins import LOGIN_MS_MAX, Logins, PublicKey, signed_text
from ariane_servicekit.security.identity.session_tokens import TOKENS_OF_USER_MAX
from ariane_servicekit.security.rules.rule_book import RuleBook
from ariane_wire import Identity

LOCAL = "ipv4:127.0.0.1:40211"
FAR = "ipv4:10.0.0.7:40211"
SERVER = "ariane://main/broker/b-0"
SHOWN = b"s" * 32


class Clock:
    """Stands still."""

    def __init__(self):
        self.ms = 1_000_000

    def now_ms(self):
        return self.ms


class Tls:
    """Stands for certificates: the own name, and a member at one address."""

    own = SERVER

    def caller(self, identity):
        if identity.peer.startswith("ipv4:10.9."):
            return Caller(CallerKind.MEMBER, identity.peer, "f", member_kind=MemberKind.FILTER)
        return Caller(CallerKind.ANONYMOUS, identity.peer)


@pytest.fixture
def waits(monkeypatch):
    """How long answers to wrong proofs took."""
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr(logins_module, "asyncio", SimpleNamespace(sleep=sleep))
    return slept


@pytest.fixture
def private():
    return Ed25519PrivateKey.generate()


@pytest.fixture
def keys(private):
    return {"laptop": PublicKey("anna", private.public_key().public_bytes_raw())}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def logins(keys, clock, waits):
    machine = SimpleNamespace(clock=clock, chance=Random(7))
    return Logins(keys.get, machine, Tls(), insecure=False)


def encrypted(peer=FAR, shown=SHOWN):
    return Identity(peer, is_encrypted=True, own_fingerprint=shown)


def proof(private, nonce, *, shown=SHOWN, server=SERVER, credential_id="laptop", own=b"c" * 32):
    text = signed_text(nonce, own, shown, server, credential_id)
    return KeyProof(credential_id=credential_id, client_nonce=own, signature=private.sign(text))


async def refused(logins, identity, wrong):
    with pytest.raises(ServiceError) as caught:
        await logins.finish_by_key(identity, wrong)
    return str(caught.value)


async def test_a_right_proof_is_the_user_until_it_ends(logins, private, clock):
    here, elsewhere = encrypted(), encrypted()
    login = await logins.finish_by_key(here, proof(private, logins.begin(here)))
    assert (login.caller.name, login.caller.kind) == ("anna", CallerKind.USER)
    assert logins.login_of(here) == login
    assert logins.login_of(elsewhere) is None
    clock.ms += LOGIN_MS_MAX
    assert logins.login_of(here) is None
    assert logins.has_ended(here)
    assert not logins.has_ended(elsewhere)


async def test_a_login_proof_is_accepted_once_and_only_where_it_was_asked_for(
    logins, private, clock
):
    here = encrypted()
    taken = proof(private, logins.begin(here))
    await logins.finish_by_key(here, taken)
    text = await refused(logins, here, taken)
    other = encrypted()
    logins.begin(other)
    texts = {text, await refused(logins, other, taken)}
    # Of a server between: another certificate, another name, no certificate at all.
    for wrong in ({"shown": b"x" * 32}, {"server": "ariane://main/broker/b-1"}, {"shown": b""}):
        texts.add(await refused(logins, other, proof(private, logins.begin(other), **wrong)))
    stranger = Ed25519PrivateKey.generate()
    texts.add(await refused(logins, other, proof(stranger, logins.begin(other))))
    unknown = proof(private, logins.begin(other), credential_id="phone")
    texts.add(await refused(logins, other, unknown))
    texts.add(await refused(logins, other, proof(private, logins.begin(other), own=b"short")))
    late = proof(private, logins.begin(other))
    clock.ms += 30_001
    texts.add(await refused(logins, other, late))
    assert texts == {"the credentials are wrong, unknown, expired or disabled"}
    assert logins.login_of(other) is None


async def test_wrong_proofs_wait_and_right_ones_do_not(logins, private, waits):
    here = encrypted()
    stranger = Ed25519PrivateKey.generate()
    for _ in range(7):
        await refused(logins, here, proof(stranger, logins.begin(here)))
    assert waits == [0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    waits.clear()
    await logins.finish_by_key(here, proof(private, logins.begin(here)))
    assert waits == []


async def test_one_wrong_proof_of_a_connection_waits_at_a_time(logins, private, monkeypatch):
    go_on, waiting, begun = asyncio.Event(), asyncio.Event(), []

    async def sleep(seconds):
        begun.append(seconds)
        waiting.set()
        await go_on.wait()

    monkeypatch.setattr(logins_module, "asyncio", SimpleNamespace(sleep=sleep))
    here = encrypted()
    first = asyncio.create_task(refused(logins, here, proof(private, b"n" * 32)))
    await waiting.wait()
    for _ in range(2000):
        await refused(logins, here, proof(private, b"n" * 32))
    assert begun == [0.25]
    assert not first.done()
    go_on.set()
    await first
    elsewhere = encrypted()
    await refused(logins, elsewhere, proof(private, b"n" * 32))
    assert begun == [0.25] * 2


async def test_answers_that_wait_are_bounded_and_so_are_proofs_of_each_connection(
    logins, private, monkeypatch
):
    """A wrong proof that waits is a call in work: many hosts together would keep others out."""
    go_on, later = asyncio.Event(), []
    loop = SimpleNamespace(call_later=lambda seconds, *call: later.append((seconds, *call)))

    async def sleep(_seconds):
        await go_on.wait()

    foreign = SimpleNamespace(sleep=sleep, get_running_loop=lambda: loop)
    monkeypatch.setattr(logins_module, "asyncio", foreign)
    monkeypatch.setattr(logins_module, "WAITING_MAX", 2)
    wrong = proof(private, b"n" * 32)
    held = [asyncio.create_task(refused(logins, encrypted(), wrong)) for _ in range(2)]
    await asyncio.sleep(0)
    here = encrypted()
    nonce = logins.begin(here)
    assert "wrong, unknown" in await refused(logins, here, wrong)
    # It is answered at once, and has no other proof looked at before its time.
    assert "wrong, unknown" in await refused(logins, here, proof(private, nonce))
    [(seconds, end, *arguments)] = later
    assert seconds == 0.25
    end(*arguments)
    await logins.finish_by_key(here, proof(private, logins.begin(here)))
    assert not any(task.done() for task in held)
    go_on.set()
    await asyncio.gather(*held)


async def test_a_key_that_is_taken_away_or_has_ended(logins, keys, private, clock):
    here = encrypted()
    await logins.finish_by_key(here, proof(private, logins.begin(here)))
    kept = keys.pop("laptop")
    assert logins.has_ended(here)
    keys["laptop"] = kept._replace(ends_ms=clock.ms + 5)
    login = await logins.finish_by_key(here, proof(private, logins.begin(here)))
    assert login.ends_ms == clock.ms + 5
    clock.ms += 5
    assert "credentials" in await refused(logins, here, proof(private, logins.begin(here)))


@pytest.mark.parametrize(
    ("identity", "text"),
    [
        (Identity(FAR), "over TLS only"),
        (encrypted("ipv4:10.9.0.1:4"), "known by its certificate"),
    ],
)
async def test_where_no_proof_is_taken(logins, private, identity, text):
    with pytest.raises(ServiceError, match=text):
        logins.begin(identity)
    with pytest.raises(ServiceError, match=text):
        await logins.finish_by_key(identity, proof(private, b"n" * 32))
    with pytest.raises(ServiceError, match=text):
        await logins.finish_by_token(identity, "token")


async def test_plain_text_is_for_this_machine(logins, private):
    here = Identity(LOCAL)
    await logins.finish_by_key(here, proof(private, logins.begin(here), shown=b"", server=""))
    assert logins.login_of(here).caller.name == "anna"
    with pytest.raises(ServiceError, match="wrong, unknown"):
        await logins.finish_by_token(here, "a.b.c")


async def test_a_session_token_is_as_good_as_the_login(logins, keys, private, clock):
    here = encrypted()
    login = await logins.finish_by_key(here, proof(private, logins.begin(here)))
    token = logins.tokens.give(login)
    identify = Identifier(Tls(), logins)

    def caller(identity, shown=token):
        metadata = ((SESSION_KEY, shown),)
        context = SimpleNamespace(identity=lambda: identity, invocation_metadata=lambda: metadata)
        return str(identify(context))

    assert caller(encrypted("ipv4:10.0.0.7:999")) == "user anna"
    for identity, shown in (
        (encrypted("ipv4:10.0.0.8:999"), token),
        (Identity("ipv4:10.0.0.7:999"), token),
        (encrypted(), token[:-1]),
        (encrypted(), ""),
    ):
        with pytest.raises(ServiceError, match="does not hold"):
            caller(identity, shown)
    del keys["laptop"]
    with pytest.raises(ServiceError, match="does not hold"):
        caller(encrypted())


async def test_a_stranger_is_who_has_proved_nothing(logins, keys, private):
    identify, here, by_session = Identifier(Tls(), logins), encrypted(), encrypted()
    assert identify.is_stranger(here)
    login = await logins.finish_by_key(here, proof(private, logins.begin(here)))
    assert not identify.is_stranger(here)
    assert not identify.is_stranger(encrypted("ipv4:10.9.0.1:1"))  # A member.
    for token, is_stranger in (("wrong", True), (logins.tokens.give(login), False)):
        metadata = ((SESSION_KEY, token),)
        context = SimpleNamespace(identity=lambda: by_session, invocation_metadata=lambda: metadata)  # noqa: B023
        with suppress(ServiceError):
            identify(context)
        assert identify.is_stranger(by_session) is is_stranger
    assert not identify.has_lost_proof(by_session)
    del keys["laptop"]
    assert identify.is_stranger(here)
    # The connection of a login ends, that of a session token is one of a stranger again.
    assert identify.is_stranger(by_session)
    assert identify.has_lost_proof(by_session)
    assert not identify.has_lost_proof(here)


async def test_a_session_token_proves_who_is_there_only_while_it_is_kept(logins, private):
    identify, here = Identifier(Tls(), logins), encrypted()
    login = await logins.finish_by_key(here, proof(private, logins.begin(here)))

    def shown(token):
        by_session, metadata = encrypted(), ((SESSION_KEY, token),)
        identify(SimpleNamespace(identity=lambda: by_session, invocation_metadata=lambda: metadata))
        return by_session

    token = logins.tokens.give(login)
    forgotten = shown(token)
    logins.tokens.forget(token)
    crowded_out = shown(logins.tokens.give(login))
    for _ in range(TOKENS_OF_USER_MAX - 1):
        logins.tokens.give(login)
    assert not identify.is_stranger(crowded_out)
    logins.tokens.give(login)
    for each in (forgotten, crowded_out):
        assert identify.is_stranger(each)
        assert identify.has_lost_proof(each)
    assert not identify.is_stranger(here)


async def test_of_who_has_lost_a_proof_the_server_is_told_again():
    settings = SimpleNamespace(openid_issuer="", insecure=False)
    identities = Identities(settings, Machine(), None, {}.get)
    told = []
    server = SimpleNamespace(end_connections=lambda *_: 0, ask_again=told.append)
    identities.start(server)
    await identities.turn()
    await identities.stop()
    here = Identity(FAR)
    for holds in (True, False):
        note_proof(here, lambda: holds)  # noqa: B023
        assert told[-1](here) is not holds


def delegation(private, holder, clock, **changed):
    entry = rules.AccessEntry(
        decision=rules.ACCESS_DECISION_ALLOW,
        resource=access.RESOURCE_TOPIC,
        pattern=rules.NAME_PATTERN_LITERAL,
        name="orders",
        actions=[access.ACTION_SUBSCRIBE],
        source_networks=changed.pop("networks", ()),
    )
    terms = DelegationTerms(
        credential_id=changed.pop("credential_id", "laptop"),
        public_key=holder.public_key().public_bytes_raw(),
        entries=[entry] * changed.pop("count", 1),
    )
    terms.expire_time.FromMilliseconds(changed.pop("ends_ms", clock.ms + 5000))
    assert not changed
    stated = terms.SerializeToString()
    return Delegation(terms=stated, signature=private.sign(PREFIX + stated))


async def test_a_delegated_key_is_the_user_for_less(logins, keys, private, clock):
    holder, here = Ed25519PrivateKey.generate(), encrypted()

    def shown(signer, delegation):
        made = proof(signer, logins.begin(here))
        made.delegation.CopyFrom(delegation)
        return made

    given = delegation(private, holder, clock)
    login = await logins.finish_by_key(here, shown(holder, given))
    assert str(login.caller) == "user anna by delegation"
    assert login.ends_ms == clock.ms + 5000
    asked = (access.ACTION_SUBSCRIBE, access.RESOURCE_TOPIC)
    book = RuleBook(super_users=frozenset({"anna"}))
    for caller, wanted in (
        (login.caller, [True, False]),
        (Caller(CallerKind.USER, FAR, "anna"), [True, True]),
        # What the user may not do, its delegation may not.
        (replace(login.caller, name="ben"), None),
    ):
        rights = book.rights_of(caller)
        assert (rights and [rights.allows(*asked, name) for name in ("orders", "pay")]) == wanted
    stranger = Ed25519PrivateKey.generate()
    longest = clock.ms + DELEGATION_MS_MAX
    for wrong in (
        shown(private, given),
        shown(stranger, given),
        shown(holder, delegation(stranger, holder, clock)),
        shown(holder, delegation(private, holder, clock, credential_id="phone")),
        shown(holder, delegation(private, holder, clock, ends_ms=clock.ms)),
        shown(holder, delegation(private, holder, clock, ends_ms=longest + 1)),
        shown(holder, delegation(private, holder, clock, count=1001)),
        shown(holder, delegation(private, holder, clock, networks=["10.0.0.1/8"])),
        shown(holder, Delegation(terms=given.terms + b" ", signature=given.signature)),
        shown(holder, Delegation(terms=b" ", signature=private.sign(PREFIX + b" "))),
    ):
        assert "wrong, unknown, expired" in await refused(logins, here, wrong)
    away = delegation(private, holder, clock, ends_ms=longest, networks=["192.168.0.0/16"])
    login = await logins.finish_by_key(here, shown(holder, away))
    assert login.ends_ms == clock.ms + LOGIN_MS_MAX
    assert not login.caller.scope.allows(*asked, "orders")
    del keys["laptop"]
    assert logins.has_ended(here)
    assert "wrong, unknown" in await refused(logins, here, shown(holder, given))


async def test_session_tokens_are_bounded(logins, private):
    here = encrypted()
    login = await logins.finish_by_key(here, proof(private, logins.begin(here)))
    tokens = [logins.tokens.give(login) for _ in range(102)]
    assert len(set(tokens)) == 102
    held = [logins.tokens.login_of(each, FAR) is not None for each in tokens]
    assert held == [False] * 2 + [True] * 100


async def test_a_connection_knows_its_renewed_login_however_many_others_its_user_has(
    logins, private, keys, clock
):
    kept, here = keys["laptop"], encrypted()
    keys["laptop"] = kept._replace(ends_ms=clock.ms + 5)
    keys["desk"] = kept._replace(ends_ms=clock.ms + 5000)
    first = await logins.finish_by_key(here, proof(private, logins.begin(here)))
    signed = proof(private, logins.begin(here), credential_id="desk")
    renewed = await logins.finish_by_key(here, signed)
    logins.tokens.give(renewed)
    assert logins.proved_until_ms(first.caller, encrypted()) == renewed.ends_ms
    others = replace(renewed, caller=replace(renewed.caller, groups=("ops",)))
    for _ in range(TOKENS_OF_USER_MAX):
        logins.tokens.give(others)
    assert logins.proved_until_ms(first.caller, here) == renewed.ends_ms
    assert logins.proved_until_ms(first.caller, encrypted()) == first.ends_ms
