"""``ariane spark``: command lines, errors in one line, and each command once for real."""

import importlib
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib.metadata import entry_points

import click
import pytest
import yaml
from click.testing import CliRunner
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import ariane_pipelines
from ariane_pipelines.commands import spark as spark_commands
from ariane_pipelines.commands.group import LINES
from ariane_pipelines.commands.redrive import shipped_function
from ariane_pipelines.commands.shared import Moment, one_line_errors, write_data
from ariane_pipelines.error_texts import message_of
from ariane_sdk import Message
from ariane_spark.errors import OptionIllegal


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(spark_commands, [str(a) for a in arguments])


@pytest.fixture
def in_this_session(monkeypatch, spark):
    """Commands use the session of the tests, and leave it running."""
    monkeypatch.setattr("ariane_spark.spark_session.session", lambda *_, **__: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)


def test_ariane_finds_the_commands():
    (point,) = entry_points(group="ariane.commands", name="spark")

    assert point.value == "ariane_pipelines.commands:spark"


@pytest.mark.parametrize("name", ["café", "a\x1b[31mred", "right\u202eleft"])
def test_results_are_the_same_in_json_and_yaml_and_move_no_terminal(name, capsys):
    told = {"folder": name, "message_count": 7}
    write_data(told, "json")
    as_json = capsys.readouterr().out
    write_data(told, "yaml")
    as_yaml = capsys.readouterr().out

    assert json.loads(as_json) == yaml.safe_load(as_yaml) == told
    for text in (as_json, as_yaml):
        assert text.replace("\n", "").isprintable()


