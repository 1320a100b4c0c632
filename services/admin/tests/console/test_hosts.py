"""Under which names browsers may open a console that listens on all addresses."""

import httpx
import pytest

from ariane_admin.console.room import console_hosts
from ariane_admin.service.app import AdminApp
from ariane_admin.service.settings import AdminSettings
from ariane_servicekit import Address, serving


async def test_a_console_on_all_addresses_is_opened_under_known_names_only(tmp_path):
    settings = AdminSettings(
        listen=Address("127.0.0.1", 0),
        console_listen=Address("0.0.0.0", 0),  # noqa: S104 - as in containers
        insecure=True,
        name_servers=("127.0.0.1:1",),
        data_path=tmp_path,
    )
    made = []

    def compose(given, stop):
        made.append(AdminApp(given, stop))
        return made[0]

    async with serving(settings, compose):
        url = f"http://127.0.0.1:{made[0].console_address.port}"
        async with httpx.AsyncClient(base_url=url) as browser:
            statuses = {
                host: (await browser.get("/static/console.css", headers={"host": host})).status_code
                for host in ("127.0.0.1", "localhost:7", "[::1]:7", "0.0.0.0", "evil.test")  # noqa: S104
            }
    assert statuses == {
        **dict.fromkeys(("127.0.0.1", "localhost:7", "[::1]:7"), 200),
        **dict.fromkeys(("0.0.0.0", "evil.test"), 400),  # noqa: S104
    }


def test_names_of_the_setting_are_added(tmp_path):
    settings = AdminSettings(data_path=tmp_path, console_hosts=("console.test",))
    known = console_hosts(settings, Address("::", 9882))
    assert known == {"127.0.0.1", "localhost", "[::1]", "console.test"}


@pytest.mark.parametrize("name", ["*", "*.test", "a*b"])
def test_a_pattern_is_no_name_of_a_console(tmp_path, name):
    with pytest.raises(ValueError, match="console_hosts"):
        AdminSettings(data_path=tmp_path, console_hosts=(name,))
