"""Every line of ``ariane`` that README, docs and help show is run against one real cluster.

Pages name clusters, messages and transactions that are not here: `NAMES` says what stands for them,
`FIRST` what must be so before a line can do what it says. A line ends with status 0 and says
something. What is not run stands in `NOT_RUN` with its reason.
"""

from __future__ import annotations

import re

import click
import pytest
from prepared_cluster import Stage, prepare

from ariane_admin.cli import root
from ariane_admin.compat.mqadmin import mqadmin_commands
from ariane_servicekit.running.processes import LocalCluster, ServiceProcess
from ariane_servicekit.security.caller import MemberKind
from ariane_testkit.small_store import SMALL_STORE
from tools.papers import Paper, shell_lines_of
from tools.workspace import ROOT, repository_files

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

RUN_ELSEWHERE = {
    **dict.fromkeys(
        (
            "docs/operations/running.md",
            "docs/operations/maintenance.md",
            "docs/operations/closed-stores.md",
        ),
        "tools/tests/test_papers_run.py::test_commands_for_the_night_work_in_their_order",
    ),
    "docs/deployment.md": "tools/tests/test_papers_run.py::"
    "test_three_machines_a_backup_and_an_upgrade_lose_nothing; containers by integration/stack",
    "docs/from-rocketmq.md": "integration/interop/test_from_rocketmq_page.py::"
    "test_a_store_is_taken_over_and_given_back_by_the_commands_of_the_page",
}
"""Pages whose commands one script runs in their order, and the test that does."""

NOT_RUN = {
    r"^ariane spark ": "needs Java, and minutes: spark/pipelines/tests/ runs each once",
    r"^ariane broker ha elect ": "needs a set without a primary:"
    " integration/scenarios/replicas/takeovers/test_failover.py makes one",
    r"^ariane broker forget ": "needs a broker that has left:"
    " services/admin/tests/commands/broker/test_broker_forget_command.py has one",
    r"^ariane (group running|message consume-again) ": "needs a live member:"
    " services/admin/tests/commands/group/test_live_consumer_commands.py has one",
    r"^ariane client disconnect": "needs a live member:"
    " services/admin/tests/commands/test_client_commands.py has one",
    r"^ariane access explain ": "needs a refusal: security/gate/test_gate.py of the kit has one",
    r"^ariane user login-link ": "needs a console of a closed cluster:"
    " services/admin/tests/console has one",
    r"--database postgresql": "needs PostgreSQL:"
    " services/admin/tests/commands/messaging/test_outbox_commands.py has it",
}
"""Patterns of lines, and why they are not run."""


def lines_of_help():
    """The example lines of every command's help."""

    def walk(command, words):
        # click keeps a command's help option as it is first asked for; this is as users ask for it.
        context = click.Context(command, info_name=words, help_option_names=["-h", "--help"])
        text = command.get_help(context).replace("\\\n", " ")
        examples = re.split(r"^ *Examples?:\n", text, flags=re.MULTILINE)[1:]
        for block in examples:
            for line in block.split("\n\n")[0].splitlines():
                yield line.strip()
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                yield from walk(command.get_command(context, name), f"{words} {name}")

    yield from walk(root, "ariane")


def shown():
    """Each line once, in the order of `ORDER`."""
    found = [
        line
        for name in repository_files()
        if name.endswith(".md") and name not in RUN_ELSEWHERE
        for line in shell_lines_of(Paper(ROOT, name), "ariane")
    ]
    found += lines_of_help()
    for each in mqadmin_commands().values():
        found += each.equivalents(())
    # Help sets what it says of a line behind it, in a column of its own.
    lines = {re.sub(r" {3,}\S.*$", "", re.sub(r"\s+#.*$", "", line)) for line in found}
    return sorted(lines, key=lambda line: (rank(line), line))


ORDER = (
    r"topic create",
    r"bench|compat|explain|completion|context|definition export",
    r"topic (update|order)|broker (drain|restore)|definition import",
    r"group (pause|resume)",
    r"sink (move|delete)|transaction (decide|resume)|filter (quarantine|release)",
    r"filter delete",
    r"dead-letter redrive",
    r"group (delete|forget)",
    r"topic delete",
    r"ha switchover",
    r"ha remove",
)
"""Makes first, deletes last, and what only looks between; the list says who comes later."""