def test_help_starts_no_spark():
    program = (
        "import sys; from click.testing import CliRunner; import ariane_pipelines.commands as c;"
        "print(CliRunner().invoke(c.spark, ['archive', '-h']).output);"
        "sys.exit('py4j' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert "Write TOPICS to Parquet" in done.stdout, done.stderr


def test_help_and_completion_of_the_group_load_no_command():
    program = (
        "import sys; from click.shell_completion import ShellComplete\n"
        "from click.testing import CliRunner; from ariane_pipelines.commands import spark\n"
        "names = ShellComplete(spark, {}, 'spark', 'X').get_completions([], 're')\n"
        "assert [each.value for each in names] == ['redrive', 'replay', 'report'], names\n"
        "print(CliRunner().invoke(spark, ['-h']).output)\n"
        "heavy = {'ariane_sdk', 'ariane_spark', 'pyspark', 'numpy', 'grpc'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    for name, line in LINES.items():
        command = spark_commands.get_command(click.Context(spark_commands), name)
        assert command.name == name
        assert command.get_short_help_str(limit=300) == line
        assert line in done.stdout
    assert spark_commands.get_command(click.Context(spark_commands), "archives") is None


def test_what_the_package_names_is_what_its_modules_have():
    for name in ariane_pipelines.__all__:
        assert getattr(ariane_pipelines, name).__name__ == name
        assert name in dir(ariane_pipelines)
    with pytest.raises(AttributeError, match="has no attribute 'redrives'"):
        _ = ariane_pipelines.redrives


@pytest.mark.parametrize(
    ("arguments", "clause"),
    [
        (("archive", "--to", "x"), "give either topics or --pattern"),
        (("archive", "orders", "--pattern", "o.*", "--to", "x"), "give either topics or --pattern"),
        (("replay", "a", "b", "--since", "yesterday"), "is neither a time with a zone"),
        (("replay", "a", "b", "--since", "2013-02-08T05:00:00"), "is neither a time with a zone"),
        (("report", "--to", "x", "--since", "1h", "--until", "2h"), "--until must be later"),
        (("report", "--to", "no-such-folder/x"), "there is no folder no-such-folder"),
        (("replay", "a", "b", "--since", "999999d"), "is neither a time with a zone"),
    ],
)
def test_wrong_command_lines_are_refused_before_anything_is_done(run, arguments, clause):
    done = run(*arguments)

    assert done.exit_code == 2
    assert clause in done.output


def test_a_plan_that_cannot_be_is_one_line(run):
    done = run("replay", "orders", "orders", "--since", "1h")

    assert done.exit_code == 1
    assert done.output == (
        "ariane spark: option 'target': is the source: a replay into itself would be replayed"
        " again\n"
    )


def test_times():
    moment = Moment().convert("90m", None, None)

    assert abs(datetime.now(UTC) - timedelta(minutes=90) - moment) < timedelta(minutes=1)
    assert Moment().convert("2013-02-08T05:00Z", None, None).tzinfo is UTC
    assert Moment().convert(moment, None, None) is moment
    with pytest.raises(click.BadParameter):
        Moment().convert("5w", None, None)


def test_of_sparks_errors_our_own_words_are_told():
    trace = 'Job aborted.\n  File "x.py"\nariane_spark.errors.DataLost: 3 messages are lost\n'

    assert message_of(PySparkException(trace)) == "3 messages are lost"
    of_a_room = "x\nariane_sdk.errors.calls.RouteNotFound: no broker carries it\n SQLSTATE: 38000"
    assert message_of(PySparkException(of_a_room)) == "no broker carries it"
    assert message_of(PySparkException("\nJob aborted.\nand more")) == "Job aborted."
    java = "An error occurred while calling o9.start.\n: java.io.IOException: Mkdirs failed\n\tat x"
    assert message_of(Py4JError(java)) == "java.io.IOException: Mkdirs failed"


@pytest.mark.parametrize("error", [Py4JError("gone\nat x"), OverflowError("gone")])
def test_whatever_java_says_is_one_line(error):
    @one_line_errors
    def fail():
        raise error

    if isinstance(error, Py4JError):
        with pytest.raises(SystemExit, match="1"):
            fail()
    else:
        with pytest.raises(OverflowError):  # A fault of ours keeps its trace.
            fail()


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("def mend(letter:\n", "broken_mending:mend: .* was never closed"),
        ("raise ValueError('no\\nway')\n", "broken_mending:mend: no way"),
        ("", "no attribute 'mend'"),
        ("mend = 5\n", "is not a function"),
    ],
)
def test_a_module_of_the_user_that_does_not_load_is_one_line(tmp_path, monkeypatch, text, clause):
    (tmp_path / "broken_mending.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "broken_mending", raising=False)
    importlib.invalidate_caches()

    with pytest.raises(OptionIllegal, match=clause) as refusal:
        shipped_function("repair", "broken_mending:mend")

    assert "\n" not in str(refusal.value)
    sys.modules.pop("broken_mending", None)


@pytest.mark.slow
@pytest.mark.spark
def test_each_command_does_its_work(
    run, in_this_session, local_cluster, new_topic, producer, reading, tmp_path
):
    source, target = new_topic(), new_topic()
    producer.send_batch([Message(source, b"%d" % n) for n in range(25)])
    folder, page = tmp_path / "archive", tmp_path / "report.html"
    where = ("--name-servers", local_cluster.name_servers)

    archived = run("archive", source, "--to", folder, "--group", f"archive-{source}", *where)
    replayed = run("replay", source, target, "--since", "1h", "--archive", folder, *where)
    reported = run("report", "--to", page, "--pattern", source, *where)

    again = run("archive", source, "--to", folder, "-o", "json", *where)
    elsewhere = run("replay", source, target, "--since", "1h", "-o", "json", *where)
    counted = run("report", "--to", page, "--pattern", source, "-o", "json", *where)
    assert json.loads(again.output) == {"folder": str(folder), "message_count": 0}
    assert json.loads(elsewhere.output) == {
        "source": source,
        "target": target,
        "message_count": 25,
    }
    assert json.loads(counted.output) == {
        "path": str(page),
        "topics": [{"topic": source, "message_count": 25, "again_count": 0}],
        "groups": [{"group": f"archive-{source}", "topic": source, "lag": 0}],
    }

    assert archived.output == f"25 messages archived to {folder}\n"
    assert replayed.output == f"25 messages of {source} sent to {target}\n"
    assert reported.output == f"25 messages of 1 topic, reported in {page}\n"
    assert reading(target).load().count() == 50
    assert f"archive-{source}" in page.read_text()

    refused = run("archive", "no-such-topic", "--to", tmp_path / "other", *where)
    assert refused.exit_code == 1
    assert refused.output.startswith("ariane spark: ")
    assert "no-such-topic" in refused.output
    assert refused.output.count("\n") == 1
