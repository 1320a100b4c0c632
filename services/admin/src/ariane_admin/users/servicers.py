"""``UserService`` and ``AccessPolicyService``: users, and what they may do."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from grpc import aio

from ariane.admin.v1 import access_policy_service_pb2 as policy_pb
from ariane.admin.v1 import user_service_pb2 as user_pb
from ariane.admin.v1.access_policy_service_pb2_grpc import AccessPolicyServiceServicer
from ariane.admin.v1.user_service_pb2_grpc import UserServiceServicer
from ariane.common.v1 import access_rules_pb2 as rules
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_admin.servicers.times import milliseconds_in
from ariane_admin.users.credential_store import CredentialStore
from ariane_admin.users.giving import check_given, check_may_touch
from ariane_admin.users.policy_check import (
    GRANTED_ACTIONS,
    ROLE_PREFIX,
    check_description,
    check_entries,
    check_roles,
    check_subject,
    check_user_name,
    checked_credential,
)
from ariane_admin.users.processes import AskedProcesses
from ariane_admin.users.store import UserStore
from ariane_admin.users.suggestion import least_entries
from ariane_servicekit import PageRequest, ServiceError, field_invalid, take_page
from ariane_servicekit.database import Database
from ariane_servicekit.rpc.calls import current_call
from ariane_servicekit.security.caller import Caller, CallerKind
from ariane_servicekit.security.identity.logins import is_private
from ariane_servicekit.security.rights.explained import decide
from ariane_servicekit.security.rules.rule_book import RuleBook

_Context = aio.ServicerContext[Any, Any]

_KINDS = frozenset({rules.USER_KIND_NORMAL, rules.USER_KIND_SUPER})


class UserServicer(UserServiceServicer):
    """Translates questions about users, and their changes.

    Args:
        store: The users.
        credentials: What they prove their names by.
        database: The database, whose threads read and write.
        changed: Called after each change, so that processes get it at once.
        insecure: Whether secrets are taken in plain text from other machines.
    """

    def __init__(
        self,
        store: UserStore,
        credentials: CredentialStore,
        database: Database,
        changed: Callable[[], None],
        *,
        insecure: bool = False,
    ) -> None:
        self._insecure = insecure
        self._store = store
        self._credentials = credentials
        self._database = database
        self._changed = changed

    async def before(self, method: str, request: Any) -> user_pb.User | None:
        """The user before a change."""
        if not isinstance(request.user, str):
            return None
        return await self._database.call(self._store.user, request.user)

    async def CreateUser(
        self, request: user_pb.CreateUserRequest, context: _Context
    ) -> user_pb.CreateUserResponse:
        """Create a user."""
        wanted = request.user
        kind = wanted.kind or rules.USER_KIND_NORMAL
        _check_kind(kind)
        check_may_touch(kind, wanted.user)
        roles = check_roles(wanted.roles)
        await self._check_roles((), roles)
        user = user_pb.User(
            user=check_user_name(wanted.user, "user.user"),
            kind=kind,
            enabled=wanted.enabled,
            description=check_description(wanted.description),
            roles=roles,
        )
        created = await self._database.call(self._store.create_user, user)
        self._changed()
        return user_pb.CreateUserResponse(user=created)

    async def GetUser(
        self, request: user_pb.GetUserRequest, context: _Context
    ) -> user_pb.GetUserResponse:
        """Read a user."""
        user = await self._database.call(self._store.user, request.user)
        return user_pb.GetUserResponse(user=user)

    async def ListUsers(
        self, request: user_pb.ListUsersRequest, context: _Context
    ) -> user_pb.ListUsersResponse:
        """List users by name."""
        page = PageRequest.of(
            page_size=request.page_size,
            page_token=request.page_token,
            scope="users",
            kinds=(str,),
        )
        after = "" if page.last is None else str(page.last[0])
        found = await self._database.call(self._store.users, after=after, limit=page.limit + 1)
        taken = page.page_of(found, lambda user: (user.user,))
        return user_pb.ListUsersResponse(users=taken.entries, next_page_token=taken.next_page_token)

    async def UpdateUser(
        self, request: user_pb.UpdateUserRequest, context: _Context
    ) -> user_pb.UpdateUserResponse:
        """Change a user."""
        present = await self._check_may_change(request.user)
        known_version = request.known_version
        values: dict[str, Any] = {}
        if request.kind:
            _check_kind(request.kind)
            check_may_touch(request.kind, request.user)
            values["kind"] = int(request.kind)
        if request.HasField("enabled"):
            values["enabled"] = request.enabled
        if request.HasField("description"):
            values["description"] = check_description(request.description)
        if request.HasField("roles"):
            roles = check_roles(request.roles.roles)
            values["roles"] = json.dumps(roles)
            await self._check_roles(present.roles, roles)
            # What was compared is what is replaced.
            known_version = known_version or present.version
        user = await self._database.call(
            self._store.update_user, request.user, known_version, values
        )
        self._changed()
        return user_pb.UpdateUserResponse(user=user)

    async def DeleteUser(
        self, request: user_pb.DeleteUserRequest, context: _Context
    ) -> user_pb.DeleteUserResponse:
        """Delete a user."""
        present = await self._check_may_change(request.user)
        # Whoever makes the user again makes it without its denials: they go as if taken away.
        policy = await self._database.call(self._store.policy, request.user)
        check_given(policy.entries, ())
        await self._check_roles(present.roles, ())
        await self._database.call(self._store.delete_user, request.user)
        self._changed()
        return user_pb.DeleteUserResponse()

    async def CreateCredential(
        self, request: user_pb.CreateCredentialRequest, context: _Context
    ) -> user_pb.CreateCredentialResponse:
        """Create a credential."""
        await self._check_may_change(request.user)
        wanted = checked_credential(request.credential, request.secret)
        if request.secret and not self._insecure:
            _check_secret_may_travel()
        expire_ms = milliseconds_in(request.credential, "expire_time")
        created = await self._database.call(
            self._credentials.create, request.user, wanted, request.secret, expire_ms
        )
        self._changed()
        return user_pb.CreateCredentialResponse(credential=created)

    async def ListCredentials(
        self, request: user_pb.ListCredentialsRequest, context: _Context
    ) -> user_pb.ListCredentialsResponse:
        """List the credentials of a user."""
        page = take_page(
            await self._database.call(self._credentials.of_user, request.user),
            lambda each: (each.create_time.ToMilliseconds(), each.credential_id),
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"credentials:{request.user}",
        )
        return user_pb.ListCredentialsResponse(
            credentials=page.entries, next_page_token=page.next_page_token
        )

    async def DeleteCredential(
        self, request: user_pb.DeleteCredentialRequest, context: _Context
    ) -> user_pb.DeleteCredentialResponse:
        """Delete a credential."""
        await self._check_may_change(request.user)
        known = await self._database.call(
            self._credentials.delete, request.user, request.credential_id
        )
        self._changed()
        return user_pb.DeleteCredentialResponse(known=known)

    async def _check_may_change(self, user: str) -> user_pb.User:
        """Return a user; refuse to touch a super user to callers who are none.

        Raises:
            ServiceError: USER_NOT_FOUND, ACCESS_DENIED.
        """
        present = await self._database.call(self._store.user, user)
        check_may_touch(present.kind, user)
        return present

    async def _check_roles(self, before: Iterable[str], after: Iterable[str]) -> None:
        """Refuse roles that give a user more than the caller may do.

        Raises:
            ServiceError: ACCESS_DENIED.
        """
        for roles, has in ((set(after) - set(before), True), (set(before) - set(after), False)):
            for role in sorted(roles):
                policy = await self._database.call(self._store.policy, f"{ROLE_PREFIX}{role}")
                old, new = ((), policy.entries) if has else (policy.entries, ())
                check_given(old, new)


class AccessPolicyServicer(AccessPolicyServiceServicer):
    """Translates questions about policies, and their changes.

    Args:
        store: The policies.
        database: The database, whose threads read and write.
        changed: Called after each change, so that processes get it at once.
        processes: All processes, which remember what users did.
    """

    def __init__(
        self,
        store: UserStore,
        database: Database,
        changed: Callable[[], None],
        processes: AskedProcesses,
    ) -> None:
        self._processes = processes
        self._store = store
        self._database = database
        self._changed = changed

    async def before(
        self, method: str, request: policy_pb.UpdateAccessPolicyRequest
    ) -> policy_pb.AccessPolicy:
        """The policy before a change."""
        return await self._database.call(self._store.policy, request.policy.user)

    async def GetAccessPolicy(
        self, request: policy_pb.GetAccessPolicyRequest, context: _Context
    ) -> policy_pb.GetAccessPolicyResponse:
        """Read a policy."""
        policy = await self._database.call(self._store.policy, request.user)
        return policy_pb.GetAccessPolicyResponse(policy=policy)

    async def ListAccessPolicies(
        self, request: policy_pb.ListAccessPoliciesRequest, context: _Context
    ) -> policy_pb.ListAccessPoliciesResponse:
        """List policies that are not empty."""
        page = PageRequest.of(
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"policies:{request.resource}:{request.name}",
            kinds=(str,),
        )
        after = "" if page.last is None else str(page.last[0])
        found: list[policy_pb.AccessPolicy] = []
        while len(found) <= page.limit:
            some = await self._database.call(
                self._store.policies, after=after, limit=page.limit + 1
            )
            found += (policy for policy in some if _concerns(policy, request))
            if len(some) <= page.limit:
                break
            after = some[-1].user
        taken = page.page_of(found[: page.limit + 1], lambda policy: (policy.user,))
        return policy_pb.ListAccessPoliciesResponse(
            policies=taken.entries, next_page_token=taken.next_page_token
        )

    async def UpdateAccessPolicy(
        self, request: policy_pb.UpdateAccessPolicyRequest, context: _Context
    ) -> policy_pb.UpdateAccessPolicyResponse:
        """Replace a policy."""
        subject = check_subject(request.policy.user)
        check_entries(request.policy.entries)
        present = await self._database.call(self._store.policy, subject)
        check_given(present.entries, request.policy.entries)
        # What was compared is what is replaced.
        known_version = request.known_version or present.version
        policy = await self._database.call(
            self._store.update_policy, subject, request.policy.entries, known_version
        )
        self._changed()
        return policy_pb.UpdateAccessPolicyResponse(policy=policy)

    async def CheckAccess(
        self, request: policy_pb.CheckAccessRequest, context: _Context
    ) -> policy_pb.CheckAccessResponse:
        """Tell what would be decided, and by which entry."""
        if request.action not in GRANTED_ACTIONS or not request.resource:
            raise field_invalid("action", "and resource must be some that can be granted")
        await self._database.call(self._store.user, request.user)
        book = RuleBook(await self._database.call(self._store.rules))
        caller = Caller(CallerKind.USER, _peer(request.source_address), request.user)
        asked = (request.action, request.resource, request.name)
        rights = book.rights_of(caller)
        allowed = rights is not None and rights.allows(*asked)
        entry = None
        if rights is not None and not book.is_super(request.user):
            entry = decide(book.entries_of(caller), *asked).entry
        return policy_pb.CheckAccessResponse(
            decision=rules.ACCESS_DECISION_ALLOW if allowed else rules.ACCESS_DECISION_DENY,
            entry=entry,
        )

    async def SuggestAccess(
        self, request: policy_pb.SuggestAccessRequest, context: _Context
    ) -> policy_pb.SuggestAccessResponse:
        """Suggest the least policy."""
        check_user_name(request.user)
        found = await self._processes.uses_of(request.user)
        return policy_pb.SuggestAccessResponse(
            entries=least_entries(found.uses),
            refused=[use for use in found.uses if use.refused_count],
            silent_addresses=found.silent,
        )

    async def ExplainRefusal(
        self, request: policy_pb.ExplainRefusalRequest, context: _Context
    ) -> policy_pb.ExplainRefusalResponse:
        """Tell why a call was refused."""
        if not request.request_id:
            raise field_invalid("request_id", "is required")
        found = await self._processes.refusal(request.request_id)
        return policy_pb.ExplainRefusalResponse(
            refusal=found.refusal, address=found.address, silent_addresses=found.silent
        )


def _check_kind(kind: int) -> None:
    if kind not in _KINDS:
        raise field_invalid("kind", "must be normal or super")


def _check_secret_may_travel() -> None:
    """Refuse a secret that came in plain text from another machine.

    Raises:
        ServiceError: CREDENTIALS_INVALID.
    """
    call = current_call()
    if call is not None and not is_private(call.context.identity()):  # type: ignore[attr-defined]
        raise ServiceError(
            ErrorReason.ERROR_REASON_CREDENTIALS_INVALID, "secrets are taken over TLS only"
        )


def _concerns(policy: policy_pb.AccessPolicy, request: policy_pb.ListAccessPoliciesRequest) -> bool:
    return any(
        (not request.resource or entry.resource == request.resource)
        and (not request.name or _fits(entry, request.name))
        for entry in policy.entries
    )


def _fits(entry: rules.AccessEntry, name: str) -> bool:
    if entry.pattern == rules.NAME_PATTERN_LITERAL:
        return entry.name == name
    return name.startswith(entry.name)


def _peer(address: str) -> str:
    """An address in gRPC's form for peers."""
    if ":" in address:
        return f"ipv6:[{address}]:0"
    return f"ipv4:{address}:0" if address else ""
