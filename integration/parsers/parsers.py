"""Parsers of foreign bytes: what each may raise, and what holds of what it takes."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import jwt
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from google.protobuf.message import DecodeError

from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.common.v1 import access_pb2 as access
from ariane.common.v1 import access_rules_pb2 as rules
from ariane.common.v1.login_service_pb2 import Delegation, DelegationTerms
from ariane.common.v1.message_pb2 import Message
from ariane_admin.compat.rocketmq_acl import imported
from ariane_admin.compat.rocketmq_keys import keys_of
from ariane_admin.errors import CommandFailed
from ariane_admin.messages.message_traces import STEPS_MAX, life_of, steps_about
from ariane_admin.servicers.message.messages import trace_of
from ariane_admin.users.policy_check import check_entries
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.in_hand.receipts import (
    Receipt,
    decode_handle,
    decode_receipt,
    encode_handle,
    encode_receipt,
)
from ariane_broker.rpc.translation import append_wire
from ariane_gateway.access_keys import AccessKey
from ariane_gateway.rpc.signature import SignatureRefused, signer_of
from ariane_record.decoding.columns import decode_columns
from ariane_record.errors import RecordError
from ariane_record.single.message import RecordFields, encode_record
from ariane_record.single.message_trace import TraceKind, TraceStep, encode_steps
from ariane_record.single.properties import decode_properties
from ariane_record.single.view import iter_messages
from ariane_servicekit import ServiceError
from ariane_servicekit.configuration.openid_settings import OpenIdSettings
from ariane_servicekit.security.caller import Caller, CallerKind, MemberKind, address_of_peer
from ariane_servicekit.security.identity.delegations import PREFIX, Scopes, delegated
from ariane_servicekit.security.identity.identify import ACTING_KEY, acted_for, acting_text
from ariane_servicekit.security.identity.logins import PublicKey
from ariane_servicekit.security.identity.openid import OpenIdVerifier
from ariane_servicekit.security.rights.covering import covers
from ariane_servicekit.security.rights.explained import plain_address
from ariane_servicekit.security.rights.rights import Rights
from ariane_servicekit.security.tls.member_names import MemberName, is_user_word
from ariane_servicekit.security.tls.service_tls import user_rule
from ariane_sql92 import ConditionInvalid, compile_condition
from ariane_storage.state_file import decode_state, encode_state
from ariane_testkit.virtual_clock import VirtualClock
from ariane_wire.protocol.proxy_header import (
    HEAD_OCTETS,
    SIGNATURE,
    ProxyHeaderWrong,
    proxied_client,
    proxy_head,
)
from ariane_wire.transport.peers import peer_text


class Parser(NamedTuple):
    """A parser under foreign bytes."""

    parse: Callable[[bytes], object]
    """Parses; fails if something does not hold of what came out."""
    raises: tuple[type[Exception], ...]
    """What it may raise, and nothing else."""
    seeds: tuple[bytes, ...]
    """What good and bad peers say."""

    def play(self, data: bytes) -> bool:
        """Give it bytes; return whether it took them."""
        try:
            self.parse(data)
        except self.raises:
            return False
        return True


# Tokens: a JSON Web Token as it is, and claims that the issuer has signed.

KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
CLOCK: Final = VirtualClock()


def _fetched(*_: object) -> bytes:
    public = base64.urlsafe_b64encode(KEY.public_key().public_bytes_raw()).rstrip(b"=").decode()
    key = {"kty": "OKP", "crv": "Ed25519", "kid": "k", "alg": "EdDSA", "use": "sig", "x": public}
    return json.dumps({"keys": [key]}).encode()


VERIFIER: Final = OpenIdVerifier(
    OpenIdSettings(
        openid_issuer="https://i",
        openid_audience="a",
        openid_keys_url="https://i/keys",
        openid_groups_claim="groups",
    ),
    CLOCK,
    _fetched,
)
NOW_S: Final = CLOCK.now_ms() // 1000
CLAIMS: Final[Mapping[str, Any]] = {
    "iss": "https://i",
    "aud": "a",
    "sub": "anna",
    "groups": ["etl", "ops"],
    "exp": NOW_S + 600,
    "nbf": NOW_S - 5,
    "iat": NOW_S - 5,
}


def _verify(token: str) -> None:
    caller, ends_ms = asyncio.run(VERIFIER.verify(token, "ipv4:127.0.0.1:1"))
    assert is_user_word(caller.name), caller
    assert ends_ms > CLOCK.now_ms() - 120_000


def parse_token(data: bytes) -> None:
    _verify(data.decode("latin-1"))


def parse_claims(data: bytes) -> None:
    signing = b".".join(
        base64.urlsafe_b64encode(part).rstrip(b"=")
        for part in (b'{"alg":"EdDSA","kid":"k","typ":"JWT"}', data)
    )
    signature = base64.urlsafe_b64encode(KEY.sign(signing)).rstrip(b"=")
    _verify((signing + b"." + signature).decode())


def parse_delegation(data: bytes) -> None:
    """Terms that the credential's key has signed."""
    shown = Delegation(terms=data, signature=KEY.sign(PREFIX + data))
    signer = PublicKey("anna", KEY.public_key().public_bytes_raw())
    peer, now_ms = "ipv4:127.0.0.1:1", CLOCK.now_ms()
    found = delegated(shown, "laptop", signer, peer, now_ms=now_ms, scopes=Scopes())
    assert CLOCK.now_ms() < found.ends_ms
    found.scope.allows(access.ACTION_GET, access.RESOURCE_TOPIC, "t")


