"""One convention: tables for people, JSON for programs."""

import json
import re
import sys

import click
from click.testing import CliRunner

from ariane_admin.terminal.output import output_option
from ariane_admin.terminal.progress import progress
from ariane_admin.terminal.tables import print_rows

ROWS = [{"topic": "orders", "queues": 1200, "brokers": ["broker-a", "broker-b"], "spare": None}]


@click.command()
@output_option
def rows(output):
    output.rows(["topic", "queues", "brokers"], ROWS)


@click.command()
@output_option
def record(output):
    output.record(ROWS[0])


@click.command()
@output_option
def done(output):
    output.done("Topic orders is there.", {"topic": "orders", "created": True})


def out(command, *arguments):
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_list_is_one_array_with_all_fields():
    assert json.loads(out(rows, "-o", "json")) == ROWS


def test_a_table_shows_its_columns():
    text = out(rows)
    assert "topic" in text
    assert "1,200" in text
    assert "broker-a, broker-b" in text
    assert "spare" not in text


def test_a_table_in_a_pipe_is_not_cut():
    @click.command()
    @output_option
    def wide(output):
        output.rows(["body"], [{"body": "x" * 500}])

    assert "x" * 500 in out(wide)


def test_a_terminal_that_has_room_for_each_word_cuts_none(monkeypatch, capsys):
    time = "2026-11-23T21:32:04.337+00:00"
    row = {"group": "billing", "members": 0, "topics": ["%RETRY%billing", "orders"], "oldest": time}
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    heads = set()
    for columns in range(50, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        print_rows(list(row), [row])
        text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
        for word in (time, "billing", "members", "%RETRY%billing,", "orders"):
            assert word in text, columns
        assert max(map(len, text.splitlines())) <= columns
        heads.add(text.split()[:2] == ["group", "members"])
    assert heads == {True, False}, "both as a table and field by field"


def test_an_empty_list_is_still_a_list():
    @click.command()
    @output_option
    def nothing(output):
        output.rows(["topic"], [])

    assert json.loads(out(nothing, "-o", "json")) == []
    assert "topic" in out(nothing)


def test_a_record_is_one_object():
    assert json.loads(out(record, "-o", "json")) == ROWS[0]
    assert "1,200" in out(record)


def test_the_result_of_a_change_is_a_sentence_or_an_object():
    assert out(done) == "Topic orders is there.\n"
    assert json.loads(out(done, "-o", "json")) == {"topic": "orders", "created": True}


def test_another_format_is_wrong_usage():
    assert CliRunner().invoke(rows, ["-o", "xml"]).exit_code == 2


def test_brackets_of_a_body_are_no_markup():
    @click.command()
    @output_option
    def body(output):
        output.rows(["body"], [{"body": "[red]alert[/red]"}])
        output.record({"body": "[red]alert[/red]"})

    assert out(body).count("[red]alert[/red]") == 2


def test_a_thing_has_its_lists_as_fields_and_as_tables():
    @click.command()
    @output_option
    def thing(output):
        parts = {"queue_list": (("queue",), [{"queue": 7, "more": 1}]), "none": (("x",), [])}
        output.record({"topic": "orders"}, parts)

    assert json.loads(out(thing, "-o", "json")) == {
        "topic": "orders",
        "queue_list": [{"queue": 7, "more": 1}],
        "none": [],
    }
    text = out(thing)
    assert "Queue list:" in text
    assert "None:" not in text


def test_progress_is_a_line_now_and_then_where_nobody_sits(capfd):
    now_s = 0.0
    with progress(lambda: now_s) as show:
        for _ in range(400):
            show(f"{now_s:.0f} s of work\a")
            now_s += 0.5
    out, err = capfd.readouterr()
    assert out == ""
    times = (5, 15, 35, 75, 135, 195)
    assert err.splitlines() == [f"ariane: {time} s of work\\x07" for time in times]


def test_no_progress_is_shown_for_quick_work_or_without_a_terminal(capfd):
    with progress() as show:
        show("1,000 messages sent")
    assert capfd.readouterr() == ("", "")


def test_progress_is_a_line_on_a_terminal(capfd, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress() as show:
        show("1,000 messages sent")
    assert capfd.readouterr().out == ""


def test_nothing_of_a_row_is_obeyed_by_a_terminal():
    trick = "\x1b[31m\x9b5m\u202e\x07"

    @click.command()
    @output_option
    def hostile(output):
        output.rows(["tag"], [{"tag": trick, "list": [trick]}])
        output.record({"tag": trick, "map": {trick: trick}})
        output.done(f"Done: {trick}", {"tag": trick})

    text = out(hostile)
    assert not any(sign in text for sign in "\x1b\x9b\u202e\x07")
    assert text.count("\\x1b[31m") == 5
    text = out(hostile, "-o", "json")
    assert not any(sign in text for sign in "\x1b\x9b\u202e\x07")
    assert json.loads(text.splitlines()[0]) == [{"tag": trick, "list": [trick]}]
