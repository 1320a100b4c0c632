"""The pages that are made from the code are made anew, whole, and equal to what is committed."""

from __future__ import annotations

import dataclasses
import shutil
from typing import Annotated

import pytest
from click.testing import CliRunner
from pydantic import AfterValidator, BaseModel, Field

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_broker.settings import BrokerSettings
from ariane_namesrv.settings import NamesrvSettings
from ariane_sdk import ProducerSettings, PullSettings, PushSettings
from ariane_storage.commands import store
from tools.reference import __main__ as reference
from tools.reference import commands_page, errors_page, markdown, settings_page
from tools.reference.client_settings import client_settings_table


@pytest.fixture
def folder(tmp_path):
    for name in reference.PAGES:
        shutil.copy(reference.DOCS / name, tmp_path)
    return tmp_path


def test_commands_show_the_same_help_by_themselves_as_below_the_root():
    """click keeps a command's help option as it was first asked for: by whoever came first."""
    for arguments in ([], ["dump"]):
        said = CliRunner().invoke(store, [*arguments, "--help"]).output
        assert "-h, --help" in said


def test_page_that_was_edited_or_lost_is_found_and_mended(folder, capsys):
    errors = folder / "errors.md"
    errors.write_text(errors.read_text().replace("UNAVAILABLE", "FINE", 1))
    (folder / "command-line.md").unlink()
    untouched = (folder / "configuration.md").stat().st_mtime_ns
    assert reference.main(["stale"], folder) == 1
    said = capsys.readouterr().out
    assert "docs/errors.md" in said
    assert "docs/command-line.md" in said
    assert "configuration" not in said
    assert reference.main(["generate"], folder) == 0
    assert reference.main(["stale"], folder) == 0
    assert (folder / "configuration.md").stat().st_mtime_ns == untouched


@pytest.mark.parametrize("settings", [BrokerSettings, NamesrvSettings])
def test_every_setting_is_told_with_all_its_names(settings):
    page = settings_page.render()
    for name in settings.model_fields:
        assert f"`{name}`<br>`--{name.replace('_', '-')}`" in page
    assert f"`ARIANE_{settings.service_name.upper()}_LISTEN`" in page


def test_setting_that_differs_between_services_is_told_for_each():
    page = settings_page.render()
    assert page.count("| `listen`<br>") == len(settings_page.SERVICES)
    assert page.count("| `log_level`<br>") == 1


@pytest.mark.parametrize(
    ("name", "field", "words"),
    [
        ("a_count", Field(1, ge=1, le=5), ["at least `1`", "at most `5`"]),
        ("a_count", Field(1, gt=0, lt=9), ["more than `0`", "less than `9`"]),
        ("a_bytes", Field(4096, multiple_of=4096), ["a multiple of `4096` (4 KiB)"]),
        ("a_name", Field("a", pattern="^a$"), ["matches `^a$`"]),
    ],
)
def test_bounds_in_words(name, field, words):
    said = [word for part in field.metadata for word in settings_page._bound(name, part)]
    assert said == words


def test_bound_that_nobody_can_say_is_no_silence():
    class Strange(BaseModel):
        size: Annotated[int, AfterValidator(abs)] = 1

    [part] = Strange.model_fields["size"].metadata
    with pytest.raises(TypeError, match="size: say in words"):
        settings_page._bound("size", part)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("a_bytes", 1 << 30, "`1073741824` (1 GiB)"),
        ("a_bytes_max", 5 << 20, "`5242880` (5 MiB)"),
        ("a_bytes", 1500, "`1500`"),
        ("a_count", 1024, "`1024`"),
    ],
)
def test_numbers_of_bytes_can_be_read(name, value, said):
    assert settings_page._number(name, value) == said


def test_flags_that_are_fine_are_no_example_of_a_refusal():
    with pytest.raises(AssertionError, match="not refused any more"):
        settings_page._refusal((BrokerSettings, "--store-path store"))


def test_every_reason_is_told_once():
    page = errors_page.render()
    for reason in ErrorReason.keys():  # noqa: SIM118 - the enum is no mapping.
        expected = 0 if reason.endswith("_UNSPECIFIED") else 1
        assert page.count(f"| `{reason.removeprefix('ERROR_REASON_')}` |") == expected, reason


def test_commands_of_plugins_are_told():
    page = commands_page.render()
    for command in ("ariane dev", "ariane topic create", "ariane store fsck"):
        assert f"# {command}\n" in page
        assert f"Usage: {command} " in page


def test_table_keeps_its_columns():
    assert markdown.table(["a"], [["x|y"]]) == "| a |\n| --- |\n| x\\|y |"


@pytest.mark.parametrize("settings", [ProducerSettings, PullSettings, PushSettings])
def test_every_setting_of_the_client_is_told(settings):
    page = settings_page.render()
    base = PullSettings if settings is PushSettings else settings
    _, _, own = page.partition(f"### `{base.__name__}`")
    for field in dataclasses.fields(settings):
        assert f"\n| `{field.name}` | " in own


def test_a_setting_of_the_client_that_nobody_describes_is_found():
    @dataclasses.dataclass
    class Told:
        told: float = 2.0
        """This much, in ``two`` lines."""

    @dataclasses.dataclass
    class Silent(Told):
        untold: int = 1

    assert "| `told` | `2` | This much, in `two` lines. |" in client_settings_table(Told)
    with pytest.raises(KeyError, match="untold"):
        client_settings_table(Silent)
