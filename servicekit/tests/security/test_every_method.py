"""Every method of every service, made from the descriptors: who comes in, and who does not.

One process serves the whole contract by servicers that only note that they were reached. A method
is reached by callers with its rights, and by nobody else. Those that every process has of itself
are reached if anything but their rights is what they are refused for.
"""

from __future__ import annotations

import asyncio
import importlib
import re
from pathlib import Path

import grpc
import pytest
from google.protobuf.message_factory import GetMessageClass
from google.rpc.error_details_pb2 import ErrorInfo

import ariane_wire
from ariane.common.v1 import access_pb2 as access
from ariane_servicekit import Machine, RpcService, ServiceSettings, serving
from ariane_servicekit.security.caller import MemberKind
from ariane_servicekit.security.rules.method_rules import MethodRule, access_rule, method_rules
from ariane_testkit.access_rules import telling
from ariane_testkit.contract import contract_services
from ariane_testkit.identities import IDENTITY_KEY, as_member, as_user, stated_identity

BUILT_IN = {f"ariane.common.v1.{name}Service" for name in ("Access", "Login", "Process")}
"""Served by every process, by its own servicers."""

ALL = list(contract_services())
SERVICES = [each for each in ALL if each.full_name not in BUILT_IN]
METHODS = {f"/{s.full_name}/{m.name}": m for s in ALL for m in s.methods}
RULES = method_rules(ALL, asked=METHODS)
REFUSALS = {"ACCESS_DENIED", "CREDENTIALS_INVALID"}
ALL_RIGHTS = (
    f"allow PUBLISH,SUBSCRIBE,CREATE,UPDATE,DELETE,GET {kind} *"
    for kind in ("topic", "group", "filter", "user", "sink", "cluster")
)
EVERYTHING = "; ".join(ALL_RIGHTS)
NAME = "thing"


class Contract:
    """Serves every service; notes which methods were reached."""

    def __init__(self) -> None:
        self.error_rules = {}
        self.open_while_draining = ()
        self.reached = []
        self.rpc_services = [self._service(each) for each in SERVICES]

    def _service(self, descriptor):
        module = descriptor.file.name.removesuffix(".proto").replace("/", ".")
        generated = importlib.import_module(f"{module}_pb2_grpc")
        methods = {each.name: self._noting(each) for each in descriptor.methods}
        servicer = type(descriptor.name, (), methods)()
        add = getattr(generated, f"add_{descriptor.name}Servicer_to_server")
        return RpcService(descriptor, add, servicer, asked=frozenset(methods))

    def _noting(self, method):
        name = f"/{method.containing_service.full_name}/{method.name}"
        answer = GetMessageClass(method.output_type)

        async def unary(_servicer, _request, _context):
            self.reached.append(name)
            return answer()

        async def stream(_servicer, request, _context):
            if method.client_streaming:
                # As a servicer that acts on all that it was sent.
                async for _ in request:
                    pass
            self.reached.append(name)
            yield answer()

        return stream if method.server_streaming else unary

    async def recover(self, _address):
        """Nothing to load."""

    async def serve_started(self, _address):
        """Nothing to start."""

    async def drain(self):
        """Nothing to end."""

    async def stop(self):
        """Nothing to close."""


class ContractSettings(ServiceSettings):
    """The process that serves the contract."""

    service_name = "contract"


def filled(method):
    """Requests with a name wherever the method's rule looks for one; of a stream, of each kind."""
    requests = {}
    for each in access_rule(method).requirements:
        if each.match not in {access.ACCESS_MATCH_SHOWN, access.ACCESS_MATCH_TOUCHED}:
            for path in each.fields:
                kind = path.split(".")[0] if method.client_streaming else ""
                request = requests.setdefault(kind, GetMessageClass(method.input_type)())
                _fill(request, path.split("."))
    return [*requests.values()] or [GetMessageClass(method.input_type)()]


def _fill(message, path):
    name, *rest = path
    field = message.DESCRIPTOR.fields_by_name[name]
    if rest:
        inner = getattr(message, name)
        if not field.is_repeated:
            _fill(inner, rest)
        else:
            _fill(inner[0] if len(inner) else inner.add(), rest)
    elif field.is_repeated:
        getattr(message, name).append(NAME)
    else:
        setattr(message, name, NAME)


@pytest.fixture(scope="module")
def app():
    return Contract()


