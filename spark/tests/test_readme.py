"""The README says what the code does."""

import re
from pathlib import Path

import pytest

import ariane_spark
from ariane_sdk.sync import Message
from ariane_spark.options.option_table import OPTIONS
from ariane_spark.records.columns import COLUMNS
from ariane_spark.records.rows import WRITABLE_COLUMNS

README = (Path(__file__).parents[1] / "README.md").read_text()


def section(name):
    start = README.index("-->", README.index(f"<!-- {name}:")) + 4
    return README[start : README.index(f"<!-- end of {name} -->")].strip()


def table(*rows):
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def uses(option):
    return ", ".join(use.value for use in option.uses)


def test_every_option_is_documented_as_it_is():
    rows = [
        (f"`{option.name}`", uses(option), option.default, option.meaning)
        for option in OPTIONS
        if not option.later
    ]

    expected = table(("option", "for", "default", ""), ("---",) * 4, *rows)

    assert section("options") == expected, f"the README should say\n\n{expected}\n"


def test_every_option_of_later_versions_is_named():
    rows = [(f"`{o.name}`", uses(o), o.meaning) for o in OPTIONS if o.later]

    expected = table(("option", "for", ""), ("---",) * 3, *rows)

    assert section("later") == expected, f"the README should say\n\n{expected}\n"


def test_every_column_is_documented():
    reading, writing = README.split("## Writing")
    for column in COLUMNS:
        field = column.field
        kind = field.dataType.simpleString().replace("<", "&lt;").replace(">", "&gt;")
        assert f"| `{field.name}` | {kind} | {'yes' if field.nullable else 'no'} |" in reading
    for name in WRITABLE_COLUMNS:
        assert f"| `{name}` |" in writing


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_every_program_and_statement_runs_as_it_stands(
    spark, local_cluster, client, producer, reading, tmp_path, monkeypatch, capfd
):
    for topic in ("orders", "copies", "events"):
        client.create_topic(topic, queue_count=2)
    for tag in ("created", "created", "paid"):
        producer.send(Message("orders", b"an order", tag=tag))
    # The tests' session instead of one of its own: Spark has one in a process.
    monkeypatch.setattr(ariane_spark, "session", lambda _name: spark)
    known = {}

    def run(program):
        program = program.replace("127.0.0.1:9876", local_cluster.name_servers)
        # Relative paths are Spark's, which stands where its Java process was started.
        program = program.replace('"checkpoints/', f'"{tmp_path}/')
        exec(program, known)  # noqa: S102 - the README's own text.

    table, stream, columns, exactly, closed, watched = blocks("python")
    run(table)
    assert re.search(r"created\|\s*2\|", capfd.readouterr().out)
    assert reading("copies").load().count() == 3
    run(stream)
    assert reading("copies").load().count() == 6
    run(exactly)
    assert reading("copies").load().count() == 9

    where = '.format("ariane").option("topic", "orders").option("endpoints", "127.0.0.1:9876")'
    for line in columns.splitlines():
        reader = line.partition("#")[0].strip()
        run(f"count = {reader}{where}.load().count()")
        assert known["count"] == 3

    compile(closed, "closed", "exec")  # test_closed_cluster.py does what it says.
    ending = f'spark.readStream{where}.load().writeStream.format("noop").trigger(availableNow=True)'
    run(f"query = {ending}.start()")
    run(watched)

    [script] = blocks("sql")
    script = script.replace("127.0.0.1:9876", local_cluster.name_servers)
    try:
        answers = [spark.sql(each) for each in script.split(";") if each.strip()]
        assert reading("copies").load().count() == 12
        assert answers[-1].collect()[0][0] == 3
        assert reading("events").load().count() == 3
    finally:
        spark.sql("DROP TABLE IF EXISTS events")
        for view in ("orders", "copies"):
            spark.catalog.dropTempView(view)
