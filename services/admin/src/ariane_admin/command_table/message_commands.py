"""Commands for topics, consumer groups and messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ariane_admin.command_table.entries import CommandGroup, LazyCommand

MESSAGE_COMMANDS: Final[Mapping[str, LazyCommand | CommandGroup]] = {
    "consume": LazyCommand(
        "ariane_admin.commands.consume:consume",
        "Print the messages of TOPIC, one per line, until Ctrl-C.",
    ),
    "dead-letter": CommandGroup(
        "Inspect the messages that a group could not consume, and send them back.",
        {
            "export": LazyCommand(
                "ariane_admin.commands.dead_letter:export",
                "Write dead letters of GROUP as JSON lines, each with its whole body.",
            ),
            "list": LazyCommand(
                "ariane_admin.commands.dead_letter:list_letters",
                "List the dead letters of GROUP, the oldest of each queue first.",
            ),
            "redrive": LazyCommand(
                "ariane_admin.commands.dead_letter:redrive",
                "Send dead letters of GROUP back to their topics: one at PLACE, or all that match.",
            ),
            "show": LazyCommand(
                "ariane_admin.commands.dead_letter:show",
                "Show the dead letter of GROUP at PLACE (BROKER/QUEUE/OFFSET, as `list` shows it).",
            ),
        },
        (
            "ariane dead-letter list billing",
            "ariane dead-letter redrive billing --topic orders",
        ),
    ),
    "filter": CommandGroup(
        "Upload, try and manage filters (see docs/filters.md).",
        {
            "delete": LazyCommand(
                "ariane_admin.commands.filter.filters:delete",
                "Delete a version of a filter from all FilterServers.",
            ),
            "list": LazyCommand(
                "ariane_admin.commands.filter.filters:list_filters",
                "List all uploaded filters, or the versions of NAME.",
            ),
            "quarantine": LazyCommand(
                "ariane_admin.commands.filter.filters:quarantine",
                "Stop a version of a filter everywhere; its groups get an error and lose no"
                " messages.",
            ),
            "release": LazyCommand(
                "ariane_admin.commands.filter.filters:release",
                "Let a quarantined version of a filter run again, and reset its strikes.",
            ),
            "show": LazyCommand(
                "ariane_admin.commands.filter.filters:show",
                "Show one version of a filter: its state and the groups that use it.",
            ),
            "try": LazyCommand(
                "ariane_admin.commands.filter.filter_try:try_filter",
                "Run a filter over the newest messages of TOPIC, and show which match.",
            ),
            "upload": LazyCommand(
                "ariane_admin.commands.filter.filters:upload",
                "Upload MODULE (Python source or WebAssembly) as a version of filter NAME.",
            ),
        },
        (
            "ariane filter upload late late.py",
            "ariane filter list",
        ),
    ),
    "group": CommandGroup(
        "Inspect consumer groups, pause them, and move their offsets.",
        {
            "clone": LazyCommand(
                "ariane_admin.commands.group.offsets:clone",
                "Copy the offsets of group NAME in TOPIC to group TARGET.",
            ),
            "delete": LazyCommand(
                "ariane_admin.commands.group.delete:delete",
                "Delete group NAME with its offsets, its retry topic and its dead letters.",
            ),
            "forget": LazyCommand(
                "ariane_admin.commands.group.forget:forget",
                "Delete the offsets of group NAME in TOPIC, as if it had never consumed it.",
            ),
            "list": LazyCommand(
                "ariane_admin.commands.group.group:list_groups",
                "List consumer groups with their members and backlog, by name.",
            ),
            "pause": LazyCommand(
                "ariane_admin.commands.group.pause:pause",
                "Stop delivery to group NAME until it is resumed.",
            ),
            "reset": LazyCommand(
                "ariane_admin.commands.group.offsets:reset",
                "Move the offsets of group NAME in TOPIC, also while members consume.",
            ),
            "resume": LazyCommand(
                "ariane_admin.commands.group.pause:resume",
                "Resume delivery to group NAME after a pause.",
            ),
            "retry": LazyCommand(
                "ariane_admin.commands.group.retry:retry",
                "Show or change how group NAME retries failed messages, on all brokers.",
            ),
            "running": LazyCommand(
                "ariane_admin.commands.group.running:running",
                "Show what the live members of group NAME report about their work.",
            ),
            "show": LazyCommand(
                "ariane_admin.commands.group.group:show",
                "Show the backlog, members and subscription conflicts of group NAME.",
            ),
        },
        (
            "ariane group list",
            "ariane group reset billing orders --to earliest --dry-run",
        ),
    ),
    "message": CommandGroup(
        "Find messages, recall delayed ones, and have one consumed again.",
        {
            "consume-again": LazyCommand(
                "ariane_admin.commands.message.consume_again:consume_again",
                "Have a live member of a group consume message MESSAGE_ID once more, now.",
            ),
            "query": LazyCommand(
                "ariane_admin.commands.message.message:query",
                "Find messages of TOPIC by key, unique id or time, newest first.",
            ),
            "recall": LazyCommand(
                "ariane_admin.commands.message.message:recall",
                "Recall the delayed message of HANDLE before it is delivered.",
            ),
            "show": LazyCommand(
                "ariane_admin.commands.message.message:show",
                "Show the message with MESSAGE_ID: the broker's id or the producer's unique id.",
            ),
            "trace": LazyCommand(
                "ariane_admin.commands.message.message:trace",
                "Show the history of message UNIQUE_ID: sent, consumed, transaction ended,"
                " recalled.",
            ),
        },
        (
            "ariane message query orders --key o-4711",
            "ariane message show 7F00000100002A9F00000000000001BC",
        ),
    ),
    "outbox": CommandGroup(
        "Relay the messages of an application's outbox, and inspect refused ones.",
        {
            "list": LazyCommand(
                "ariane_admin.commands.outbox:list_parked",
                "List the messages of outbox NAME that brokers refused, oldest first.",
            ),
            "relay": LazyCommand(
                "ariane_admin.commands.outbox:relay",
                "Send the messages of outbox NAME until Ctrl-C; any number of relays may run.",
            ),
            "requeue": LazyCommand(
                "ariane_admin.commands.outbox:requeue",
                "Queue refused messages of outbox NAME to be sent again: those given, or all"
                " that match.",
            ),
        },
        ("ariane outbox list shop",),
    ),
    "produce": LazyCommand(
        "ariane_admin.commands.produce:produce",
        "Send each line of SOURCE (standard input by default) to TOPIC.",
    ),
    "sink": CommandGroup(
        "Inspect, move or delete the sinks of exactly-once writes.",
        {
            "delete": LazyCommand(
                "ariane_admin.commands.sink:delete",
                "Delete sink NAME from all brokers, with the rows that it has staged.",
            ),
            "list": LazyCommand(
                "ariane_admin.commands.sink:list_sinks",
                "List the sinks of exactly-once writes by name.",
            ),
            "move": LazyCommand(
                "ariane_admin.commands.sink:move",
                "Make sink NAME write to BROKER, starting with its next batch.",
            ),
        },
        ("ariane sink list",),
    ),
    "top": LazyCommand(
        "ariane_admin.commands.top:top",
        "Show how fast topics are filled and groups consume, until Ctrl-C.",
    ),
    "topic": CommandGroup(
        "Create, inspect, change and delete topics.",
        {
            "create": LazyCommand(
                "ariane_admin.commands.topic.topic:create",
                "Create topic NAME on every broker, with the same number of queues on each.",
            ),
            "delete": LazyCommand(
                "ariane_admin.commands.topic.topic:delete",
                "Delete topic NAME with its messages and the offsets of its groups.",
            ),
            "list": LazyCommand(
                "ariane_admin.commands.topic.topic_list:list_topics",
                "List topics by name, with their queues on all brokers.",
            ),
            "order": LazyCommand(
                "ariane_admin.commands.topic.order:order",
                "Show or change the queue order of topic NAME, which places its message groups.",
            ),
            "producers": LazyCommand(
                "ariane_admin.commands.topic.producers:producers",
                "List who sent messages to topic NAME, or to any topic, within the last hour.",
            ),
            "show": LazyCommand(
                "ariane_admin.commands.topic.topic:show",
                "Show the queues of topic NAME, and how many messages each holds.",
            ),
            "tail": LazyCommand(
                "ariane_admin.commands.topic.tail:tail",
                "Show the newest messages of topic NAME, and new ones as they arrive, until"
                " Ctrl-C.",
            ),
            "update": LazyCommand(
                "ariane_admin.commands.topic.topic:update",
                "Change topic NAME on every broker that has it.",
            ),
        },
        (
            "ariane topic create orders --queues 8",
            "ariane topic tail orders",
        ),
    ),
    "transaction": CommandGroup(
        "Inspect undecided transactions, and decide them.",
        {
            "decide": LazyCommand(
                "ariane_admin.commands.transaction:decide",
                "Commit or roll back transactions: those given, or all parked ones that match.",
            ),
            "list": LazyCommand(
                "ariane_admin.commands.transaction:list_transactions",
                "List transactions under check, ordered by the time of their next check.",
            ),
            "parked": LazyCommand(
                "ariane_admin.commands.transaction:parked",
                "List parked transactions, which no producer could decide, the longest waiting"
                " first.",
            ),
            "resume": LazyCommand(
                "ariane_admin.commands.transaction:resume",
                "Ask the producers of parked transactions again, with the count of checks reset.",
            ),
            "show": LazyCommand(
                "ariane_admin.commands.transaction:show",
                "Show transaction TRANSACTION_ID and the checks made with its producers.",
            ),
        },
        (
            "ariane transaction list",
            "ariane transaction parked",
        ),
    ),
}
