"""Every own command of ``ariane`` by name: where it is, and what the help of groups says.

Help of the root and of groups, completion and a mistyped name need this alone; no command is loaded
for them. The line of a command in lists is read from its source.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

import click

_TEXT_MAX: Final = 300
"""The longest line of a command in lists."""


class LazyCommand:
    """A command that is loaded when it is run."""

    def __init__(self, place: str) -> None:
        self.place = place
        """Its ``module:attribute``."""

    @cached_property
    def help(self) -> str:
        """The first sentence of its help; empty where the source is not installed."""
        module, _, attribute = self.place.partition(":")
        spec = find_spec(module)
        loader: Any = spec.loader if spec else None
        source = (loader.get_source(module) if loader else None) or ""
        found = re.search(
            rf'^def {attribute}\(.*?\n    """(.*?)"""', source, re.DOTALL | re.MULTILINE
        )
        return click.Command(None, help=found[1]).get_short_help_str(_TEXT_MAX) if found else ""


class CommandGroup(NamedTuple):
    """A group of commands, such as ``ariane topic``."""

    help: str
    """What its help says of it."""
    commands: Mapping[str, LazyCommand | CommandGroup]
    """Its commands by name."""
    examples: Sequence[str]
    """Command lines that its help shows."""


def _own(place: str) -> LazyCommand:
    return LazyCommand(f"ariane_admin.commands.{place}")


OWN_COMMANDS: Final[Mapping[str, LazyCommand | CommandGroup]] = {
    "access": CommandGroup(
        "Grant rights to users, and find out why something was refused.",
        {
            "explain": _own("security.access:explain"),
            "grant": _own("security.access:grant"),
            "import": _own("security.access_import:import_rules"),
            "list": _own("security.access:list_entries"),
            "revoke": _own("security.access:revoke"),
            "suggest": _own("security.access:suggest"),
            "test": _own("security.access:test"),
        },
        (
            "ariane access grant shop PUBLISH topic 'order-*'",
            "ariane access test shop PUBLISH topic order-7",
        ),
    ),
    "alert": CommandGroup(
        "Show active alerts, and the rules that raise them.",
        {
            "list": _own("alert:list_alerts"),
            "rules": _own("alert:rules"),
        },
        (
            "ariane alert list",
            "ariane alert rules -o yaml",
        ),
    ),
    "audit": CommandGroup(
        "Show who changed what through admin, and check that the audit trail is intact.",
        {
            "list": _own("security.audit:list_entries"),
            "verify": _own("security.audit:verify"),
        },
        (
            "ariane audit list --name orders",
            "ariane audit verify",
        ),
    ),
    "bench": CommandGroup(
        "Benchmark a cluster from this machine, at full speed or at a fixed rate.\n\nEach run "
        "creates its own topic on all brokers, and deletes it afterwards. It counts the "
        "messages stored and compares those consumed: the run fails if one is missing or "
        "altered. The messages occupy the commit log until it is cleaned, like those of any "
        "deleted topic.",
        {
            "consume": _own("messaging.bench:consume"),
            "latency": _own("messaging.bench:latency"),
            "produce": _own("messaging.bench:produce"),
        },
        (
            "ariane bench produce --batch 1000 --in-flight 4",
            "ariane bench latency --rate 5000",
        ),
    ),
    "broker": CommandGroup(
        "Inspect brokers, and take one out of service without losing messages.",
        {
            "clean": _own("broker.clean:clean"),
            "drain": _own("broker.broker:drain"),
            "forget": _own("broker.forget:forget"),
            "ha": CommandGroup(
                "Inspect and change the roles of brokers with replicas.",
                {
                    "balance": _own("broker.ha_balance:balance"),
                    "elect": _own("broker.ha:elect"),
                    "remove": _own("broker.ha:remove"),
                    "status": _own("broker.ha:status"),
                    "switchover": _own("broker.ha:switchover"),
                },
                (
                    "ariane broker ha status broker-a",
                    "ariane broker ha switchover broker-a --to 1",
                ),
            ),
            "list": _own("broker.broker:list_brokers"),
            "restore": _own("broker.broker:restore"),
            "set": _own("broker.settings:set_settings"),
            "show": _own("broker.broker:show"),
        },
        (
            "ariane broker list",
            "ariane broker drain broker-a --wait",
        ),
    ),
    "client": CommandGroup(
        "Inspect connected clients, and end their connections.",
        {
            "disconnect": _own("client:disconnect"),
            "list": _own("client:list_clients"),
        },
        ("ariane client list --group billing",),
    ),
    "cluster": CommandGroup(
        "Inspect the whole cluster.",
        {
            "show": _own("cluster:show"),
        },
        ("ariane cluster show -o yaml",),
    ),
    "compat": CommandGroup(
        "Translate commands of other systems into those of ariane.",
        {
            "mqadmin": _own("shell.compat:mqadmin"),
        },
        ("ariane compat mqadmin updateTopic -t orders -w 8",),
    ),
    "completion": _own("shell.completion:completion"),
    "consume": _own("messaging.consume:consume"),
    "context": CommandGroup(
        "Save the addresses of clusters under names, and choose which one to use.",
        {
            "add": _own("shell.context:add"),
            "delete": _own("shell.context:delete"),
            "list": _own("shell.context:list_contexts"),
            "use": _own("shell.context:use"),
        },
        (
            "ariane context add prod --name-servers 10.0.0.1:9876",
            "ariane context use prod",
        ),
    ),
    "credential": CommandGroup(
        "Give users keys by which they prove who they are, and take them away.",
        {
            "create": _own("security.credential:create"),
            "delete": _own("security.credential:delete"),
            "import-rocketmq": _own("security.credential:import_rocketmq"),
            "list": _own("security.credential:list_credentials"),
        },
        (
            "ariane credential create billing.key --user billing --days 90",
            "ariane credential list billing",
        ),
    ),
    "dead-letter": CommandGroup(
        "Inspect the messages that a group could not consume, and send them back.",
        {
            "export": _own("messaging.dead_letter:export"),
            "list": _own("messaging.dead_letter:list_letters"),
            "redrive": _own("messaging.dead_letter:redrive"),
            "show": _own("messaging.dead_letter:show"),
        },
        (
            "ariane dead-letter list billing",
            "ariane dead-letter redrive billing --topic orders",
        ),
    ),
    "debug": CommandGroup(
        "Collect diagnostic data.",
        {
            "bundle": _own("debug:bundle"),
        },
        ("ariane debug bundle -f bundle.tar.gz",),
    ),
    "definition": CommandGroup(
        "Export and import the definitions of topics and groups.",
        {
            "export": _own("definition:export"),
            "import": _own("definition:import_definitions"),
        },
        (
            "ariane definition export --to definitions.json",
            "ariane definition import definitions.json --dry-run",
        ),
    ),
    "dev": _own("dev.dev:dev"),
    "doctor": _own("doctor:doctor"),
    "explain": _own("shell.explain:explain"),
    "filter": CommandGroup(
        "Upload, try and manage filters (see docs/filters.md).",
        {
            "delete": _own("filter.filters:delete"),
            "list": _own("filter.filters:list_filters"),
            "quarantine": _own("filter.filters:quarantine"),
            "release": _own("filter.filters:release"),
            "show": _own("filter.filters:show"),
            "try": _own("filter.filter_try:try_filter"),
            "upload": _own("filter.filters:upload"),
        },
        (
            "ariane filter upload late late.py",
            "ariane filter list",
        ),
    ),
    "group": CommandGroup(
        "Inspect consumer groups, pause them, and move their offsets.",
        {
            "clone": _own("group.offsets:clone"),
            "delete": _own("group.delete:delete"),
            "forget": _own("group.forget:forget"),
            "list": _own("group.group:list_groups"),
            "pause": _own("group.pause:pause"),
            "reset": _own("group.offsets:reset"),
            "resume": _own("group.pause:resume"),
            "retry": _own("group.retry:retry"),
            "running": _own("group.running:running"),
            "show": _own("group.group:show"),
        },
        (
            "ariane group list",
            "ariane group reset billing orders --to earliest --dry-run",
        ),
    ),
    "message": CommandGroup(
        "Find messages, list and recall delayed ones, and have one consumed again.",
        {
            "consume-again": _own("message.consume_again:consume_again"),
            "delayed": _own("message.delayed:delayed"),
            "query": _own("message.message:query"),
            "recall": _own("message.message:recall"),
            "show": _own("message.message:show"),
            "trace": _own("message.message:trace"),
        },
        (
            "ariane message query orders --key o-4711",
            "ariane message show 7F00000100002A9F00000000000001BC",
        ),
    ),
    "outbox": CommandGroup(
        "Relay the messages of an application's outbox, and inspect refused ones.",
        {
            "list": _own("messaging.outbox:list_parked"),
            "relay": _own("messaging.outbox:relay"),
            "requeue": _own("messaging.outbox:requeue"),
        },
        ("ariane outbox list shop",),
    ),
    "produce": _own("messaging.produce:produce"),
    "quota": CommandGroup(
        "Limit what users, topics and addresses may have and do.",
        {
            "delete": _own("quota:delete"),
            "list": _own("quota:list_quotas"),
            "set": _own("quota:set_quota"),
            "show": _own("quota:show"),
            "usage": _own("quota:usage"),
        },
        (
            "ariane quota set sent-bytes user anna 10485760",
            "ariane quota show user anna",
            "ariane quota usage",
        ),
    ),
    "setting": CommandGroup(
        "Show the settings of running processes, and change them.",
        {
            "list": _own("setting:list_settings"),
            "set": _own("setting:set_settings"),
        },
        (
            "ariane setting list broker --differing",
            "ariane setting set namesrv concurrent_calls_max=8192",
        ),
    ),
    "sink": CommandGroup(
        "Inspect, move or delete the sinks of exactly-once writes.",
        {
            "delete": _own("messaging.sink:delete"),
            "list": _own("messaging.sink:list_sinks"),
            "move": _own("messaging.sink:move"),
        },
        ("ariane sink list",),
    ),
    "tls": CommandGroup(
        "Make, list and renew the certificates of a cluster.",
        {
            "init": _own("security.tls:init"),
            "renew": _own("security.tls:renew"),
            "show": _own("security.tls:show"),
        },
        (
            "ariane tls init ./certificates --cluster main --member broker/b-0=10.0.0.2",
            "ariane tls show ./certificates",
            "ariane tls renew ./certificates",
        ),
    ),
    "top": _own("top:top"),
    "topic": CommandGroup(
        "Create, inspect, change and delete topics.",
        {
            "create": _own("topic.topic:create"),
            "delete": _own("topic.topic:delete"),
            "list": _own("topic.topic_list:list_topics"),
            "order": _own("topic.order:order"),
            "producers": _own("topic.producers:producers"),
            "purge": _own("topic.purge:purge"),
            "show": _own("topic.topic:show"),
            "tail": _own("topic.tail:tail"),
            "update": _own("topic.topic:update"),
        },
        (
            "ariane topic create orders --queues 8",
            "ariane topic tail orders",
        ),
    ),
    "transaction": CommandGroup(
        "Inspect undecided transactions, and decide them.",
        {
            "decide": _own("messaging.transaction:decide"),
            "list": _own("messaging.transaction:list_transactions"),
            "parked": _own("messaging.transaction:parked"),
            "resume": _own("messaging.transaction:resume"),
            "show": _own("messaging.transaction:show"),
        },
        (
            "ariane transaction list",
            "ariane transaction parked",
        ),
    ),
    "user": CommandGroup(
        "Create, change and list users.",
        {
            "create": _own("security.user:create"),
            "delete": _own("security.user:delete"),
            "list": _own("security.user:list_users"),
            "login-link": _own("security.login_link:login_link"),
            "show": _own("security.user:show"),
            "update": _own("security.user:update"),
        },
        (
            "ariane user create billing",
            "ariane user list -o json",
        ),
    ),
}
