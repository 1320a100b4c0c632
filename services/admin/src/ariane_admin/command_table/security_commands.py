"""Commands for users and what they may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ariane_admin.command_table.entries import CommandGroup, LazyCommand

SECURITY_COMMANDS: Final[Mapping[str, LazyCommand | CommandGroup]] = {
    "access": CommandGroup(
        "Grant rights to users, and find out why something was refused.",
        {
            "explain": LazyCommand(
                "ariane_admin.commands.access:explain",
                "Explain why the call with REQUEST_ID was refused: its error tells the id.",
            ),
            "grant": LazyCommand(
                "ariane_admin.commands.access:grant",
                "Let USER, or all with role:NAME, do ACTIONS on things of the kind RESOURCE called"
                " NAME.",
            ),
            "import": LazyCommand(
                "ariane_admin.commands.access_import:import_rules",
                "Take over users and rights from FILE, a list of RocketMQ's.",
            ),
            "list": LazyCommand(
                "ariane_admin.commands.access:list_entries",
                "List what users and roles may do; with USER, or role:NAME, only its entries.",
            ),
            "revoke": LazyCommand(
                "ariane_admin.commands.access:revoke",
                "Take ACTIONS on RESOURCE NAME out of all entries of USER, or of role:NAME, that"
                " say just so.",
            ),
            "suggest": LazyCommand(
                "ariane_admin.commands.access:suggest",
                "Suggest the least rights for what USER did since the processes began.",
            ),
            "test": LazyCommand(
                "ariane_admin.commands.access:test",
                "Say whether USER may do ACTION on RESOURCE NAME, and which entry decides.",
            ),
        },
        (
            "ariane access grant shop PUBLISH topic 'order-*'",
            "ariane access test shop PUBLISH topic order-7",
        ),
    ),
    "credential": CommandGroup(
        "Give users keys by which they prove who they are, and take them away.",
        {
            "create": LazyCommand(
                "ariane_admin.commands.credential:create",
                "Write a new private key of USER to FILE, and let admin know the public one.",
            ),
            "delete": LazyCommand(
                "ariane_admin.commands.credential:delete",
                "Delete CREDENTIAL of USER: within seconds, all that it opened ends everywhere.",
            ),
            "import-rocketmq": LazyCommand(
                "ariane_admin.commands.credential:import_rocketmq",
                "Let clients of RocketMQ sign with the keys of FILE, at the gateways of the"
                " cluster.",
            ),
            "list": LazyCommand(
                "ariane_admin.commands.credential:list_credentials",
                "List the credentials of USER, oldest first.",
            ),
        },
        (
            "ariane credential create billing.key --user billing --days 90",
            "ariane credential list billing",
        ),
    ),
    "user": CommandGroup(
        "Create, change and list users.",
        {
            "create": LazyCommand(
                "ariane_admin.commands.user:create",
                "Create USER, without rights of its own.",
            ),
            "delete": LazyCommand(
                "ariane_admin.commands.user:delete",
                "Delete USER with its rights.",
            ),
            "list": LazyCommand(
                "ariane_admin.commands.user:list_users",
                "List users by name.",
            ),
            "login-link": LazyCommand(
                "ariane_admin.commands.login_link:login_link",
                "Print a link by which you, and nobody else, sign in to the console.",
            ),
            "show": LazyCommand("ariane_admin.commands.user:show", "Show USER."),
            "update": LazyCommand(
                "ariane_admin.commands.user:update",
                "Change USER.",
            ),
        },
        ("ariane user create billing", "ariane user list -o json"),
    ),
}
