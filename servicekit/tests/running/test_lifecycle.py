"""The life of a process, seen from outside."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("scripted_service.py")


@pytest.fixture
def start():
    started = []

    def start(misbehaviour="none", *flags, **environment):
        process = subprocess.Popen(
            [sys.executable, SCRIPT, "--listen", "127.0.0.1:0", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "MISBEHAVIOUR": misbehaviour, **environment},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def wait_for_line(stream, text):
    seen = []
    for line in stream:
        seen.append(line)
        if text in line:
            return seen
    pytest.fail(f"{text!r} never came: {seen}")


def steps(lines):
    return [line.split()[1] for line in lines if line.startswith("STEP")]


def test_ready_then_sigterm_stops_in_order(start, tmp_path):
    ready_file = tmp_path / "ready.json"
    process = start("none", "--ready-file", str(ready_file))
    ready = json.loads(process.stdout.readline())
    assert ready.pop("address").startswith("127.0.0.1:")
    assert ready == {"event": "ready", "service": "scripted", "pid": process.pid}
    assert json.loads(ready_file.read_text())["pid"] == process.pid
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert steps(errors.splitlines()) == ["recover", "serve_started", "drain", "stop"]
    assert not ready_file.exists()


def test_sighup_stops_in_order_however_often_it_comes(start):
    process = start("slow-drain", "--drain-s-max", "0.5")
    process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    seen = wait_for_line(process.stderr, "STEP drain")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGHUP)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert steps(seen + errors.splitlines())[-1] == "stop"


def test_a_signal_is_heard_by_a_loop_that_waits(start):
    process = start("signal-in-a-thread")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert steps(errors.splitlines())[-2:] == ["drain", "stop"]


def test_sigint_stops_in_order_too(start):
    process = start()
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in errors


@pytest.mark.parametrize("misbehaviour", ["slow-drain", "stuck-drain"])
def test_a_second_signal_ends_the_process_at_once(start, misbehaviour):
    process = start(misbehaviour)
    process.stdout.readline()
    process.terminate()
    seen = wait_for_line(process.stderr, "STEP drain")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert "stop" not in steps(seen + errors.splitlines())


@pytest.mark.skipif(sys.platform != "linux", reason="only there it can be hidden")
def test_secrets_are_hidden_before_any_setting_is_read(start, tmp_path):
    config = tmp_path / "settings.toml"
    os.mkfifo(config)
    flags = ("--config", str(config), "--password", "short", "--password=other")
    process = start("none", *flags, ARIANE_SCRIPTED_PASSWORD="third")
    with config.open("w") as written:  # It waits for the reader.
        folder = Path(f"/proc/{process.pid}")
        shown = (folder / "cmdline").read_text().split("\0")
        assert shown[-4:-1] == ["--password", "*****", "--password=*****"]
        environment = (folder / "environ").read_text().split("\0")
        assert "ARIANE_SCRIPTED_PASSWORD=*****" in environment
        written.write("")
    assert process.stdout.readline()


def test_a_taken_port_is_one_line(start):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        address = f"127.0.0.1:{holder.getsockname()[1]}"
        process = start("none", "--listen", address)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert output == ""
    assert errors == f"ariane-scripted: cannot listen on {address}: Address already in use\n"


def test_two_services_on_one_port(start):
    first = start()
    address = json.loads(first.stdout.readline())["address"]
    second = start("none", "--listen", address)
    _, errors = second.communicate(timeout=60)
    assert second.returncode == 2
    assert errors.count("\n") == 1


def test_a_host_of_another_machine_is_one_line(start):
    process = start("none", "--listen", "192.0.2.1:0", "--insecure")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors == (
        "ariane-scripted: cannot listen on 192.0.2.1:0: Cannot assign requested address\n"
    )


def test_a_refused_start_is_one_line_and_stops_what_began(start):
    process = start("refuse")
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert output == ""
    assert [line for line in errors.splitlines() if not line.startswith("{")] == [
        "STEP recover",
        "STEP stop",
        "ariane-scripted: the store is locked by process 1",
    ]


def test_a_refused_start_tells_its_cause_though_its_stop_saves_nothing(start):
    process = start("refuse-and-save-nothing")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    told = errors.splitlines()
    assert told[-1] == "ariane-scripted: the store is locked by process 1"
    [logged] = [json.loads(line) for line in told if line.startswith("{") and "cause" in line]
    assert logged["cause"] == "snapshots: no space left"
    assert "exception" not in errors


def test_a_fault_in_recovery_is_logged_with_its_trace(start):
    process = start("crash")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert steps(errors.splitlines()) == ["recover", "stop"]
    [line] = [json.loads(line) for line in errors.splitlines() if "service_failed" in line]
    assert line["exception"][0]["exc_type"] == "RuntimeError"


def test_a_signal_during_recovery_cancels_it(start):
    process = start("slow-recovery")
    seen = wait_for_line(process.stderr, "STEP recover")
    process.terminate()
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert output == ""
    assert steps(seen + errors.splitlines())[-1] == "stop"


def test_a_drain_that_takes_too_long_is_cut_short(start):
    process = start("slow-drain", "--drain-s-max", "0.2")
    process.stdout.readline()
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "drain_cut_short" in errors
    assert steps(errors.splitlines())[-1] == "stop"


def test_a_drain_that_fails_still_stops_and_tells(start):
    process = start("failing-drain")
    process.stdout.readline()
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert steps(errors.splitlines())[-1] == "stop"


def test_a_service_may_ask_to_stop_with_a_fault(start):
    process = start("ask-to-stop")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "store poisoned" in errors
    assert steps(errors.splitlines()) == ["recover", "serve_started", "drain", "stop"]


def test_a_closed_standard_output_is_no_reason_to_stop(start):
    process = start()
    process.stdout.close()
    wait_for_line(process.stderr, "service_ready")
    process.terminate()
    errors = process.stderr.read()
    assert process.wait(20) == 0
    assert "Traceback" not in errors


def test_an_open_door_is_warned_of(start):
    process = start("none", "--listen", "0.0.0.0:0", "--insecure")
    address = json.loads(process.stdout.readline())["address"]
    assert address.startswith("0.0.0.0:")
    assert not address.endswith(":0")
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert "listening_without_credentials" in errors


def test_backends_that_are_told_all_in_plain_text_are_warned_of(start):
    flags = ("--access", "closed", "--otlp-endpoint", "http://collector.invalid:4317")
    refused = start("none", *flags)
    _, errors = refused.communicate(timeout=60)
    assert refused.returncode == 2
    assert errors.startswith("ariane-scripted: otlp_endpoint: ")
    assert errors.count("\n") == 1
    process = start("none", *flags, "--insecure-backends")
    warned = wait_for_line(process.stderr, "backends_without_tls")
    assert json.loads(warned[-1])["settings"] == ["otlp_endpoint"]


@pytest.mark.parametrize(
    ("flags", "environment", "line"),
    [
        (["--lisen", "x"], {}, "unknown flag --lisen; did you mean --listen?"),
        ([], {"ARIANE_SCRIPTED_GRACE": "1"}, "did you mean ARIANE_SCRIPTED_GRACE_S?"),
        (["--grace-s", "long"], {}, "--grace-s: input should be a valid number"),
    ],
)
def test_illegal_settings_are_one_line(start, flags, environment, line):
    process = start("none", *flags, **environment)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert output == ""
    assert errors.startswith("ariane-scripted: ")
    assert errors.count("\n") == 1
    assert line in errors
