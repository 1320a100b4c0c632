"""What ``ariane compat mqadmin`` prints for a whole command line is run as it is printed."""

import shlex
import subprocess

import pytest

from ariane_admin.cli import main
from ariane_admin.terminal.exits import ExitStatus

LINES = """\
updateTopic -b 127.0.0.1:10911 -t compat-new -r 4 -w 4 -p 6
updateTopic -c DefaultCluster -t compat-fifo -a +message.type=FIFO
updateTopicPerm -t compat-orders -p 6
topicRoute -t compat-orders
topicStatus -t compat-orders
topicClusterList -t compat-orders
topicList
topicList -c
statsAll
updateOrderConf -t compat-fifo -m put -v broker-a:4
updateOrderConf -t compat-fifo -m get
updateSubGroup -c DefaultCluster -g compat-group -s true -r 5
updateSubGroup -c DefaultCluster -g compat-group -s false
updateSubGroup -c DefaultCluster -g compat-group -s true
getConsumerConfig -g compat-group
consumerProgress -g compat-group
consumerProgress
consumerConnection -g compat-group
producerConnection -g compat-senders -t compat-orders
producer
cloneGroupOffset -s compat-group -d compat-trial -t compat-orders
resetOffsetByTime -g compat-group -t compat-orders -s now
resetOffsetByTime -g compat-group -t compat-orders -s -1
resetOffsetByTime -g compat-group -t compat-orders -s currentTimeMillis
resetOffsetByTime -g compat-group -t compat-orders -s 1676730526212
resetOffsetByTime -g compat-group -t compat-orders -s 2026-01-31#10:00:00:000
skipAccumulatedMessage -g compat-group -t compat-orders
queryMsgByKey -t compat-orders -k o-1
queryMsgByUniqueKey -t compat-orders -i UNIQUE_ID
queryMsgById -i MESSAGE_ID -t compat-orders
queryMsgByOffset -t compat-orders -b broker-a -i 0 -o 0
printMsg -t compat-orders -c UTF-8 -s paid -b 1676730526212 -e 2999-01-01#00:00:00:000 -d true
printMsg -t compat-orders -d true
printMsgByQueue -t compat-orders -a broker-a -i 0 -p true -d true -f true
consumeMessage -t compat-orders -b broker-a -i 0 -o 0 -c 1
consumeMessage -t compat-orders -s 1676730526212 -e currentTimeMillis
consumeMessage -t compat-orders -c 1
sendMessage -t compat-orders -p hello -k o-9 -c paid
sendMsgStatus -b broker-a -s 128 -c 5
brokerStatus -b broker-a
brokerConsumeStats -b broker-a
getBrokerConfig -b broker-a
deleteExpiredCommitLog -b broker-a
wipeWritePerm -b broker-a
addWritePerm -b broker-a
getNamesrvConfig
clusterList
clusterList -m
exportConfigs
exportMetrics
deleteSubGroup -c DefaultCluster -g compat-trial
deleteTopic -c DefaultCluster -t compat-new
"""
"""Command lines as they stand in runbooks, each behind what it needs. Not here: updateBrokerConfig,
whose setting may not change while a broker runs."""

LINES_FOR_ADMIN = """\
createUser -b 127.0.0.1:10911 -u compat-rocketmq -p hush -t Super
createUser -c DefaultCluster -u compat-alice -p hush -t Normal
updateUser -c DefaultCluster -u compat-alice -p other
updateUser -c DefaultCluster -u compat-alice -t Normal
updateUser -c DefaultCluster -u compat-alice -s disable
updateUser -c DefaultCluster -u compat-alice -s enable
getUser -c DefaultCluster -u compat-alice
listUser -c DefaultCluster
createAcl -c DefaultCluster -s User:compat-alice -r Topic:*,Group:* -a Pub,Sub -i 10.0.0.7 -d Allow
updateAcl -c DefaultCluster -s User:compat-alice -r Topic:* -a Pub -d Deny
getAcl -c DefaultCluster -s User:compat-alice
listAcl -c DefaultCluster -s User:compat-alice
listAcl -c DefaultCluster -r Topic:orders
deleteAcl -c DefaultCluster -s User:compat-alice -r Topic:*
deleteAcl -c DefaultCluster -s User:compat-alice
deleteUser -c DefaultCluster -u compat-alice
exportMetadata -c DefaultCluster
"""
"""Those that admin carries out."""


FOR_GAPS = {"BROKER": "broker-a", "GROUP": "compat-group", "GROUP_NAME": "compat-group"}
"""What people fill in where mqadmin has an address."""

ASKING = {
    "credential delete": ("--yes",),
    "user delete": ("--yes",),
    "bench produce": ("--count", "5"),
    "broker clean": ("--yes",),
    "broker drain": ("--yes",),
    "group clone": ("--yes",),
    "group delete": ("--yes",),
    "group pause": ("--yes",),
    "group reset": ("--yes",),
    "topic delete": ("--yes",),
    "topic order": ("--yes",),
}
"""What is added for a test: yes for each question, and little for what would take long."""


@pytest.fixture
def known(ariane, ariane_json, lines):
    """A topic and a group, and what stands for ids."""
    ariane("topic", "create", "compat-orders", "--queues", "1", "--broker", "broker-a")
    ariane("produce", "compat-orders", lines("one", "two"), "--key", "o-1", "--tag", "paid")
    consume = ("consume", "compat-orders", "--group", "compat-group", "--from", "earliest")
    ariane(*consume, "--count", "1")
    found = ariane_json("message", "query", "compat-orders", "--key", "o-1")[0]
    return {"UNIQUE_ID": found["unique_id"], "MESSAGE_ID": found["message_id"]}


@pytest.mark.slow
def test_each_printed_command_runs(capfd, tmp_path, known):
    assert _wrong(LINES, capfd, tmp_path, known) == []


def test_users_and_rules_are_commands_that_run(admin_beside, ariane, capfd, tmp_path):
    assert _wrong(LINES_FOR_ADMIN, capfd, tmp_path, {}) == []


def _wrong(lines, capfd, tmp_path, known):
    """Which of the printed commands do not run, and what they say."""
    wrong = []
    for line in lines.splitlines():
        words = [known.get(word, word) for word in shlex.split(line)]
        assert main(["compat", "mqadmin", *words]) == ExitStatus.DONE
        for printed in capfd.readouterr().out.splitlines():
            status, said = _run(printed, capfd, tmp_path)
            if status != ExitStatus.DONE:
                wrong.append((line, printed, said))
    return wrong


def _run(printed, capfd, tmp_path):
    """Run a printed line as a shell would, with yes for each question; status and error."""
    body, _, command = printed.rpartition(" | ")
    program, *words = shlex.split(command)
    assert program == "ariane", printed
    path = " ".join(words[:2])
    if body:
        text = tmp_path / "body"
        text.write_bytes(subprocess.run(["sh", "-c", body], capture_output=True, check=True).stdout)
        words = [*(word for word in words if word != "-")]
        words.insert(2, str(text))
    words += ASKING.get(path, ())
    words = [FOR_GAPS.get(word, word) for word in words]
    status = main(words)
    return status, capfd.readouterr().err[-300:]
