"""What a closed admin tells other machines is not read on the way."""

import pytest

from ariane_admin.service.settings import AdminSettings

HERE = {"name_servers": ("127.0.0.1:9876",), "data_path": "admin"}


@pytest.mark.parametrize(
    "url", ["http://hooks.test/s3cret", "http://10.0.0.7/s3cret", "http://[/x"]
)
def test_a_closed_admin_calls_no_webhook_in_plain_text(url):
    with pytest.raises(ValueError, match="use https://") as refused:
        AdminSettings(**HERE, alert_webhook=url, access="closed")
    assert "s3cret" not in refused.value.errors()[0]["msg"]
    AdminSettings(**HERE, alert_webhook=url, access="open")
    AdminSettings(**HERE, alert_webhook=url, access="closed", insecure=True)


@pytest.mark.parametrize("url", ["https://hooks.test/x", "http://127.0.0.1:8/x", "http://[::1]/x"])
def test_a_closed_admin_calls_one_over_tls_or_on_its_machine(url):
    AdminSettings(**HERE, alert_webhook=url, access="closed")