def rank(line):
    places = [number for number, words in enumerate(ORDER) if re.search(words, line)]
    return min(places, default=1.5)


NAMES = {
    # Its values come with those of mqadmin.
    r"^ariane topic update TOPIC$": "ariane topic update orders --queues 8",
    # Words of mqadmin's table.
    r"\bSRC_GROUP DEST_GROUP\b": "billing billing-trial",
    r"\b(CONSUMER_GROUP|PRODUCER_GROUP|GROUP_NAME|GROUP)\b": "billing",
    r"\b(TOPIC)\b": "orders",
    r"\bBROKER(_NAME)?\b(?!_ID)": "broker-a",
    r"\bQUEUE(_ID)?\b": "0",
    r"=OFFSET\b": "=0",
    r"\bPERM\b": "read-write",
    r"\bTIMESTAMP\b": "-2h",
    r"\bFILENAME\b": "definitions.json",
    r"\b(USERNAME|SUBJECT)\b": "anna",
    r"\bACTIONS\b": "publish",
    r"\bRESOURCES\b": "topic orders",
    r"\bBODY\b": "hello",
    r"\b(MSG_KEY)\b": "o-4711",
    r"\bBROKER_CONTROLLER_IDS_TO_CLEAN\b": "1",
    r"\bBROKER_ID\b": "1",
    r"\bDIR\b": "closed",
    r"\bKEY=VALUE\b": "concurrent_calls_max=8192",
    r"--unique-id MSG_ID": "--unique-id $UNIQUE_ID",
    r"message trace MSG_ID": "message trace $UNIQUE_ID",
    r"show MSG_ID --topic": "show $UNIQUE_ID --topic",
    r"\bMSG_ID\b": "$MESSAGE_ID",
    # What a page names that only its own cluster has.
    r"\bbilling payments\b": "billing orders",
    r"10\.0\.0\.1:9876,10\.0\.0\.2:9876": "$ARIANE_NAME_SERVERS",
    r"10\.0\.0\.1:9876": "$ARIANE_NAME_SERVERS",
    r"10\.0\.0\.1:9881": "$ARIANE_ADMIN",
    r"1042:(SHA256|[0-9a-f]{64})": "$KNOWN",
    r"/var/lib/ariane/broker-a": "closed",
    r"/var/log/ariane/broker-a\.log": "$BROKER_LOG",
    r"flights:N14228": "orders:o-4711",
    r"flights:0": "orders:0",
    r"late@3f2a9c1b5d6e": "$FILTER",
    r"broker-a/0/17": "$PLACE",
    r"0A1B2C3D4E5F60718293A4B5C6D7E8F9": "$UNIQUE_ID",
    r"7F00000100002A9F00000000000001BC": "$MESSAGE_ID",
    r"djEgb3\w+": "$HANDLE",
    r"7F0000010A2B18B4AAC20000C0DE0001|7F00\.\.\.": "$TRANSACTION",
    r"6f0c\.\.\./copies|write/job-1/copies": "$SINK",
    r"requeue shop 4711 4712": "requeue shop $ROW_IDS",
    r"broker-a:0=4711": "broker-a:0=0",
    r"--in-sync-min 3": "--in-sync-min 2",
    r"2026-12-01T08:00:00\+01:00": "$TOMORROW",
    # As long and as large as a test can wait.
    r"\$delay": "90",
    r"--rate 5000( --seconds 30)?": "--rate 50 --seconds 1",
    r"bench latency( -o \S+)?$": r"bench latency\1 --rate 50 --seconds 1",
    r"bench (produce|consume)(.*)$": r"bench \1\2 --count 2000",
    # One after another, each as slow as a busy machine and a replica make it.
    r"(--in-flight 1\b.*) --count 2000$": r"\1 --count 100",
    r"^(ariane dev)\b": r"\1 --name-server-port 0",
    r"--name-server-port 19876 --broker-port 10911 --console-port 19882": "",
}

