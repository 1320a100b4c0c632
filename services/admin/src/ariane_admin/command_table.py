"""Every own command of ``ariane``: where it is, and the line that lists show of it.

Help of the root and of groups, completion and a mistyped name need this table alone; no command is
loaded for them. A test compares each line with the command's own help.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple


class Room(NamedTuple):
    """A command that is not loaded yet.

    Attributes:
        place: Its ``module:attribute``.
        help: The first sentence of its help.
    """

    place: str
    help: str


class Wing(NamedTuple):
    """A group of commands.

    Attributes:
        help: What its help says of it.
        rooms: Its commands by name.
        examples: Command lines that its help shows.
    """

    help: str
    rooms: Mapping[str, Room | Wing]
    examples: Sequence[str]


OWN_COMMANDS: Final[Mapping[str, Room | Wing]] = {
    "alert": Wing(
        "See what admin watches, and what is out of bounds.",
        {
            "list": Room(
                "ariane_admin.commands.alert:list_alerts",
                "List alerts, newest first.",
            ),
            "rules": Room(
                "ariane_admin.commands.alert:rules",
                "List what is watched: settings of admin say it.",
            ),
        },
        (
            "ariane alert list",
            "ariane alert rules -o yaml",
        ),
    ),
    "audit": Wing(
        "See who changed what through admin, and whether the trail is whole.",
        {
            "list": Room(
                "ariane_admin.commands.audit:list_entries",
                "List changes that were made through admin, newest first.",
            ),
            "verify": Room(
                "ariane_admin.commands.audit:verify",
                "Check that no record of the trail was altered or removed.",
            ),
        },
        (
            "ariane audit list --name orders",
            "ariane audit verify",
        ),
    ),
    "bench": Wing(
        "Measure a cluster from here: as fast as it goes, or at a fixed rate.\n\n"
        "Each measurement makes a topic of its own on all brokers and deletes it, counts what was"
        " stored, and compares what was consumed; a message that is missing or altered is a"
        " failure. Messages that were sent stay in the commit log until it is cleaned, as deleted"
        " ones do.",
        {
            "consume": Room(
                "ariane_admin.commands.bench:consume",
                "Store messages, then consume them as fast as it goes, and compare each.",
            ),
            "latency": Room(
                "ariane_admin.commands.bench:latency",
                "Send on a fixed schedule, and tell how long messages take to a listener.",
            ),
            "produce": Room(
                "ariane_admin.commands.bench:produce",
                "Send messages as fast as it goes, and count what was stored.",
            ),
        },
        (
            "ariane bench produce --batch 1000 --in-flight 4",
            "ariane bench latency --rate 5000",
        ),
    ),
    "broker": Wing(
        "Look at brokers, and take one out of service without a loss.",
        {
            "drain": Room(
                "ariane_admin.commands.broker.broker:drain",
                "Let broker NAME take no more messages; consumers go on.",
            ),
            "ha": Wing(
                "Look at brokers with replicas: who is primary, who follows; and change it.",
                {
                    "elect": Room(
                        "ariane_admin.commands.broker.ha:elect",
                        "Order that a replica become primary of broker NAME once there is none.",
                    ),
                    "remove": Room(
                        "ariane_admin.commands.broker.ha:remove",
                        "Take a replica that will not come back out of broker NAME's set.",
                    ),
                    "status": Room(
                        "ariane_admin.commands.broker.ha:status",
                        "Show who is primary of broker NAME, who follows it and how closely.",
                    ),
                    "switchover": Room(
                        "ariane_admin.commands.broker.ha:switchover",
                        "Hand the role of broker NAME's primary to a replica in sync.",
                    ),
                },
                (
                    "ariane broker ha status broker-a",
                    "ariane broker ha switchover broker-a --to 1",
                ),
            ),
            "list": Room(
                "ariane_admin.commands.broker.broker:list_brokers",
                "List the brokers that live, and how each says it is.",
            ),
            "restore": Room(
                "ariane_admin.commands.broker.broker:restore",
                "Let broker NAME take messages again, after a drain.",
            ),
            "set": Room(
                "ariane_admin.commands.broker.settings:set_settings",
                "Change settings of broker NAME while it runs, until it restarts.",
            ),
            "show": Room(
                "ariane_admin.commands.broker.broker:show",
                "Show how broker NAME is: its store, what went through it, what recovery found.",
            ),
        },
        (
            "ariane broker list",
            "ariane broker drain broker-a --wait",
        ),
    ),
    "client": Wing(
        "Look at clients that are attached.",
        {
            "list": Room(
                "ariane_admin.commands.client:list_clients",
                "List the clients that are attached to brokers now: consumers, and transactional"
                " producers.",
            ),
        },
        ("ariane client list --group billing",),
    ),
    "cluster": Wing(
        "Look at the whole cluster.",
        {
            "show": Room(
                "ariane_admin.commands.cluster:show",
                "Show the brokers that live, as the name servers know them.",
            ),
        },
        ("ariane cluster show -o yaml",),
    ),
    "compat": Wing(
        "Say the commands of others as they are said here.",
        {
            "mqadmin": Room(
                "ariane_admin.commands.compat:mqadmin",
                "Print how a command line of RocketMQ's mqadmin is said with ariane; nothing is"
                " run.",
            ),
        },
        ("ariane compat mqadmin updateTopic -t orders -w 8",),
    ),
    "completion": Room(
        "ariane_admin.commands.completion:completion",
        "Write the script that lets SHELL complete commands and options.",
    ),
    "consume": Room(
        "ariane_admin.commands.consume:consume",
        "Write the messages of TOPIC, a line each, until Ctrl-C.",
    ),
    "context": Wing(
        "Keep the addresses of clusters by name, and choose the one that commands ask.",
        {
            "add": Room(
                "ariane_admin.commands.context:add",
                "Keep the addresses of a cluster as context NAME, or change them; the first one is"
                " used.",
            ),
            "delete": Room(
                "ariane_admin.commands.context:delete",
                "Forget context NAME; the cluster itself is left alone.",
            ),
            "list": Room("ariane_admin.commands.context:list_contexts", "List contexts by name."),
            "use": Room(
                "ariane_admin.commands.context:use",
                "Let commands ask the cluster of context NAME from now on.",
            ),
        },
        (
            "ariane context add prod --name-servers 10.0.0.1:9876",
            "ariane context use prod",
        ),
    ),
    "dead-letter": Wing(
        "Look at messages that a group has given up, and send them back.",
        {
            "export": Room(
                "ariane_admin.commands.dead_letter:export",
                "Write dead letters of GROUP as lines of JSON, each with its whole body.",
            ),
            "list": Room(
                "ariane_admin.commands.dead_letter:list_letters",
                "List dead letters of GROUP, the oldest of each queue first.",
            ),
            "redrive": Room(
                "ariane_admin.commands.dead_letter:redrive",
                "Send dead letters of GROUP back to where they came from: one at PLACE, or all that"
                " match.",
            ),
            "show": Room(
                "ariane_admin.commands.dead_letter:show",
                "Show the dead letter of GROUP at PLACE, as `list` names it: BROKER/QUEUE/OFFSET.",
            ),
        },
        (
            "ariane dead-letter list billing",
            "ariane dead-letter redrive billing --topic orders",
        ),
    ),
    "debug": Wing(
        "Gather what somebody needs who helps.",
        {
            "bundle": Room(
                "ariane_admin.commands.debug:bundle",
                "Write what a cluster says of itself into one file, for somebody who helps.",
            ),
        },
        ("ariane debug bundle -f bundle.tar.gz",),
    ),
    "definition": Wing(
        "Take the definitions of topics and groups out of a cluster, and bring them into one.",
        {
            "export": Room(
                "ariane_admin.commands.definition:export",
                "Write the definitions of all topics and groups as JSON.",
            ),
            "import": Room(
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
    "dev": Room(
        "ariane_admin.commands.dev.dev:dev",
        "Run a name server, brokers, a transaction checker and admin on this machine until Ctrl-C.",
    ),
    "doctor": Room(
        "ariane_admin.commands.doctor:doctor", "Examine the cluster from here, and say what to do."
    ),
    "explain": Room(
        "ariane_admin.commands.explain:explain",
        "Say what REASON means, the word in brackets behind an error, and what to do.",
    ),
    "filter": Wing(
        "Upload filters, try them, and look after them; docs/filters.md tells what they are.",
        {
            "delete": Room(
                "ariane_admin.commands.filter.filters:delete",
                "Delete a version everywhere.",
            ),
            "list": Room(
                "ariane_admin.commands.filter.filters:list_filters",
                "List uploaded filters: all, or the versions of NAME.",
            ),
            "quarantine": Room(
                "ariane_admin.commands.filter.filters:quarantine",
                "Stop a version everywhere, at once; its groups get an error, and lose nothing.",
            ),
            "release": Room(
                "ariane_admin.commands.filter.filters:release",
                "Let a quarantined version run again, with its strikes forgotten.",
            ),
            "show": Room(
                "ariane_admin.commands.filter.filters:show",
                "Show one version of a filter: its state, and who pulls through it.",
            ),
            "try": Room(
                "ariane_admin.commands.filter.filter_try:try_filter",
                "Run a filter over the last messages of TOPIC, and show which of them match.",
            ),
            "upload": Room(
                "ariane_admin.commands.filter.filters:upload",
                "Upload MODULE, Python source or WebAssembly, as a version of the filter NAME.",
            ),
        },
        (
            "ariane filter upload late late.py",
            "ariane filter list",
        ),
    ),
    "group": Wing(
        "Look at consumer groups, and move them.",
        {
            "clone": Room(
                "ariane_admin.commands.group.offsets:clone",
                "Let group TARGET go on in TOPIC where group NAME is now.",
            ),
            "delete": Room(
                "ariane_admin.commands.group.delete:delete",
                "Delete group NAME with its offsets, its retry topic and its dead letters.",
            ),
            "list": Room(
                "ariane_admin.commands.group.group:list_groups",
                "List consumer groups with their members and backlog, by name.",
            ),
            "pause": Room(
                "ariane_admin.commands.group.pause:pause",
                "Let group NAME get no more messages, until it is resumed.",
            ),
            "reset": Room(
                "ariane_admin.commands.group.offsets:reset",
                "Set anew where group NAME goes on in TOPIC; members that consume are told.",
            ),
            "resume": Room(
                "ariane_admin.commands.group.pause:resume",
                "Let group NAME get messages again, after a pause.",
            ),
            "retry": Room(
                "ariane_admin.commands.group.retry:retry",
                "Show how group NAME tries again what failed, or change it on all brokers.",
            ),
            "running": Room(
                "ariane_admin.commands.group.running:running",
                "Show what the live members of group NAME are at, as they say themselves.",
            ),
            "show": Room(
                "ariane_admin.commands.group.group:show",
                "Show the backlog, the members and the subscription conflicts of group NAME.",
            ),
        },
        (
            "ariane group list",
            "ariane group reset billing orders --to earliest --dry-run",
        ),
    ),
    "message": Wing(
        "Find single messages, take back what waits, and have one consumed again.",
        {
            "consume-again": Room(
                "ariane_admin.commands.message.consume_again:consume_again",
                "Have one live member of a group consume the message of MESSAGE_ID now, and tell"
                " the outcome.",
            ),
            "query": Room(
                "ariane_admin.commands.message.message:query",
                "Find messages of TOPIC by key or unique id, newest first.",
            ),
            "recall": Room(
                "ariane_admin.commands.message.message:recall",
                "Take back the message of HANDLE before it is delivered.",
            ),
            "show": Room(
                "ariane_admin.commands.message.message:show",
                "Show the message with MESSAGE_ID, the broker's id or the producer's unique one.",
            ),
            "trace": Room(
                "ariane_admin.commands.message.message:trace",
                "Show the life of the message with UNIQUE_ID: sent, consumed, ended, taken back.",
            ),
        },
        (
            "ariane message query orders --key o-4711",
            "ariane message show 7F00000100002A9F00000000000001BC",
        ),
    ),
    "outbox": Wing(
        "Send what applications wrote into an outbox, and look at what was refused.",
        {
            "list": Room(
                "ariane_admin.commands.outbox:list_parked",
                "List messages of outbox NAME that brokers refused, the oldest first.",
            ),
            "relay": Room(
                "ariane_admin.commands.outbox:relay",
                "Send the messages of outbox NAME until Ctrl-C, beside any number of other relays.",
            ),
            "requeue": Room(
                "ariane_admin.commands.outbox:requeue",
                "Have refused messages of outbox NAME be sent again: those named, or all that"
                " match.",
            ),
        },
        ("ariane outbox list shop",),
    ),
    "produce": Room(
        "ariane_admin.commands.produce:produce",
        "Send each line of SOURCE (standard input by default) to TOPIC.",
    ),
    "setting": Wing(
        "Look at the settings of processes, and change them while they run.",
        {
            "list": Room(
                "ariane_admin.commands.setting:list_settings",
                "List the settings of all processes of SERVICE, with what each of them has.",
            ),
            "set": Room(
                "ariane_admin.commands.setting:set_settings",
                "Change settings in all processes of SERVICE while they run, until they restart.",
            ),
        },
        (
            "ariane setting list broker --differing",
            "ariane setting set namesrv concurrent_calls_max=8192",
        ),
    ),
    "sink": Wing(
        "Look at the names that exactly-once writes leave on brokers, and move or delete them.",
        {
            "delete": Room(
                "ariane_admin.commands.sink:delete",
                "Delete sink NAME: brokers forget it, and drop what it has staged.",
            ),
            "list": Room(
                "ariane_admin.commands.sink:list_sinks",
                "List the sinks of exactly-once writes that brokers know, by name.",
            ),
            "move": Room(
                "ariane_admin.commands.sink:move",
                "Have sink NAME write to BROKER from its next batch on.",
            ),
        },
        ("ariane sink list",),
    ),
    "topic": Wing(
        "Create, change and delete topics, and look at them.",
        {
            "create": Room(
                "ariane_admin.commands.topic.topic:create",
                "Create topic NAME on every broker, with as many queues on each.",
            ),
            "delete": Room(
                "ariane_admin.commands.topic.topic:delete",
                "Delete topic NAME with its messages and the offsets of its groups.",
            ),
            "list": Room(
                "ariane_admin.commands.topic.topic:list_topics",
                "List topics by name, with their queues on all brokers.",
            ),
            "order": Room(
                "ariane_admin.commands.topic.order:order",
                "Show among which queues the message groups of topic NAME are divided, or change"
                " it.",
            ),
            "show": Room(
                "ariane_admin.commands.topic.topic:show",
                "Show the message queues of topic NAME, and how many messages each keeps.",
            ),
            "tail": Room(
                "ariane_admin.commands.topic.tail:tail",
                "Show the newest messages of topic NAME, and those that come, until Ctrl-C.",
            ),
            "update": Room(
                "ariane_admin.commands.topic.topic:update",
                "Change topic NAME on every broker that has it.",
            ),
        },
        (
            "ariane topic create orders --queues 8",
            "ariane topic tail orders",
        ),
    ),
    "transaction": Wing(
        "Look at transactions without an outcome, and decide them.",
        {
            "decide": Room(
                "ariane_admin.commands.transaction:decide",
                "End transactions: those named, parked or not, or all that are parked and match.",
            ),
            "list": Room(
                "ariane_admin.commands.transaction:list_transactions",
                "List transactions under check, the next to be asked about first.",
            ),
            "parked": Room(
                "ariane_admin.commands.transaction:parked",
                "List transactions that nobody could answer for, the longest waiting first.",
            ),
            "resume": Room(
                "ariane_admin.commands.transaction:resume",
                "Have the producers of parked transactions asked again, counted anew.",
            ),
            "show": Room(
                "ariane_admin.commands.transaction:show",
                "Show transaction TRANSACTION_ID and what its producers were asked.",
            ),
        },
        (
            "ariane transaction list",
            "ariane transaction parked",
        ),
    ),
}
