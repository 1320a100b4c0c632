"""Commands for topics, consumer groups and messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ariane_admin.command_table.entries import CommandGroup, LazyCommand

MESSAGE_COMMANDS: Final[Mapping[str, LazyCommand | CommandGroup]] = {
    "consume": LazyCommand(
        "ariane_admin.commands.consume:consume",
        "Write the messages of TOPIC, a line each, until Ctrl-C.",
    ),
    "dead-letter": CommandGroup(
        "Look at messages that a group has given up, and send them back.",
        {
            "export": LazyCommand(
                "ariane_admin.commands.dead_letter:export",
                "Write dead letters of GROUP as lines of JSON, each with its whole body.",
            ),
            "list": LazyCommand(
                "ariane_admin.commands.dead_letter:list_letters",
                "List dead letters of GROUP, the oldest of each queue first.",
            ),
            "redrive": LazyCommand(
                "ariane_admin.commands.dead_letter:redrive",
                "Send dead letters of GROUP back to where they came from: one at PLACE, or all that"
                " match.",
            ),
            "show": LazyCommand(
                "ariane_admin.commands.dead_letter:show",
                "Show the dead letter of GROUP at PLACE, as `list` names it: BROKER/QUEUE/OFFSET.",
            ),
        },
        (
            "ariane dead-letter list billing",
            "ariane dead-letter redrive billing --topic orders",
        ),
    ),
    "filter": CommandGroup(
        "Upload filters, try them, and look after them; docs/filters.md tells what they are.",
        {
            "delete": LazyCommand(
                "ariane_admin.commands.filter.filters:delete",
                "Delete a version everywhere.",
            ),
            "list": LazyCommand(
                "ariane_admin.commands.filter.filters:list_filters",
                "List uploaded filters: all, or the versions of NAME.",
            ),
            "quarantine": LazyCommand(
                "ariane_admin.commands.filter.filters:quarantine",
                "Stop a version everywhere, at once; its groups get an error, and lose nothing.",
            ),
            "release": LazyCommand(
                "ariane_admin.commands.filter.filters:release",
                "Let a quarantined version run again, with its strikes forgotten.",
            ),
            "show": LazyCommand(
                "ariane_admin.commands.filter.filters:show",
                "Show one version of a filter: its state, and who pulls through it.",
            ),
            "try": LazyCommand(
                "ariane_admin.commands.filter.filter_try:try_filter",
                "Run a filter over the last messages of TOPIC, and show which of them match.",
            ),
            "upload": LazyCommand(
                "ariane_admin.commands.filter.filters:upload",
                "Upload MODULE, Python source or WebAssembly, as a version of the filter NAME.",
            ),
        },
        (
            "ariane filter upload late late.py",
            "ariane filter list",
        ),
    ),
    "group": CommandGroup(
        "Look at consumer groups, and move them.",
        {
            "clone": LazyCommand(
                "ariane_admin.commands.group.offsets:clone",
                "Let group TARGET go on in TOPIC where group NAME is now.",
            ),
            "delete": LazyCommand(
                "ariane_admin.commands.group.delete:delete",
                "Delete group NAME with its offsets, its retry topic and its dead letters.",
            ),
            "list": LazyCommand(
                "ariane_admin.commands.group.group:list_groups",
                "List consumer groups with their members and backlog, by name.",
            ),
            "pause": LazyCommand(
                "ariane_admin.commands.group.pause:pause",
                "Let group NAME get no more messages, until it is resumed.",
            ),
            "reset": LazyCommand(
                "ariane_admin.commands.group.offsets:reset",
                "Set anew where group NAME goes on in TOPIC; members that consume are told.",
            ),
            "resume": LazyCommand(
                "ariane_admin.commands.group.pause:resume",
                "Let group NAME get messages again, after a pause.",
            ),
            "retry": LazyCommand(
                "ariane_admin.commands.group.retry:retry",
                "Show how group NAME tries again what failed, or change it on all brokers.",
            ),
            "running": LazyCommand(
                "ariane_admin.commands.group.running:running",
                "Show what the live members of group NAME are at, as they say themselves.",
            ),
            "show": LazyCommand(
                "ariane_admin.commands.group.group:show",
                "Show the backlog, the members and the subscription conflicts of group NAME.",
            ),
        },
        (
            "ariane group list",
            "ariane group reset billing orders --to earliest --dry-run",
        ),
    ),
    "message": CommandGroup(
        "Find single messages, take back what waits, and have one consumed again.",
        {
            "consume-again": LazyCommand(
                "ariane_admin.commands.message.consume_again:consume_again",
                "Have one live member of a group consume the message of MESSAGE_ID now, and tell"
                " the outcome.",
            ),
            "query": LazyCommand(
                "ariane_admin.commands.message.message:query",
                "Find messages of TOPIC by key or unique id, newest first.",
            ),
            "recall": LazyCommand(
                "ariane_admin.commands.message.message:recall",
                "Take back the message of HANDLE before it is delivered.",
            ),
            "show": LazyCommand(
                "ariane_admin.commands.message.message:show",
                "Show the message with MESSAGE_ID, the broker's id or the producer's unique one.",
            ),
            "trace": LazyCommand(
                "ariane_admin.commands.message.message:trace",
                "Show the life of the message with UNIQUE_ID: sent, consumed, ended, taken back.",
            ),
        },
        (
            "ariane message query orders --key o-4711",
            "ariane message show 7F00000100002A9F00000000000001BC",
        ),
    ),
    "outbox": CommandGroup(
        "Send what applications wrote into an outbox, and look at what was refused.",
        {
            "list": LazyCommand(
                "ariane_admin.commands.outbox:list_parked",
                "List messages of outbox NAME that brokers refused, the oldest first.",
            ),
            "relay": LazyCommand(
                "ariane_admin.commands.outbox:relay",
                "Send the messages of outbox NAME until Ctrl-C, beside any number of other relays.",
            ),
            "requeue": LazyCommand(
                "ariane_admin.commands.outbox:requeue",
                "Have refused messages of outbox NAME be sent again: those named, or all that"
                " match.",
            ),
        },
        ("ariane outbox list shop",),
    ),
    "produce": LazyCommand(
        "ariane_admin.commands.produce:produce",
        "Send each line of SOURCE (standard input by default) to TOPIC.",
    ),
    "sink": CommandGroup(
        "Look at the names that exactly-once writes leave on brokers, and move or delete them.",
        {
            "delete": LazyCommand(
                "ariane_admin.commands.sink:delete",
                "Delete sink NAME: brokers forget it, and drop what it has staged.",
            ),
            "list": LazyCommand(
                "ariane_admin.commands.sink:list_sinks",
                "List the sinks of exactly-once writes that brokers know, by name.",
            ),
            "move": LazyCommand(
                "ariane_admin.commands.sink:move",
                "Have sink NAME write to BROKER from its next batch on.",
            ),
        },
        ("ariane sink list",),
    ),
    "topic": CommandGroup(
        "Create, change and delete topics, and look at them.",
        {
            "create": LazyCommand(
                "ariane_admin.commands.topic.topic:create",
                "Create topic NAME on every broker, with as many queues on each.",
            ),
            "delete": LazyCommand(
                "ariane_admin.commands.topic.topic:delete",
                "Delete topic NAME with its messages and the offsets of its groups.",
            ),
            "list": LazyCommand(
                "ariane_admin.commands.topic.topic:list_topics",
                "List topics by name, with their queues on all brokers.",
            ),
            "order": LazyCommand(
                "ariane_admin.commands.topic.order:order",
                "Show among which queues the message groups of topic NAME are divided, or change"
                " it.",
            ),
            "show": LazyCommand(
                "ariane_admin.commands.topic.topic:show",
                "Show the message queues of topic NAME, and how many messages each keeps.",
            ),
            "tail": LazyCommand(
                "ariane_admin.commands.topic.tail:tail",
                "Show the newest messages of topic NAME, and those that come, until Ctrl-C.",
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
        "Look at transactions without an outcome, and decide them.",
        {
            "decide": LazyCommand(
                "ariane_admin.commands.transaction:decide",
                "End transactions: those named, parked or not, or all that are parked and match.",
            ),
            "list": LazyCommand(
                "ariane_admin.commands.transaction:list_transactions",
                "List transactions under check, the next to be asked about first.",
            ),
            "parked": LazyCommand(
                "ariane_admin.commands.transaction:parked",
                "List transactions that nobody could answer for, the longest waiting first.",
            ),
            "resume": LazyCommand(
                "ariane_admin.commands.transaction:resume",
                "Have the producers of parked transactions asked again, counted anew.",
            ),
            "show": LazyCommand(
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