def _terms() -> bytes:
    terms = DelegationTerms(credential_id="laptop", public_key=bytes(32))
    terms.expire_time.FromMilliseconds(CLOCK.now_ms() + 60_000)
    terms.entries.add(
        decision=rules.ACCESS_DECISION_ALLOW,
        resource=access.RESOURCE_TOPIC,
        pattern=rules.NAME_PATTERN_PREFIX,
        name="order-",
        actions=[access.ACTION_PUBLISH],
        source_networks=["127.0.0.0/8"],
    )
    return terms.SerializeToString()


# Names in certificates.

RULES_OF_NAMES: Final = tuple(user_rule(each, "main") for each in ("", "spiffe://*/user/{user}"))


def parse_name(data: bytes) -> None:
    uri = data.decode()
    member = MemberName.parse(uri)
    assert member is None or str(member) == uri
    for rule in RULES_OF_NAMES:
        user = rule(uri)
        assert not user or (is_user_word(user) and user in uri)


# Policies: entries of our own, and files of RocketMQ.


def parse_policy(data: bytes) -> None:
    entries = rules.RoleRights.FromString(data).entries
    check_entries(entries)
    rights = Rights(entries)
    for name in ("order-1", "", "%RETRY%g"):
        rights.allows(access.ACTION_PUBLISH, access.RESOURCE_TOPIC, name)
    for entry in entries:
        covers(entries, entry)


def parse_rocketmq(data: bytes) -> None:
    text = data.decode()
    for read in (imported, keys_of):
        try:
            read(text)
        except CommandFailed as error:
            assert "planted" not in str(error)  # noqa: PT017 - whatever else it says.


def parse_signature(data: bytes) -> None:
    authorization, _, date = data.decode("latin-1").partition("\n")
    headers = {"authorization": authorization, "x-mq-date-time": date}
    known = {"anna": AccessKey("anna", "secret")}
    signer = signer_of(headers, known.get, datetime(2026, 11, 29, 14, 30, tzinfo=UTC))
    assert signer.user == "anna"


# Records, blocks and tables.


def parse_records(data: bytes) -> None:
    """Two octets say how many bytes the first record has; the columns and the views agree."""
    first, records = int.from_bytes(data[:2], "big"), data[2:]
    sizes = np.array([first, len(records) - first] if 0 < first < len(records) else [len(records)])
    outcomes: list[Any] = []
    for decode in (_by_column, _by_view):
        try:
            outcomes.append(decode(records, sizes.astype(np.int32)))
        except RecordError:
            outcomes.append(None)
    assert outcomes[0] == outcomes[1], outcomes


def _by_column(records: bytes, sizes: Any) -> list[tuple[str, bytes]]:
    columns = decode_columns(records, sizes)
    return [(each.topic, bytes(each.body)) for each in columns.iter_messages()]


def _by_view(records: bytes, sizes: Any) -> list[tuple[str, bytes]]:
    return [(each.topic, bytes(each.body)) for each in iter_messages(records, sizes)]


