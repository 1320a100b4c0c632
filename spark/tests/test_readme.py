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


@pytest.fixture
def said(local_cluster, new_topic, tmp_path):
    """Make a program of the README one for this cluster, with topics of its own."""
    orders, copies, events = new_topic(), new_topic(), new_topic()

    def of_here(program: str) -> str:
        for name, topic in (("orders", orders), ("copies", copies), ("events", events)):
            program = re.sub(rf"(topic ?=? ?|, )(['\"]){name}(['\"])", rf"\1\2{topic}\3", program)
        program = program.replace("checkpoints/", f"{tmp_path}/")
        return program.replace("127.0.0.1:9876", local_cluster.name_servers)

    of_here.orders, of_here.copies, of_here.events = orders, copies, events
    return of_here


def run(program, known):
    exec(program, known)  # noqa: S102 - the README's own text.


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_every_program_runs_as_it_stands(spark, said, producer, reading, capfd):
    for tag in ("created", "created", "paid"):
        producer.send(Message(said.orders, b"an order", tag=tag))
    table, stream, columns, exactly, closed, watched = blocks("python")
    # This session instead of one of its own, whose settings would be those of all tests.
    table = table.replace('ariane_spark.session("orders")', "ariane_spark.session_of_tests")
    known = {"ariane_spark": ariane_spark, "spark": spark}
    ariane_spark.session_of_tests = spark
    try:
        run(said(table), known)
    finally:
        del ariane_spark.session_of_tests
    assert re.search(r"created\|\s*2\|", capfd.readouterr().out)
    assert reading(said.copies).load().count() == 3
    run(said(stream), known)
    assert reading(said.copies).load().count() == 6
    run(said(exactly), known)
    assert reading(said.copies).load().count() == 9

    where = (
        f'.format("ariane").option("topic", "{said.orders}").option("endpoints", "127.0.0.1:9876")'
    )
    for line in columns.splitlines():
        reader = line.partition("#")[0].strip()
        run(said(f"count = {reader}{where}.load().count()"), known)
        assert known["count"] == 3

    compile(closed, "closed", "exec")  # test_closed_cluster.py does what it says.
    ending = f'spark.readStream{where}.load().writeStream.format("noop").trigger(availableNow=True)'
    run(said(f"query = {ending}.start()"), known)
    run(watched, known)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_every_statement_of_sql_runs_as_it_stands(spark, said, producer, reading):
    producer.send(Message(said.orders, b"an order", tag="created"))
    [script] = blocks("sql")
    answers = [spark.sql(said(each)) for each in script.split(";") if each.strip()]
    try:
        assert reading(said.copies).load().count() == 1
        assert answers[-1].collect()[0][0] == 1
        assert reading(said.events).load().count() == 1
    finally:
        spark.sql("DROP TABLE IF EXISTS events")
        for view in ("orders", "copies"):
            spark.catalog.dropTempView(view)
