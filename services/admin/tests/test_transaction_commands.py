"""``ariane transaction`` over a real checker: nobody answers, and an operator decides."""

from __future__ import annotations

import asyncio
import socket
import time

import grpc
import pytest

from ariane.broker.v1.send_service_pb2 import SendMessagesRequest
from ariane.broker.v1.send_service_pb2_grpc import SendServiceStub
from ariane.common.v1.message_pb2 import MESSAGE_TYPE_TRANSACTION, Message
from ariane_admin.exits import ExitStatus
from ariane_servicekit.processes import ServiceProcess

QUICK = (
    *("--first-check-s", "0.2", "--check-interval-s", "0.2", "--survey-interval-s", "0.1"),
    *("--note-age-s", "0", "--check-count-max", "1", "--lease-s", "1"),
)


@pytest.fixture
def checker(cluster, tmp_path, monkeypatch):
    """A transaction checker that gives up soon."""
    arguments = ("--name-servers", cluster.name_servers, "--data-path", str(tmp_path / "data"))
    process = ServiceProcess(
        "txn-checker", "ariane_txn_checker", (*arguments, *QUICK), tmp_path / "checker.log"
    )
    cluster.call_blocking(process.start)
    monkeypatch.setenv("ARIANE_TXN_CHECKER", process.address)
    yield process
    cluster.call_blocking(process.stop)


def store_half(cluster, transaction_id):
    """Send a half message that nobody will answer for."""

    async def send():
        message = Message(
            body=b"paid",
            unique_id=transaction_id,
            keys=["o-1"],
            message_type=MESSAGE_TYPE_TRANSACTION,
        )
        async with grpc.aio.insecure_channel(cluster.brokers[0].address) as channel:
            await SendServiceStub(channel).SendMessages(
                SendMessagesRequest(topic="payments", messages=[message], producer_group="cashiers")
            )

    asyncio.run(send())


def wait_for(find):
    """Ask again until there is something; the checker tells nobody."""
    end = time.monotonic() + 30
    while not (found := find()):
        assert time.monotonic() < end, "nothing came"
    return found


def test_from_parked_to_decided(cluster, checker, ariane, ariane_json):
    store_half(cluster, "cli-1")
    [row] = wait_for(lambda: ariane_json("transaction", "parked", "--group", "cashiers"))
    assert (row["transaction_id"], row["state"], row["outcome"]) == ("cli-1", "parked", "")
    assert (row["topic"], row["keys"], row["checks"]) == ("payments", ["o-1"], 1)
    shown = ariane_json("transaction", "show", "cli-1")
    [check] = shown["check_list"]
    assert (check["check"], check["failure_reason"]) == (1, "CLIENT_NOT_ATTACHED")
    assert "CLIENT_NOT_ATTACHED" in ariane("transaction", "show", "cli-1")
    assert ariane_json("transaction", "parked", "--topic", "other") == []
    assert "is under check" in ariane("transaction", "resume", "cli-1")
    wait_for(lambda: ariane_json("transaction", "parked"))

    cause = ("--cause", "nobody knows")
    decide = ("transaction", "decide", "cli-1")
    assert "--commit or --rollback" in ariane(*decide, *cause, status=ExitStatus.USAGE)
    assert "--yes" in ariane(*decide, "--commit", *cause, status=ExitStatus.USAGE)
    assert "has ended: commit" in ariane(*decide, "--commit", "--yes", *cause)
    refusal = ariane(*decide, "--rollback", "--yes", *cause, status=ExitStatus.REFUSED)
    assert "COMMIT" in refusal
    decided = ariane_json("transaction", "show", "cli-1")
    assert (decided["state"], decided["outcome"]) == ("decided", "commit")
    assert (decided["decider"], decided["cause"]) == ("operator", "nobody knows")
    assert ariane_json("transaction", "list") == []
    unknown = ariane("transaction", "show", "nobody", status=ExitStatus.NOT_FOUND)
    assert "nobody" in unknown


def test_a_checker_that_is_no_address(ariane):
    told = ariane("transaction", "list", "--checker", "nonsense", status=ExitStatus.USAGE)
    assert "host:port" in told


def test_a_checker_whose_host_nobody_knows_is_not_there(ariane):
    address = "no-such-host.invalid:9880"
    ariane("transaction", "list", "--checker", address, status=ExitStatus.UNREACHABLE)


def test_a_question_without_an_answer_is_no_unknown_outcome(ariane, monkeypatch):
    monkeypatch.setattr("ariane_admin.commands.transaction.CALL_SECONDS_MAX", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        checker = ("--checker", f"127.0.0.1:{silent.getsockname()[1]}")
        ariane("transaction", "list", *checker, status=ExitStatus.UNREACHABLE)
        ariane("transaction", "show", "any", *checker, status=ExitStatus.UNREACHABLE)
        ariane("transaction", "resume", "any", *checker, status=ExitStatus.OUTCOME_UNKNOWN)


def test_a_checker_that_is_not_there(ariane):
    told = ariane("transaction", "list", "--checker", "127.0.0.1:1", status=ExitStatus.UNREACHABLE)
    assert "transaction checker at 127.0.0.1:1" in told
    assert "say where it is by --checker or ARIANE_TXN_CHECKER" in told