UPLOAD = "ariane filter upload late late.py"
FIRST = {
    r"topic create (\S+)": r"ariane topic delete \1 --yes || true",
    r"topic (delete|update|show) (\S+)": r"ariane topic create \2 --exists-ok",
    r"topic update (\S+)": r"ariane topic update \1 --queues 8 --permission read-write",
    r"topic order trades.*--clear": "ariane topic order trades --set --yes",
    r"topic order orders": "ariane topic create orders --exists-ok",
    r"(ariane produce|consume|tail|query) ([a-z]\w+)": r"ariane topic create \2 --exists-ok;"
    r" ariane topic update \2 --permission read-write",
    r"--also (\S+)": r"ariane topic create \1 --exists-ok",
    r"(consume|tail) orders": "seq 40 | ariane produce orders",
    # Which queue a message goes to is not for its sender to say.
    r"consume orders --queue": "until ariane consume orders --queue broker-a:0=0 --no-follow"
    " | grep -q .; do seq 40 | ariane produce orders; done",
    r"group (pause|resume) billing": "ariane group resume billing || true",
    r"group (delete|clone|reset|forget|pause|resume) billing": ""
    "ariane topic create orders --exists-ok; seq 40 | ariane produce orders;"
    " ariane consume orders --group billing --from earliest --count 1",
    r"broker drain": "ariane broker restore broker-a",
    r"broker restore": "ariane broker drain broker-a --yes",
    r"context (use|delete) (\S+)": r"ariane context add \2 --name-servers $ARIANE_NAME_SERVERS",
    r"tls renew (\S+) --drop-old": r"ariane tls renew \1",
    r"--tls-ca members.pem": "touch members.pem user-anna.pem user-anna.key",
    r"--context (\S+)": r"ariane context add \1 --name-servers $ARIANE_NAME_SERVERS",
    r"context list": "ariane context add test --name-servers $ARIANE_NAME_SERVERS",
    r"definition import": "ariane definition export --to definitions.json",
    r"dead-letter redrive": "ariane topic create orders --exists-ok",
    r"filter (quarantine|show|list|try late@)": UPLOAD,
    r"filter release": f"{UPLOAD}; ariane filter quarantine $FILTER --cause test",
    r"filter delete": UPLOAD,
    r"filter (try|upload)": "ariane topic create flights --exists-ok;"
    " echo flight | ariane produce flights --property origin=JFK --property dep_delay=90",
    r"< handles.txt": "ariane topic create reminders --exists-ok;"
    " echo later | ariane produce reminders --delay 1d --handles handles.txt",
    r"message delayed": "ariane topic create reminders --exists-ok;"
    " echo later | ariane produce reminders --delay 1d",
    r"debug bundle": "rm -f *.tar.gz",
    r"export --to (\S+)": r"rm -f \1",
    r"completion fish": "mkdir -p ~/.config/fish/completions",
    r"user create (\w+)": r"ariane user delete \1 --yes || true",
    r"(user (?:update|show|delete)|access (?:grant|revoke|test|suggest|list)) ([a-z]\w+)$|"
    r"(user (?:update|show|delete)|access (?:grant|revoke|test|suggest|list)) ([a-z]\w+) ": ""
    r"ariane user create \2\4 || true",
    r"credential (list|delete) (\w+)": r"ariane user create \2 || true",
    r"--user (\w+)": r"ariane user create \1 || true",
    r"credential create (\S+)": r"rm -f \1",
    r"credential delete (\w+) (\w+)": r"rm -f made.key; ariane credential create made.key"
    r" --user \1 --id \2",
    r"access revoke anna publish,": "ariane access grant anna PUBLISH topic orders",
    r"access (revoke|test) shop PUBLISH": "ariane access grant shop PUBLISH topic 'order-*'",
    # The last super user stays.
    r"user (update|delete) anna": "ariane user create root --super || true",
    r"ARIANE_CREDENTIALS=(\S+)": r"ariane user create billing || true; rm -f \1;"
    r" ariane credential create \1 --user billing",
    r"import-rocketmq keys": "echo AK1:secret > keys",
    r"quota (list|show|delete)": "ariane quota set sent-bytes user anna 1000",
    r"plain_acl.yml": "ariane user create shop || true;"
    " printf 'accounts:\\n- accessKey: shop\\n  secretKey: secret\\n' > plain_acl.yml",
    r"acls.txt": "echo '#Subject' > acls.txt;"
    " echo 'User:shop Custom Topic:orders Pub - Allow' >> acls.txt",
}
"""What is done before a line; all that match, in this order."""

