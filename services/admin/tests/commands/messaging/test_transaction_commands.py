"""``ariane transaction`` over a real checker: nobody answers, and an operator decides."""

from __future__ import annotations

import asyncio
import socket
import time
from functools import partial

import grpc
import pytest

import ariane_wire
from ariane.broker.v1.send_service_pb2 import SendMessagesRequest
from ariane.broker.v1.send_service_pb2_grpc import SendServiceStub
from ariane.common.v1.message_pb2 import MESSAGE_TYPE_TRANSACTION, Message
from ariane.transaction.v1 import checked_transaction_service_pb2 as checked_pb
from ariane_admin.asking import cluster_doors
from ariane_admin.cli import main
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk.sync import Message as SentMessage
from ariane_sdk.sync import Producer
from ariane_servicekit.running.processes import ServiceProcess

QUICK = (
    *("--first-check-s", "0.2", "--check-interval-s", "0.2", "--survey-interval-s", "0.1"),
    *("--note-age-s", "0", "--check-count-max", "1"),
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


def store_half(cluster, transaction_id, topic="payments", group="cashiers"):
    """Send a half message that nobody will answer for."""

    async def send():
        message = Message(
            body=b"paid",
            unique_id=transaction_id,
            keys=["o-1"],
            message_type=MESSAGE_TYPE_TRANSACTION,
        )
        async with grpc.aio.insecure_channel(cluster.brokers[0].address) as channel:
            request = SendMessagesRequest(topic=topic, messages=[message], half_group=group)
            await SendServiceStub(channel).SendMessages(request)

    asyncio.run(send())


def wait_for(find):
    """Ask again until there is something; the checker tells nobody."""
    end = time.monotonic() + 120
    while not (found := find()):
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.05)
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
    of_broker = ("transaction", "parked", "--broker")
    assert ariane_json(*of_broker, "broker-z") == []
    assert [each["transaction_id"] for each in ariane_json(*of_broker, row["broker"])] == ["cli-1"]
    assert "is under check" in ariane("transaction", "resume", "cli-1")
    wait_for(lambda: ariane_json("transaction", "parked"))

    cause = ("--cause", "nobody knows")
    decide = ("transaction", "decide", "cli-1")
    told = ariane_json(*decide, "--commit", *cause, "--dry-run")
    assert told == {"undecided": 1, "decided": 0, "outcome": "commit", "dry_run": True}
    assert ariane_json("transaction", "show", "cli-1")["state"] == "parked"
    unknown = ("transaction", "decide", "nobody", "--commit", *cause, "--dry-run")
    assert "nobody" in ariane(*unknown, status=ExitStatus.NOT_FOUND)
    assert "--commit or --rollback" in ariane(*decide, *cause, status=ExitStatus.USAGE)
    assert "--yes" in ariane(*decide, "--commit", *cause, status=ExitStatus.USAGE)
    assert "has ended: commit" in ariane(*decide, "--commit", "--yes", *cause)
    refusal = ariane(*decide, "--rollback", "--yes", *cause, status=ExitStatus.REFUSED)
    assert "COMMIT" in refusal
    told = ariane_json(*decide, "--rollback", *cause, "--dry-run")
    assert (told["undecided"], told["decided"]) == (0, 1)
    decided = ariane_json("transaction", "show", "cli-1")
    assert (decided["state"], decided["outcome"]) == ("decided", "commit")
    assert (decided["decider"], decided["cause"]) == ("operator", "nobody knows")
    assert ariane_json("transaction", "list") == []
    unknown = ariane("transaction", "show", "nobody", status=ExitStatus.NOT_FOUND)
    assert "nobody" in unknown


