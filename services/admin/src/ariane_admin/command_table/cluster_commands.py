"""Commands for the cluster itself: its processes, settings and health, and for this shell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ariane_admin.command_table.entries import CommandGroup, LazyCommand

CLUSTER_COMMANDS: Final[Mapping[str, LazyCommand | CommandGroup]] = {
    "alert": CommandGroup(
        "Show active alerts, and the rules that raise them.",
        {
            "list": LazyCommand(
                "ariane_admin.commands.alert:list_alerts",
                "List alerts, newest first.",
            ),
            "rules": LazyCommand(
                "ariane_admin.commands.alert:rules",
                "List the alert rules; the settings of admin define them.",
            ),
        },
        (
            "ariane alert list",
            "ariane alert rules -o yaml",
        ),
    ),
    "audit": CommandGroup(
        "Show who changed what through admin, and check that the audit trail is intact.",
        {
            "list": LazyCommand(
                "ariane_admin.commands.audit:list_entries",
                "List the changes made through admin, newest first.",
            ),
            "verify": LazyCommand(
                "ariane_admin.commands.audit:verify",
                "Check that no record of the audit trail was altered or removed.",
            ),
        },
        (
            "ariane audit list --name orders",
            "ariane audit verify",
        ),
    ),
    "bench": CommandGroup(
        "Benchmark a cluster from this machine, at full speed or at a fixed"
        " rate.\n\nEach run creates its own topic on all brokers, and deletes it"
        " afterwards. It counts the messages stored and compares those consumed: the"
        " run fails if one is missing or altered. The messages occupy the commit log"
        " until it is cleaned, like those of any deleted topic.",
        {
            "consume": LazyCommand(
                "ariane_admin.commands.bench:consume",
                "Store messages, then consume them at full speed and compare each one.",
            ),
            "latency": LazyCommand(
                "ariane_admin.commands.bench:latency",
                "Send on a fixed schedule, and measure how long messages take to reach a listener.",
            ),
            "produce": LazyCommand(
                "ariane_admin.commands.bench:produce",
                "Send messages at full speed, and count those stored.",
            ),
        },
        (
            "ariane bench produce --batch 1000 --in-flight 4",
            "ariane bench latency --rate 5000",
        ),
    ),
    "broker": CommandGroup(
        "Inspect brokers, and take one out of service without losing messages.",
        {
            "clean": LazyCommand(
                "ariane_admin.commands.broker.clean:clean",
                "Delete what broker NAME keeps longer than it must, now and not at the set hour.",
            ),
            "drain": LazyCommand(
                "ariane_admin.commands.broker.broker:drain",
                "Stop broker NAME from accepting messages; consumers continue.",
            ),
            "ha": CommandGroup(
                "Inspect and change the roles of brokers with replicas.",
                {
                    "balance": LazyCommand(
                        "ariane_admin.commands.broker.ha_balance:balance",
                        "Give each replica set its preferred primary, and each machine as many "
                        "primaries.",
                    ),
                    "elect": LazyCommand(
                        "ariane_admin.commands.broker.ha:elect",
                        "Elect a replica as primary of broker NAME if there is no primary.",
                    ),
                    "remove": LazyCommand(
                        "ariane_admin.commands.broker.ha:remove",
                        "Remove a lost replica from the replica set of broker NAME.",
                    ),
                    "status": LazyCommand(
                        "ariane_admin.commands.broker.ha:status",
                        "Show the primary and replicas of broker NAME, and how far each is behind.",
                    ),
                    "switchover": LazyCommand(
                        "ariane_admin.commands.broker.ha:switchover",
                        "Make an in-sync replica the primary of broker NAME.",
                    ),
                },
                (
                    "ariane broker ha status broker-a",
                    "ariane broker ha switchover broker-a --to 1",
                ),
            ),
            "list": LazyCommand(
                "ariane_admin.commands.broker.broker:list_brokers",
                "List the live brokers with the state that each reports.",
            ),
            "restore": LazyCommand(
                "ariane_admin.commands.broker.broker:restore",
                "Let broker NAME accept messages again after a drain.",
            ),
            "set": LazyCommand(
                "ariane_admin.commands.broker.settings:set_settings",
                "Change settings of the running broker NAME; the change lasts until it restarts.",
            ),
            "show": LazyCommand(
                "ariane_admin.commands.broker.broker:show",
                "Show the state of broker NAME: its store, its traffic, its recovery findings.",
            ),
        },
        (
            "ariane broker list",
            "ariane broker drain broker-a --wait",
        ),
    ),
    "client": CommandGroup(
        "Inspect connected clients, and end their connections.",
        {
            "disconnect": LazyCommand(
                "ariane_admin.commands.client:disconnect",
                "End the connection of client CLIENT_ID to every broker.",
            ),
            "list": LazyCommand(
                "ariane_admin.commands.client:list_clients",
                "List connected clients: consumers, transactional producers, and all clients of"
                " gateways.",
            ),
        },
        ("ariane client list --group billing",),
    ),
    "cluster": CommandGroup(
        "Inspect the whole cluster.",
        {
            "show": LazyCommand(
                "ariane_admin.commands.cluster:show",
                "Show the live brokers as the name servers know them.",
            ),
        },
        ("ariane cluster show -o yaml",),
    ),
    "compat": CommandGroup(
        "Translate commands of other systems into those of ariane.",
        {
            "mqadmin": LazyCommand(
                "ariane_admin.commands.compat:mqadmin",
                "Translate a command line of RocketMQ's mqadmin; nothing is run.",
            ),
        },
        ("ariane compat mqadmin updateTopic -t orders -w 8",),
    ),
    "completion": LazyCommand(
        "ariane_admin.commands.completion:completion",
        "Print the completion script for a shell: bash, zsh or fish.",
    ),
    "context": CommandGroup(
        "Save the addresses of clusters under names, and choose which one to use.",
        {
            "add": LazyCommand(
                "ariane_admin.commands.context:add",
                "Save or change the addresses of a cluster as context NAME.",
            ),
            "delete": LazyCommand(
                "ariane_admin.commands.context:delete",
                "Delete context NAME; the cluster itself is not touched.",
            ),
            "list": LazyCommand(
                "ariane_admin.commands.context:list_contexts", "List contexts by name."
            ),
            "use": LazyCommand(
                "ariane_admin.commands.context:use",
                "Make context NAME the one that commands use from now on.",
            ),
        },
        (
            "ariane context add prod --name-servers 10.0.0.1:9876",
            "ariane context use prod",
        ),
    ),
    "debug": CommandGroup(
        "Collect diagnostic data.",
        {
            "bundle": LazyCommand(
                "ariane_admin.commands.debug:bundle",
                "Write diagnostic data of a cluster into one file, for support.",
            ),
        },
        ("ariane debug bundle -f bundle.tar.gz",),
    ),
    "definition": CommandGroup(
        "Export and import the definitions of topics and groups.",
        {
            "export": LazyCommand(
                "ariane_admin.commands.definition:export",
                "Write the definitions of all topics and groups as JSON.",
            ),
            "import": LazyCommand(
                "ariane_admin.commands.definition:import_definitions",
                "Create the topics and groups of FILE that are missing, and change those that"
                " differ.",
            ),
        },
        (
            "ariane definition export --to definitions.json",
            "ariane definition import definitions.json --dry-run",
        ),
    ),
    "dev": LazyCommand(
        "ariane_admin.commands.dev.dev:dev",
        "Run a name server, brokers, a transaction checker and admin on this machine until Ctrl-C.",
    ),
    "doctor": LazyCommand(
        "ariane_admin.commands.doctor:doctor",
        "Diagnose the cluster from this machine, and say what to do.",
    ),
    "explain": LazyCommand(
        "ariane_admin.commands.explain:explain",
        "Explain REASON, the word in brackets after an error, and what to do about it.",
    ),
    "setting": CommandGroup(
        "Show the settings of running processes, and change them.",
        {
            "list": LazyCommand(
                "ariane_admin.commands.setting:list_settings",
                "List the settings of all processes of SERVICE with their values.",
            ),
            "set": LazyCommand(
                "ariane_admin.commands.setting:set_settings",
                "Change settings of all running processes of SERVICE, until they restart.",
            ),
        },
        (
            "ariane setting list broker --differing",
            "ariane setting set namesrv concurrent_calls_max=8192",
        ),
    ),
    "tls": CommandGroup(
        "Make, list and renew the certificates of a cluster.",
        {
            "init": LazyCommand(
                "ariane_admin.commands.tls:init",
                "Make authorities and certificates of a cluster in FOLDER; what is there is kept.",
            ),
            "renew": LazyCommand(
                "ariane_admin.commands.tls:renew",
                "Renew certificates in FOLDER that end soon, or that an old authority has signed.",
            ),
            "show": LazyCommand(
                "ariane_admin.commands.tls:show",
                "List the certificates in PATH, a folder of ariane tls or a file, and when they"
                " end.",
            ),
        },
        (
            "ariane tls init ./certificates --cluster main --member broker/b-0=10.0.0.2",
            "ariane tls show ./certificates",
            "ariane tls renew ./certificates",
        ),
    ),
}