MADE_ANEW = {
    r"\$TRANSACTION|transaction (decide|resume|parked)": Stage.park_transaction,
    r"\$SINK": Stage.make_sink,
    r"\$ROW_IDS|outbox requeue": Stage.fill_outbox,
    r"\$HANDLE": Stage.delay_message,
    r"\$PLACE|dead-letter": Stage.give_up_messages,
    r"\$(UNIQUE|MESSAGE)_ID": Stage.trace_message,
    r"drain .*--wait": Stage.let_nobody_be_behind,
    r"ha remove": Stage.stop_replica,
}
"""Things that a line uses up: each gets its own."""

SILENT = {
    r"^source <": "a script that is taken says nothing",
    r"completion fish >": "its output is a file",
    r"--save-body|export .*--to": "its output is a file",
    r"store fsck": "nothing is damaged",
    r"quota usage": "brokers are told quotas within seconds, and only then use them",
    r"consume orders --from -2h --until": "nothing was stored then",
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stage")
    data = folder / "running"
    with LocalCluster(
        data,
        brokers=2,
        name_servers=2,
        filter_servers=1,
        replicas=1,
        extra_broker_args=SMALL_STORE,
    ) as cluster:
        servers = ("--name-servers", cluster.name_servers)
        checker = ServiceProcess(
            "checker",
            "ariane_txn_checker",
            (
                *(*servers, "--data-path", str(data / "checker"), *GIVES_UP_SOON),
                *cluster.shown(MemberKind.CHECKER, "checker"),
            ),
            data / "checker.log",
        )
        cluster.call_blocking(checker.start)
        admin = ServiceProcess(
            "admin",
            "ariane_admin.service",
            (
                *(*servers, "--data-path", str(data / "admin"), "--checkers", checker.address),
                *("--console-listen", "127.0.0.1:0", "--secret-key-file", str(data / "secret.key")),
                *cluster.shown(MemberKind.ADMIN, "admin"),
            ),
            data / "admin.log",
        )
        cluster.call_blocking(admin.start)
        made = Stage(cluster, checker, admin, folder)
        prepare(made)
        yield made
        cluster.call_blocking(admin.stop)
        cluster.call_blocking(checker.stop)


GIVES_UP_SOON = (
    *("--first-check-s", "0.2", "--check-interval-s", "0.2", "--survey-interval-s", "0.1"),
    *("--note-age-s", "0", "--check-count-max", "1", "--lease-s", "1"),
)

LINES = shown()


def test_what_is_not_run_is_little_and_still_shown():
    for words in NOT_RUN:
        assert any(re.search(words, line) for line in LINES), words
    run = [line for line in LINES if not_run(line) is None]
    assert len(run) > 150


@pytest.mark.parametrize("line", LINES)
def test_a_line_that_is_shown_runs(stage, line):
    reason = not_run(line)
    if reason is not None:
        pytest.skip(reason)
    typed = line
    for shown_name, name in NAMES.items():
        typed = re.sub(shown_name, name, typed)
    for words, make in MADE_ANEW.items():
        if re.search(words, typed):
            make(stage)
    for words, before in FIRST.items():
        if found := re.search(words, typed):
            stage.tell(found.expand(before))
    done, out, err = stage.run(typed)
    assert done, f"{typed}\n{out}{err}"
    assert out.strip() or any(re.search(words, line) for words in SILENT), f"{typed}\n{err}"


def not_run(line):
    """Why a line is not run; None where it is."""
    return next((why for words, why in NOT_RUN.items() if re.search(words, line)), None)