def parse_append(data: bytes) -> None:
    """Large requests are cut, and give what Protocol Buffers would."""
    said: list[Any] = []
    for bytes_min in (append_wire.CUT_BYTES_MIN, 0):
        kept, append_wire.CUT_BYTES_MIN = append_wire.CUT_BYTES_MIN, bytes_min
        try:
            request = append_wire.append_request(data)
            said.append([[*request.topics], [*request.trace_parents]])
        except (DecodeError, ServiceError):
            said.append(None)
        finally:
            append_wire.CUT_BYTES_MIN = kept
    assert said[0] == said[1], said


# JSON files, conditions, receipts.


def parse_state(data: bytes) -> None:
    state = decode_state(data)
    assert decode_state(encode_state(state)) == state


def parse_condition(data: bytes) -> None:
    text = data.decode("utf-8", "surrogatepass")
    try:
        compile_condition(text)
    except ConditionInvalid as error:
        assert 0 <= error.position <= len(text)  # noqa: PT017
        raise


SECRET: Final = b"s" * 32


def parse_receipt(data: bytes) -> None:
    assert encode_receipt(decode_receipt(data, "g", SECRET), "g", SECRET) == data


def parse_handle(data: bytes) -> None:
    # Several texts mean one handle: the last character has bits that say nothing.
    receipt = decode_handle(data.decode("latin-1"), "g", SECRET)
    assert decode_handle(encode_handle(receipt, "g", SECRET), "g", SECRET) == receipt


def parse_properties(data: bytes) -> None:
    decode_properties(data)


def _records() -> bytes:
    fields = [
        RecordFields(
            topic="orders", body=b"one", properties={"TAGS": "t", "KEYS": "a b", "UNIQ_KEY": "u"}
        ),
        RecordFields(topic="orders", body=b"two" * 9, properties={}),
    ]
    first, second = (encode_record(each) for each in fields)
    return len(first).to_bytes(2, "big") + first + second


def _requests() -> tuple[bytes, ...]:
    record = encode_record(RecordFields(topic="orders", body=b"one", properties={}))
    size = len(record).to_bytes(4, "little")
    table = send_pb.AppendTable(
        topics=["orders"],
        queue_ids=bytes(4),
        record_counts=b"\1\0\0\0",
        record_sizes=size,
        tag_codes=bytes(4),
        key_counts=b"\0",
    )
    more = send_pb.AppendTable(topics=["bills"], record_counts=b"\1\0\0\0", producer_id=7)
    requests = (
        send_pb.AppendRecordsRequest(table=table, table_records=record, trace_parents=["t"]),
        send_pb.AppendRecordsRequest(table=more, table_records=record),
    )
    return tuple(each.SerializeToString() for each in requests)


RECEIPT: Final = Receipt(QueueKey("orders", 3), 7)
POLICY: Final = rules.RoleRights(
    entries=[
        rules.AccessEntry(
            decision=rules.ACCESS_DECISION_DENY,
            resource=access.RESOURCE_GROUP,
            pattern=rules.NAME_PATTERN_ANY,
            actions=[access.ACTION_SUBSCRIBE, access.ACTION_GET],
            source_networks=["10.0.0.0/8", "::/0"],
        )
    ]
)
PLAIN_ACL: Final = b"""globalWhiteRemoteAddresses: []
accounts:
- {accessKey: anna, secretKey: planted12, admin: false, whiteRemoteAddress: 10.1.*.*,
   defaultTopicPerm: DENY, topicPerms: [a=PUB|SUB, b=DENY], groupPerms: [g=SUB]}
"""
LIST: Final = b"#Subject\nUser:alice CUSTOM Topic:test* PUB,SUB 10.0.0.0/8 ALLOW\n"
CONDITIONS: Final = (
    b"a > 5 AND b = 'it''s' OR c IS NOT NULL",
    b"NOT (a BETWEEN -1 AND 2.5e3) AND b IN ('x', 'y') AND c CONTAINS 'z' -- end",
    b"((((a = TRUE))))",
)
STATES: Final = (
    b'{"offsetTable":{"t@g":{0:12,1:30,-5 : 7}},"x":[1.5,null,"\\u00e4"]}',
    b'{"a":{"1":"2:3"}}',
)