def test_many_are_resumed_and_decided_by_group_or_topic(
    cluster, checker, ariane, ariane_json, capfd
):
    ids = {f"bulk-{number}" for number in range(5)}
    for transaction_id in ids:
        store_half(cluster, transaction_id, topic="bulk", group="bulk-cashiers")

    def parked():
        rows = ariane_json("transaction", "parked", "--topic", "bulk")
        return len(rows) == len(ids)

    wait_for(parked)
    assert main(["transaction", "parked", "--count", "2", "--topic", "bulk"]) == ExitStatus.DONE
    out, err = capfd.readouterr()
    assert out.count("o-1") == 2  # Their keys tell people which they are.
    assert "there are more than these 2" in err

    both = ("--group", "bulk-cashiers", "--topic", "bulk")
    cause = ("--cause", "test data")
    ariane("transaction", "resume", status=ExitStatus.USAGE)
    ariane("transaction", "resume", "bulk-1", *both, "--yes", status=ExitStatus.USAGE)
    assert "--yes" in ariane("transaction", "resume", *both, status=ExitStatus.USAGE)
    assert "0 transactions are" in ariane("transaction", "resume", "--group", "other", "--yes")
    assert ariane_json("transaction", "resume", *both, "--yes") == {"done": 5, "failed": 0}
    wait_for(parked)
    ariane("transaction", "decide", "bulk-0", "--commit", *cause, "--yes")
    told = ariane(
        *("transaction", "decide", "bulk-0", "bulk-1", "--rollback", *cause, "--yes"),
        status=ExitStatus.REFUSED,
    )
    assert "1 transaction has ended; not done: 1 (1 TRANSACTION_DECIDED)" in told
    rest = ("transaction", "decide", *both, "--rollback", *cause)
    told = ariane(*rest, "--dry-run")
    assert told == "3 transactions would be rolled back; with an outcome already, which stays: 0.\n"
    assert len(ariane_json("transaction", "parked", "--topic", "bulk")) == 3
    assert ariane_json(*rest, "--yes") == {"done": 3, "failed": 0}
    assert ariane_json("transaction", "parked", "--topic", "bulk") == []
    outcomes = [ariane_json("transaction", "show", each)["outcome"] for each in sorted(ids)]
    assert outcomes == ["commit", *["rollback"] * 4]


def test_why_an_answer_was_unknown_is_told(cluster, checker, ariane, ariane_json):
    def fail(check):
        raise LookupError("no such order in\nthe ledger")

    with Producer(cluster.name_servers, group="puzzled", transaction_checker=fail) as producer:
        half = producer.send_half(SentMessage("puzzles", b"x", keys=("o-7",)))
        wait_for(lambda: ariane_json("transaction", "parked", "--group", "puzzled"))
    [check] = ariane_json("transaction", "show", half.transaction_id)["check_list"]
    assert check["answer"] == "unknown"
    assert check["failure_reason"].startswith(
        "the producer's checker failed: LookupError: no such order in"
    )
    assert "LookupError" in ariane("transaction", "show", half.transaction_id)


def test_a_checker_that_is_no_address(ariane):
    told = ariane("transaction", "list", "--checker", "nonsense", status=ExitStatus.USAGE)
    assert "host:port" in told


def test_a_checker_whose_host_nobody_knows_is_not_there(ariane):
    address = "no-such-host.invalid:9880"
    ariane("transaction", "list", "--checker", address, status=ExitStatus.UNREACHABLE)


@pytest.fixture
def unanswering(cluster):
    """A process that takes calls to a checker, and answers none."""
    server = ariane_wire.server()

    async def never(_request, _context):
        await asyncio.Event().wait()

    async def start():
        [service] = checked_pb.DESCRIPTOR.services_by_name.values()
        handler = grpc.unary_unary_rpc_method_handler(never)
        server.add_registered_method_handlers(
            service.full_name, {method.name: handler for method in service.methods}
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        return f"127.0.0.1:{port}"

    yield cluster.call_blocking(start)
    cluster.call_blocking(partial(server.stop, None))


def test_a_question_without_an_answer_is_no_unknown_outcome(ariane, monkeypatch, unanswering):
    def wait_only(seconds):
        for ask in (cluster_doors.all_pages, cluster_doors.answer_from):
            monkeypatch.setitem(ask.__kwdefaults__, "seconds_max", seconds)
        monkeypatch.setattr("ariane_admin.servicers.transactions.CALL_SECONDS_MAX", seconds)

    wait_only(0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        checker = ("--checker", f"127.0.0.1:{silent.getsockname()[1]}")
        ariane("transaction", "list", *checker, status=ExitStatus.UNREACHABLE)
        # Nobody has shaken hands, so that nothing was sent.
        ariane("transaction", "resume", "any", *checker, status=ExitStatus.UNREACHABLE)
    checker = ("--checker", unanswering)
    ariane("transaction", "list", *checker, status=ExitStatus.UNREACHABLE)
    ariane("transaction", "show", "any", *checker, status=ExitStatus.UNREACHABLE)
    wait_only(1.0)  # Time to shake hands, on a busy machine, too.
    ariane("transaction", "resume", "any", *checker, status=ExitStatus.OUTCOME_UNKNOWN)


def test_a_checker_that_is_not_there(ariane):
    told = ariane("transaction", "list", "--checker", "127.0.0.1:1", status=ExitStatus.UNREACHABLE)
    assert "transaction checker at 127.0.0.1:1" in told
    assert "give its address with --checker or ARIANE_TXN_CHECKER" in told
