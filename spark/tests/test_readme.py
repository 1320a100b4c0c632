"""The README says what the code does."""

from pathlib import Path

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
