"""The gate: whether a call may run, and what of its answer may be seen.

::

    access = open      every call runs; nobody is asked who he is
    access = learn     every call runs; what would be refused is counted and logged
    access = closed    calls that the rules do not allow are refused

It stands in the interceptor, and servicers ask it for the right on what handles touch. Calls that
last are judged again when the rules or the mode change, and end if they would be refused now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from time import monotonic
from typing import Any, Final

from ariane.common.v1 import access_pb2 as access
from ariane.common.v1.access_rules_pb2 import AccessEntry
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.observability.logs import get_logger
from ariane_servicekit.rpc.calls import Call
from ariane_servicekit.security.caller import Caller, CallerKind, MemberKind
from ariane_servicekit.security.gate.access_log import AccessLog
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.gate.own_replies import OwnReplies, ReplyReaders, own_replies
from ariane_servicekit.security.identity.logins import PublicKey
from ariane_servicekit.security.limits.connections import Connections
from ariane_servicekit.security.limits.quotas import Quotas
from ariane_servicekit.security.rights.explained import decide
from ariane_servicekit.security.rights.rights import NAME_LENGTH_MAX, Judge
from ariane_servicekit.security.rules.method_rules import MethodRule, Need
from ariane_servicekit.security.rules.rule_book import RuleBook
from ariane_servicekit.security.rules.shown_lists import cut_to_rights, sees_all, unseal_token
from ariane_servicekit.security.rules.use_ledger import Use, UseLedger
from ariane_servicekit.security.rules.words import action_word, resource_word, words_of

_TOUCHED_MAX: Final = 4
"""Uses of a change that are logged."""

_log = get_logger(__name__)


class Gate:
    """Judges the calls of one process."""

    def __init__(
        self,
        mode: AccessMode,
        now_ms: Callable[[], int],
        *,
        now_s: Callable[[], float] = monotonic,
        own_name: str = "",
        super_users: frozenset[str] = frozenset(),
    ) -> None:
        """Judge by the rules that ``change_rules`` will bring."""
        self.mode = mode
        """How it treats calls without rights. Change it by ``change_mode``."""
        self._now_ms = now_ms
        self.ledger = UseLedger()
        """What was used and refused."""
        self.quotas = Quotas(now_s)
        """What users, topics and addresses may have and do."""
        self.connections = Connections(self.quotas)
        """Those of the process, counted."""
        self._log = AccessLog(self.ledger, now_ms)
        self.own_name = own_name
        """The name of this process among members of its kind, such as ``broker-a``."""
        self.client_caller: Callable[[str], Caller | None] = _nobody
        """Returns who attached the client with an id; None without one."""
        self.proved_until_ms: Callable[[Call], int] = _until_its_end
        """Until when what the caller of a call has proved lasts, if it has an end."""
        self._super_users = super_users
        self._book = RuleBook(super_users=super_users)
        self._holds = True
        self._reply_readers = ReplyReaders(now_ms)
        self._watchers: list[Callable[[], None]] = []

    @property
    def version(self) -> int:
        """The version of the rules; 0 without any."""
        return self._book.version

    def key_of(self, credential_id: str) -> PublicKey | None:
        """Find a key of an enabled user; None if there is none, or the rules are too old."""
        return self._book.key_of(credential_id) if self._holds else None

    def proof_left_s(self, call: Call) -> float:
        """Seconds for which the proof of a caller lasts, if it has an end; 0 or less after it."""
        return (self.proved_until_ms(call) - self._now_ms()) / 1000

    def watch(self, changed: Callable[[], None]) -> None:
        """Have a function called after each change of rules or mode."""
        self._watchers.append(changed)

    def change_mode(self, mode: AccessMode) -> None:
        """Treat calls otherwise from now on."""
        self.mode = mode
        _log.warning("access_changed", access=mode.value)
        self._notify_watchers()

    def change_rules(self, stated: Any) -> None:
        """Judge by other rules from now on.

        Args:
            stated: ``AccessRules``, which must not change any more.
        """
        self._book = RuleBook(stated, self._super_users)
        self.quotas.change(stated.quotas)
        self._holds = True
        _log.info("access_rules_changed", version=self._book.version)
        self._notify_watchers()

    def change_holding(self, *, holds: bool) -> None:
        """Say whether the rules still hold.

        While they do not, only members are served, and super users of the settings.
        """
        if holds != self._holds:
            self._holds = holds
            _log.warning("access_rules_hold" if holds else "access_rules_expired")
            self._notify_watchers()

    def admit(self, call: Call, rule: MethodRule) -> None:
        """Let a call's caller come in, before its request is read.

        Raises:
            ServiceError: CREDENTIALS_INVALID or ACCESS_DENIED.
        """
        if self.mode is AccessMode.OPEN or rule.is_open:
            return
        caller = self._caller_of(call)
        if caller is None:
            return
        if caller.kind is CallerKind.MEMBER:
            if caller.member_kind not in rule.members:
                self._refuse(call, None, f"{caller} does not call this method in its own name")
            elif rule.own_process and caller.name != self.own_name:
                self._refuse(call, None, f"{caller} is not of this process, {self.own_name}")
            else:
                call.is_judged = True
        elif rule.is_for_members:
            self._refuse(call, None, "the method is for members of the cluster")
        elif self._judge_of(caller) is None:
            self._refuse_unknown(call, f"{caller} is not known, or disabled, or the rules are old")
        else:
            call.is_judged = True

    def judge(self, call: Call, rule: MethodRule, request: Any) -> None:
        """Let one request of a call come in that was admitted.

        Raises:
            ServiceError: ACCESS_DENIED, or PAGE_TOKEN_INVALID for one that is not sealed.
        """
        if not call.is_judged or self.mode is AccessMode.OPEN:
            return
        caller = call.caller
        if caller.kind is CallerKind.MEMBER:
            self._check_own_names(call, rule, request)
            return
        rights = self._rights_of(call)
        if rights is None:
            return
        if rule.shown is not None and self.mode is AccessMode.CLOSED and not sees_all(rights):
            unseal_token(request)
        if not self._reads_own_replies(call, caller, rights, rule, request):
            for need in rule.needs:
                self._check(call, caller, rights, need, request)
        for client_id in () if rule.own_client is None else rule.own_client(request):
            self.check_own(call, self.client_caller(client_id))

    def _check_own_names(self, call: Call, rule: MethodRule, request: Any) -> None:
        for names in rule.own_names:
            for name in names(request):
                if name and name != call.caller.name:
                    self._refuse(call, None, f"{call.caller} may not speak for {name}")

    def _reads_own_replies(
        self, call: Call, caller: Caller, rights: Judge, rule: MethodRule, request: Any
    ) -> bool:
        """Whether a request reads replies to its own client only: who sees the topic may do that.

        Raises:
            ServiceError: ACCESS_DENIED.
        """
        replies = own_replies(request) if rule.own_client is not None else None
        if replies is None:
            return False
        self.check_own(call, self.client_caller(replies.client_id))
        if not self._reply_readers.admits(caller.name, replies.client_id):
            return False
        for use in _uses_of_replies(replies, caller.name):
            self._check_one(call, caller, rights, use)
        return True

    def require(self, call: Call, action: int, resource: int, name: str) -> None:
        """Ask for a right on what a handle of an admitted call touches.

        Raises:
            ServiceError: ACCESS_DENIED.
        """
        if not call.is_judged:
            return
        caller = call.caller
        if caller.kind is CallerKind.MEMBER:
            return
        rights = self._rights_of(call)
        if rights is not None:
            self._check_one(call, caller, rights, Use(caller.name, action, resource, name))

    def require_some(self, call: Call, action: int, resource: int) -> None:
        """Ask for a right on whatever name, where an admitted call names none.

        Raises:
            ServiceError: ACCESS_DENIED.
        """
        caller = call.caller
        if not call.is_judged or caller.kind is CallerKind.MEMBER:
            return
        rights = self._rights_of(call)
        if rights is not None and not rights.allows_some(action, resource):
            what = f"{action_word(action)} any {resource_word(resource)}"
            self._refuse(call, None, f"{caller} may not {what}")

    def require_delegated(self, call: Call, action: int, resource: int, name: str) -> None:
        """Ask for a right on what the user owns: only a delegation can lack it.

        Raises:
            ServiceError: ACCESS_DENIED.
        """
        caller = call.caller
        if call.is_judged and caller.scope is not None:
            self._check_one(call, caller, caller.scope, Use(caller.name, action, resource, name))

    def allows(self, caller: Caller | None, action: int, resource: int, name: str | None) -> bool:
        """Whether a user may do it now (None: of some name); not counted. True unless closed."""
        if self.mode is not AccessMode.CLOSED or caller is None:
            return True
        if caller.kind is not CallerKind.USER or self._is_proxy_of_super(caller):
            return False
        rights = self._judge_of(caller)
        if name is None:
            return rights is not None and rights.allows_some(action, resource)
        return rights is not None and rights.allows(action, resource, name)

    def check_own(self, call: Call, owner: Caller | None) -> None:
        """Refuse what another user owns.

        Raises:
            ServiceError: ACCESS_DENIED.
        """
        if call.is_judged and owner is not None and owner.kind is CallerKind.USER:
            caller = call.caller
            if caller.kind is not CallerKind.USER or caller.name != owner.name:
                self._refuse(call, None, "the client id belongs to another user")

    def note_change(self, call: Call) -> None:
        """Log a change that a user has made beside admin, whose trail has the others."""
        self._log.changed(call)

    def words_of(self, rule: MethodRule, request: Any) -> str:
        """What a change touches, for people: the first few of its uses."""
        return ", ".join(map(words_of, islice(self.uses_of(rule, request), _TOUCHED_MAX)))

    def knows(self, caller: Caller) -> bool:
        """Whether a user is known and enabled, by rules that hold, and so is the key he showed."""
        return self._judge_of(caller) is not None and self._has_key(caller)

    def is_super(self, caller: Caller) -> bool:
        """Whether a caller is a super user, with all rights of one."""
        return (
            caller.scope is None
            and caller.kind is CallerKind.USER
            and self._book.is_super(caller.name)
        )

    def admits_super(self, caller: Caller) -> bool:
        """Whether a caller may do what is for super users; everybody unless closed."""
        return self.mode is not AccessMode.CLOSED or self.is_super(caller)

    def is_super_name(self, user: str) -> bool:
        """Whether a user of this name is, or would be, a super user."""
        return self._book.is_super(user)

    def check_given(self, call: Call, entries: Iterable[AccessEntry]) -> None:
        """Refuse a caller who gives others what he may not do himself.

        Raises:
            ServiceError: ACCESS_DENIED.
        """
        if not call.is_judged or call.caller.kind is not CallerKind.USER:
            return
        for entry in entries:
            if not self._book.may_give(call.caller, entry):
                what = f"{resource_word(entry.resource)} {entry.name or '*'}"
                self._refuse(call, None, f"{call.caller} may not give rights on {what}")

    def show(self, call: Call, rule: MethodRule, answer: Any) -> Any:
        """Cut a list in an answer to what the caller may see; return the answer.

        Raises:
            ServiceError: CREDENTIALS_INVALID: the caller is not known any more.
        """
        shown = rule.shown
        if shown is None or self.mode is not AccessMode.CLOSED:
            return answer
        caller = call.caller
        if caller.kind is CallerKind.MEMBER:
            return answer
        # Without rights are those of calls that began before anybody was asked.
        rights = self._rights_of(call) if call.is_judged else self._judge_of(caller)
        if rights is not None and not sees_all(rights):
            cut_to_rights(answer, shown, rights)
        return answer

    def still_allows(self, call: Call, rule: MethodRule, uses: Iterable[Use]) -> str:
        """Return why a call that lasts would be refused now; empty if it would not.

        One that came in before anybody was asked is judged from now on, and learned where calls are
        learned.
        """
        if self.mode is AccessMode.OPEN or rule.is_open:
            return ""
        try:
            if not call.is_judged:
                self.admit(call, rule)
                self._learn(call, uses)
            if self.mode is AccessMode.LEARN:
                return ""
            return self._cause_now(call.caller, rule, uses)
        except ServiceError as error:
            return error.message

    def judges_user(self, call: Call) -> bool:
        """Whether an admitted call is a user's, who is refused what he has no right to."""
        is_judged = call.is_judged and self.mode is AccessMode.CLOSED
        return is_judged and call.caller.kind is CallerKind.USER

    def _learn(self, call: Call, uses: Iterable[Use]) -> None:
        """Count what a call has used, if the mode says so."""
        if self.mode is not AccessMode.LEARN or not call.is_judged:
            return
        caller = call.caller
        rights = self._judge_of(caller) if caller.kind is CallerKind.USER else None
        if rights is not None:
            for use in uses:
                self._check_one(call, caller, rights, use._replace(user=caller.name))

    def uses_of(self, rule: MethodRule, request: Any) -> Iterable[Use]:
        """Yield what a request uses, for ``still_allows``."""
        replies = own_replies(request) if rule.own_client is not None else None
        if replies is not None:
            yield from _uses_of_replies(replies)
            return
        for need in rule.needs:
            for name in _names_of(need, request):
                if len(name) > NAME_LENGTH_MAX:
                    continue  # No thing has such a name: the call reaches none.
                yield Use("", need.action, need.resource, name)

    def _cause_now(self, caller: Caller, rule: MethodRule, uses: Iterable[Use]) -> str:
        if caller.kind is CallerKind.MEMBER:
            return "" if caller.member_kind in rule.members else "the method is not for this member"
        if caller.kind is CallerKind.ANONYMOUS:
            return "the caller has no credentials, and this service is closed now"
        if self._is_proxy_of_super(caller):
            return f"{caller.acting} may not act for a super user"
        rights = self._judge_of(caller)
        if rights is None:
            return f"{caller} is not known any more"
        if not self._has_key(caller):
            return f"the credential of {caller} is deleted"
        lost = (u for u in uses if not rights.allows(u.action, u.resource, u.name))
        first = next(lost, None)
        return "" if first is None else f"{caller} may not {words_of(first)} any more"

    def _has_key(self, caller: Caller) -> bool:
        """Whether the key holds by which a caller has logged in, if it was by a key."""
        if not caller.credential_id:
            return True
        key = self.key_of(caller.credential_id)
        if key is None or key.user != caller.name:
            return False
        return key.ends_ms == 0 or self._now_ms() < key.ends_ms

    def _notify_watchers(self) -> None:
        for changed in self._watchers:
            changed()

    def _caller_of(self, call: Call) -> Caller | None:
        """The caller; None if it is refused and let through all the same."""
        try:
            caller: Caller = call.caller
        except ServiceError as error:
            self._log.refused(call, self.mode, None, error.message)
            if self.mode is AccessMode.CLOSED:
                raise
            return None
        if caller.kind is CallerKind.ANONYMOUS:
            self._refuse_unknown(call, "the caller has shown no credentials")
            return None
        if self._is_proxy_of_super(caller):
            self._refuse(call, None, f"{caller.acting} may not act for a super user")
            return None
        if caller.acts_too_far(call.method):
            self._refuse(call, None, f"{caller.acting} acts for no user in this method")
            return None
        return caller

    def _is_proxy_of_super(self, caller: Caller) -> bool:
        """Whether a member acts for a super user, as admin alone may."""
        by = caller.acting
        is_proxy = by is not None and by.member_kind is not MemberKind.ADMIN
        return is_proxy and self._book.is_super(caller.name)

    def _rights_of(self, call: Call) -> Judge | None:
        """The present rights of the user of an admitted call; None if it is let through without.

        Raises:
            ServiceError: CREDENTIALS_INVALID or ACCESS_DENIED: it would not be admitted any more.
        """
        caller = call.caller
        rights = self._judge_of(caller)
        if rights is None:
            self._refuse_unknown(call, f"{caller} is not known any more")
        elif self._is_proxy_of_super(caller):
            self._refuse(call, None, f"{caller.acting} may not act for a super user")
        return rights

    def _judge_of(self, caller: Caller) -> Judge | None:
        # Without a word of admin for too long, none but the super users of the settings are left.
        if not self._holds and caller.name not in self._super_users:
            return None
        return self._book.rights_of(caller)

    def _check(self, call: Call, caller: Caller, rights: Judge, need: Need, request: Any) -> None:
        for name in _names_of(need, request):
            if self.mode is AccessMode.CLOSED and rights.allows(need.action, need.resource, name):
                continue
            self._check_one(
                call, caller, rights, Use(caller.name, need.action, need.resource, name)
            )

    def _check_one(self, call: Call, caller: Caller, rights: Judge, use: Use) -> None:
        allowed = rights.allows(use.action, use.resource, use.name)
        if not allowed or self.mode is AccessMode.LEARN:
            self.ledger.used(use, refused=not allowed)
        if not allowed:
            self._refuse(call, use, f"{caller} may not {words_of(use)}")

    def _refuse(self, call: Call, use: Use | None, cause: str) -> None:
        entry = None
        if use is not None:
            entries = self._book.entries_of(call.caller)
            entry = decide(entries, use.action, use.resource, use.name).entry
        self._log.refused(call, self.mode, use, cause, entry)
        if self.mode is not AccessMode.CLOSED:
            return
        facts: dict[str, object] = {} if use is None else _facts_of(use)
        raise ServiceError(ErrorReason.ERROR_REASON_ACCESS_DENIED, cause, facts)

    def _refuse_unknown(self, call: Call, cause: str) -> None:
        self._log.refused(call, self.mode, None, cause)
        if self.mode is AccessMode.CLOSED:
            # One text for all of them: a stranger does not learn who exists.
            raise ServiceError(
                ErrorReason.ERROR_REASON_CREDENTIALS_INVALID,
                "no credentials that hold here came with the call",
            )


def _uses_of_replies(replies: OwnReplies, user: str = "") -> Iterable[Use]:
    for topic in replies.topics:
        yield Use(user, access.ACTION_GET, access.RESOURCE_TOPIC, topic)


def _until_its_end(call: Call) -> int:
    return call.caller.ends_ms


def _nobody(_client_id: str) -> None:
    return None


def _names_of(need: Need, request: Any) -> Iterable[str]:
    if need.names is None:
        return ("",)
    names = need.names(request)
    return [name for name in names if name] if need.optional else names


def _facts_of(use: Use) -> dict[str, object]:
    return {
        "action": action_word(use.action),
        "resource": resource_word(use.resource),
        "name": use.name,
    }