_DATE: Final = "20261129T143000Z"
SIGNED: Final = (
    "MQv2-HMAC-SHA1 Credential=anna, SignedHeaders=x-mq-date-time, Signature="
    f"{hmac.digest(b'secret', _DATE.encode(), 'sha1').hex()}\n{_DATE}"
).encode()


def parse_proxy(data: bytes) -> None:
    """The header of a proxy: whom it names is an address as callers have it, or nobody."""
    head = proxy_head(data[:HEAD_OCTETS])
    client = proxied_client(head, data[HEAD_OCTETS:])
    if client is not None:
        assert not head.is_own
        assert str(plain_address(address_of_peer(peer_text(*client)))) == client[0]


def parse_acting(data: bytes) -> None:
    """Whom a member acts for: what comes out says itself the same way, and is no member."""
    text = data.decode()
    context = SimpleNamespace(invocation_metadata=lambda: ((ACTING_KEY, text),))
    caller = acted_for(ADMIN, context)  # type: ignore[arg-type]  # no more of it is looked at
    assert (caller.kind, caller.acting) == (CallerKind.USER, ADMIN)
    again = SimpleNamespace(invocation_metadata=lambda: ((ACTING_KEY, acting_text(caller)),))
    assert acted_for(ADMIN, again) == caller  # type: ignore[arg-type]


def parse_traces(data: bytes) -> None:
    """What anybody has written of one message: whatever is read can be shown."""
    life = life_of(steps_about(Message(body=data), "ID"))
    assert len(life) <= STEPS_MAX
    for step in life:
        assert step.row()["client"] == trace_of(step).client_id


TRACES: Final = encode_steps(TraceStep(kind, "ID", 1700, "g", "t", "x") for kind in TraceKind)
ADMIN: Final = Caller(CallerKind.MEMBER, "", "a1", member_kind=MemberKind.ADMIN, cluster="main")
_PROXIED: Final = SIGNATURE + bytes((0x21, 0x11, 0, 14)) + bytes(range(10, 22)) + b"\3\0"

PARSERS: Final[Mapping[str, Parser]] = {
    "token": Parser(
        parse_token,
        (ValueError,),
        (jwt.encode(dict(CLAIMS), KEY, "EdDSA", {"kid": "k"}).encode(), b"a.b.c", b"\xff.."),
    ),
    "claims": Parser(parse_claims, (ValueError,), (json.dumps(CLAIMS).encode(), b"[1]", b"{}")),
    "delegation": Parser(parse_delegation, (ValueError,), (_terms(), b"")),
    "name": Parser(
        parse_name,
        (UnicodeDecodeError,),
        (b"ariane://main/broker/broker-a", b"ariane://main/user/anna", b"spiffe://x/user/ben"),
    ),
    "acting": Parser(
        parse_acting,
        (UnicodeDecodeError, ServiceError),
        (b"anna", b"anna ops etl;10.1.2.3", b"anna;2001:db8::1"),
    ),
    "proxy": Parser(
        parse_proxy,
        (ProxyHeaderWrong,),
        (
            _PROXIED,
            SIGNATURE + bytes((0x20, 0, 0, 0)),
            SIGNATURE + bytes((0x21, 0x21, 0, 36)) + bytes(36),
        ),
    ),
    "policy": Parser(parse_policy, (DecodeError, ServiceError), (POLICY.SerializeToString(), b"")),
    "rocketmq": Parser(parse_rocketmq, (UnicodeDecodeError,), (PLAIN_ACL, LIST, b"anna:planted\n")),
    "signature": Parser(
        parse_signature,
        (SignatureRefused,),
        (SIGNED,),
    ),
    "records": Parser(parse_records, (), (_records(), b"")),
    "append": Parser(parse_append, (), _requests()),
    "properties": Parser(parse_properties, (RecordError,), (b"a\x01b\x02c\x01d\x02", b"\x01\x02")),
    "traces": Parser(parse_traces, (), (TRACES, b"Recall\x01-1\x02")),
    "state": Parser(parse_state, (ValueError,), STATES),
    "condition": Parser(parse_condition, (ConditionInvalid, UnicodeDecodeError), CONDITIONS),
    "receipt": Parser(parse_receipt, (ServiceError,), (encode_receipt(RECEIPT, "g", SECRET),)),
    "handle": Parser(
        parse_handle,
        (ServiceError,),
        (encode_handle(RECEIPT._replace(queue_offset=9), "g", SECRET).encode(),),
    ),
}
