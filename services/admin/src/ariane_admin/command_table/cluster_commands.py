"""Commands for the cluster itself: its processes, settings and health, and for this shell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ariane_admin.command_table.entries import CommandGroup, LazyCommand

CLUSTER_COMMANDS: Final[Mapping[str, LazyCommand | CommandGroup]] = {
    "alert": CommandGroup(
        "See what admin watches, and what is out of bounds.",
        {
            "list": LazyCommand(
                "ariane_admin.commands.alert:list_alerts",
                "List alerts, newest first.",
            ),
            "rules": LazyCommand(
                "ariane_admin.commands.alert:rules",
                "List what is watched: settings of admin say it.",
            ),
        },
        (
            "ariane alert list",
            "ariane alert rules -o yaml",
        ),
    ),
    "audit": CommandGroup(
        "See who changed what through admin, and whether the trail is whole.",
        {
            "list": LazyCommand(
                "ariane_admin.commands.audit:list_entries",
                "List changes that were made through admin, newest first.",
            ),
            "verify": LazyCommand(
                "ariane_admin.commands.audit:verify",
                "Check that no record of the trail was altered or removed.",
            ),
        },
        (
            "ariane audit list --name orders",
            "ariane audit verify",
        ),
    ),
    "bench": CommandGroup(
        "Measure a cluster from here: as fast as it goes, or at a fixed rate.\n\n"
        "Each measurement makes a topic of its own on all brokers and deletes it, counts what was"
        " stored, and compares what was consumed; a message that is missing or altered is a"
        " failure. Messages that were sent stay in the commit log until it is cleaned, as deleted"
        " ones do.",
        {
            "consume": LazyCommand(
                "ariane_admin.commands.bench:consume",
                "Store messages, then consume them as fast as it goes, and compare each.",
            ),
            "latency": LazyCommand(
                "ariane_admin.commands.bench:latency",
                "Send on a fixed schedule, and tell how long messages take to a listener.",
            ),
            "produce": LazyCommand(
                "ariane_admin.commands.bench:produce",
                "Send messages as fast as it goes, and count what was stored.",
            ),
        },
        (
            "ariane bench produce --batch 1000 --in-flight 4",
            "ariane bench latency --rate 5000",
        ),
    ),
    "broker": CommandGroup(
        "Look at brokers, and take one out of service without a loss.",
        {
            "drain": LazyCommand(
                "ariane_admin.commands.broker.broker:drain",
                "Let broker NAME take no more messages; consumers go on.",
            ),
            "ha": CommandGroup(
                "Look at brokers with replicas: who is primary, who follows; and change it.",
                {
                    "elect": LazyCommand(
                        "ariane_admin.commands.broker.ha:elect",
                        "Order that a replica become primary of broker NAME once there is none.",
                    ),
                    "remove": LazyCommand(
                        "ariane_admin.commands.broker.ha:remove",
                        "Take a replica that will not come back out of broker NAME's set.",
                    ),
                    "status": LazyCommand(
                        "ariane_admin.commands.broker.ha:status",
                        "Show who is primary of broker NAME, who follows it and how closely.",
                    ),
                    "switchover": LazyCommand(
                        "ariane_admin.commands.broker.ha:switchover",
                        "Hand the role of broker NAME's primary to a replica in sync.",
                    ),
                },
                (
                    "ariane broker ha status broker-a",
                    "ariane broker ha switchover broker-a --to 1",
                ),
            ),
            "list": LazyCommand(
                "ariane_admin.commands.broker.broker:list_brokers",
                "List the brokers that live, and how each says it is.",
            ),
            "restore": LazyCommand(
                "ariane_admin.commands.broker.broker:restore",
                "Let broker NAME take messages again, after a drain.",
            ),
            "set": LazyCommand(
                "ariane_admin.commands.broker.settings:set_settings",
                "Change settings of broker NAME while it runs, until it restarts.",
            ),
            "show": LazyCommand(
                "ariane_admin.commands.broker.broker:show",
                "Show how broker NAME is: its store, what went through it, what recovery found.",
            ),
        },
        (
            "ariane broker list",
            "ariane broker drain broker-a --wait",
        ),
    ),
    "client": CommandGroup(
        "Look at clients that are attached.",
        {
            "list": LazyCommand(
                "ariane_admin.commands.client:list_clients",
                "List the clients that are attached to brokers now: consumers, and transactional"
                " producers.",
            ),
        },
        ("ariane client list --group billing",),
    ),
    "cluster": CommandGroup(
        "Look at the whole cluster.",
        {
            "show": LazyCommand(
                "ariane_admin.commands.cluster:show",
                "Show the brokers that live, as the name servers know them.",
            ),
        },
        ("ariane cluster show -o yaml",),
    ),
    "compat": CommandGroup(
        "Say the commands of others as they are said here.",
        {
            "mqadmin": LazyCommand(
                "ariane_admin.commands.compat:mqadmin",
                "Print how a command line of RocketMQ's mqadmin is said with ariane; nothing is"
                " run.",
            ),
        },
        ("ariane compat mqadmin updateTopic -t orders -w 8",),
    ),
    "completion": LazyCommand(
        "ariane_admin.commands.completion:completion",
        "Write the script that lets SHELL complete commands and options.",
    ),
    "context": CommandGroup(
        "Keep the addresses of clusters by name, and choose the one that commands ask.",
        {
            "add": LazyCommand(
                "ariane_admin.commands.context:add",
                "Keep the addresses of a cluster as context NAME, or change them; the first one is"
                " used.",
            ),
            "delete": LazyCommand(
                "ariane_admin.commands.context:delete",
                "Forget context NAME; the cluster itself is left alone.",
            ),
            "list": LazyCommand(
                "ariane_admin.commands.context:list_contexts", "List contexts by name."
            ),
            "use": LazyCommand(
                "ariane_admin.commands.context:use",
                "Let commands ask the cluster of context NAME from now on.",
            ),
        },
        (
            "ariane context add prod --name-servers 10.0.0.1:9876",
            "ariane context use prod",
        ),
    ),
    "debug": CommandGroup(
        "Gather what somebody needs who helps.",
        {
            "bundle": LazyCommand(
                "ariane_admin.commands.debug:bundle",
                "Write what a cluster says of itself into one file, for somebody who helps.",
            ),
        },
        ("ariane debug bundle -f bundle.tar.gz",),
    ),
    "definition": CommandGroup(
        "Take the definitions of topics and groups out of a cluster, and bring them into one.",
        {
            "export": LazyCommand(
                "ariane_admin.commands.definition:export",
                "Write the definitions of all topics and groups as JSON.",
            ),
            "import": LazyCommand(
                "ariane_admin.commands.definition:import_definitions",
                "Make the topics and groups of FILE that are missing, and change those that"
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
        "ariane_admin.commands.doctor:doctor", "Examine the cluster from here, and say what to do."
    ),
    "explain": LazyCommand(
        "ariane_admin.commands.explain:explain",
        "Say what REASON means, the word in brackets behind an error, and what to do.",
    ),
    "setting": CommandGroup(
        "Look at the settings of processes, and change them while they run.",
        {
            "list": LazyCommand(
                "ariane_admin.commands.setting:list_settings",
                "List the settings of all processes of SERVICE, with what each of them has.",
            ),
            "set": LazyCommand(
                "ariane_admin.commands.setting:set_settings",
                "Change settings in all processes of SERVICE while they run, until they restart.",
            ),
        },
        (
            "ariane setting list broker --differing",
            "ariane setting set namesrv concurrent_calls_max=8192",
        ),
    ),
}