@pytest.fixture
async def call(app, details_of):
    """Call a method as somebody; the reason of a refusal, or None, and whether it was reached."""
    settings = ContractSettings(access="closed", super_users=("root",))

    async def call(name, metadata):
        method = METHODS[name]
        is_built_in = method.containing_service.full_name in BUILT_IN
        streaming = "stream" if method.client_streaming else "unary"
        answering = "stream" if method.server_streaming else "unary"
        make = getattr(channel, f"{streaming}_{answering}")
        stub = make(name, lambda request: request.SerializeToString(), bytes)
        app.reached.clear()
        try:
            async with asyncio.timeout(20):
                if method.client_streaming:
                    async for _ in stub(iter(filled(method)), metadata=metadata):
                        pass
                elif method.server_streaming:
                    async for _ in stub(*filled(method), metadata=metadata):
                        pass
                else:
                    await stub(*filled(method), metadata=metadata)
        except grpc.aio.AioRpcError as error:
            [info] = details_of(error)[ErrorInfo]
            if not is_built_in or info.reason in REFUSALS:
                return info.reason, list(app.reached)
        return None, [name] if is_built_in else list(app.reached)

    async with (
        serving(settings, lambda *_: app, Machine(identify=stated_identity)) as address,
        ariane_wire.insecure_channel(str(address)) as channel,
        telling(channel) as admin,
    ):
        call.admin = admin
        yield call


def test_every_service_of_the_contract_is_in_the_table():
    """Whatever is added to the contract has its rows here, or is not served."""
    assert {name.rpartition("/")[0][1:] for name in METHODS} >= BUILT_IN
    assert METHODS.keys() == RULES.keys()
    files = (Path(__file__).parents[3] / "protos" / "ariane").rglob("*.proto")
    stated = sum(len(re.findall(r"^ *rpc ", file.read_text(), re.MULTILINE)) for file in files)
    assert len(METHODS) == stated


def needing(rule: MethodRule) -> bool:
    """Whether users need rights for the method, beyond being known."""
    return bool(rule.needs)


async def test_nobody_known_reaches_nothing(call):
    opened = set()
    for name in METHODS:
        for metadata in ((), ((IDENTITY_KEY, "wrong"),), as_user("stranger")):
            reason, reached = await call(name, metadata)
            expected = "ACCESS_DENIED" if RULES[name].is_for_members else "CREDENTIALS_INVALID"
            if not metadata or metadata[0][1] == "wrong":
                expected = "CREDENTIALS_INVALID"
            if RULES[name].is_open:
                assert (name, reason, reached) == (name, None, [name])
                opened.add(name.rpartition("/")[0])
                continue
            assert (name, reason, reached) == (name, expected, [])
    assert opened == {"/ariane.common.v1.LoginService"}


async def test_users_reach_what_they_have_the_right_for(call):
    await call.admin.tell("anna: ", f"olga: {EVERYTHING}")
    for name, rule in RULES.items():
        reason, reached = await call(name, as_user("anna"))
        barred = rule.is_for_members or needing(rule)
        assert (name, reason, reached) == (
            (name, "ACCESS_DENIED", []) if barred else (name, None, [name])
        )
        reason, reached = await call(name, as_user("olga"))
        barred = rule.is_for_members
        assert (name, reason, reached) == (
            (name, "ACCESS_DENIED", []) if barred else (name, None, [name])
        )


async def test_a_denial_of_any_need_bars_from_a_method(call):
    denials = {}
    for rule in RULES.values():
        for need in rule.needs:
            kind = (need.action, need.resource)
            denials[f"deny {word(kind)} {'' if need.names is None else NAME}".strip()] = kind
    for denial, denied in denials.items():
        await call.admin.tell(f"olga: {EVERYTHING}; {denial}")
        for name, rule in RULES.items():
            if any((need.action, need.resource) == denied for need in rule.needs):
                assert await call(name, as_user("olga")) == ("ACCESS_DENIED", []), (name, denial)


def word(need):
    action = access.Action.Name(need[0]).removeprefix("ACTION_")
    return f"{action} {access.Resource.Name(need[1]).removeprefix('RESOURCE_').lower()}"


async def test_each_need_is_needed_by_itself(call):
    """Whoever lacks one of several rights is refused, whichever it is."""
    several = 0
    for name, rule in RULES.items():
        kinds = {(need.action, need.resource) for need in rule.needs}
        for missing in kinds if len(kinds) > 1 else ():
            several += 1
            granted = "; ".join(f"allow {word(kind)} *" for kind in kinds - {missing})
            await call.admin.tell(f"olga: {granted}")
            assert await call(name, as_user("olga")) == ("ACCESS_DENIED", []), (name, missing)
    assert several > 20


async def test_members_reach_their_methods_only(call):
    for name, rule in RULES.items():
        for kind in MemberKind:
            reason, reached = await call(name, as_member(kind, NAME))
            admitted = rule.is_open or (kind in rule.members and not rule.own_process)
            assert (name, kind, reason, reached) == (
                (name, kind, None, [name]) if admitted else (name, kind, "ACCESS_DENIED", [])
            )


async def test_members_speak_for_themselves_only(call):
    own = {name: rule for name, rule in RULES.items() if rule.own_names and not rule.own_process}
    assert len(own) == 3
    for name, rule in own.items():
        for kind in rule.members:
            assert await call(name, as_member(kind, "other")) == ("ACCESS_DENIED", [])
