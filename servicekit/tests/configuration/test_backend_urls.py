"""A closed service says nothing in plain text to what it calls on other machines."""

import pytest

from ariane_servicekit import ServiceSettings
from ariane_servicekit.configuration.backend_urls import plain_kind

DATABASE = "postgresql+psycopg://me:pw@"
VARIABLES = ("PGHOST", "PGHOSTADDR", "PGSERVICE")
"""By which libpq goes to another machine although the URL names none."""


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "https://collector:4317",
        "http://127.0.0.1:4317",
        "http://[::1]:4317",
        "http://localhost:4317",
        "sqlite:////var/lib/a.db",
        f"{DATABASE}db/a?sslmode=verify-full",
        f"{DATABASE}db/a?sslmode=verify-ca&sslrootcert=/ca.pem",
        f"{DATABASE}127.0.0.1:5432/a",
        f"{DATABASE}localhost/a",
        f"{DATABASE}/a",
        f"{DATABASE}/a?host=/run/postgresql",
        f"{DATABASE}/a?host=127.0.0.1:5432&host=[::1]:5432",
        "postgresql+psycopg:///a?host=@abstract",
    ],
)
def test_tls_that_proves_who_answers_and_this_machine_are_private(url):
    assert plain_kind(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "http://collector:4317",
        "HTTP://10.0.0.7/x",
        "http://[/x",
        f"{DATABASE}db/a",
        f"{DATABASE}10.0.0.7:5432/a",
        "postgresql://db/a?sslmode=require",
        f"{DATABASE}db/a?sslmode=prefer",
        f"{DATABASE}db/a?sslmode=verify-full&sslmode=disable",
        f"{DATABASE}db/a?SSLMODE=verify-full",
        f"{DATABASE}127.0.0.1/a?host=10.0.0.7",
        f"{DATABASE}127.0.0.1/a?host=127.0.0.1,10.0.0.7",
        f"{DATABASE}127.0.0.1/a?hostaddr=10.0.0.7",
        f"{DATABASE}/a?service=elsewhere",
        f"{DATABASE}localhost.evil/a",
        f"{DATABASE}/a?host=[::1].evil",
        f"{DATABASE}[/a",
    ],
)
def test_other_ways_are_read_by_whoever_is_on_them(url):
    assert plain_kind(url) == url.partition(":")[0].partition("+")[0].lower()


@pytest.mark.parametrize("name", VARIABLES)
@pytest.mark.parametrize(
    "place", ["/a", "localhost/a", "127.0.0.1:5432/a", "/a?host=/run/postgresql", "/a?host="]
)
def test_where_a_variable_of_libpq_may_lead_elsewhere_nothing_is_here(monkeypatch, name, place):
    monkeypatch.setenv(name, "")
    assert plain_kind(DATABASE + place) is None
    monkeypatch.setenv(name, "10.0.0.7")
    assert plain_kind(DATABASE + place) == "postgresql"
    assert plain_kind(f"{DATABASE}{place.partition('?')[0]}?sslmode=verify-full") is None
    assert plain_kind("http://127.0.0.1:4317") is None


@pytest.mark.parametrize(
    "url",
    [
        "mysql+pymysql://me:pw@far/a",
        "postgresql+asyncpg://me:pw@far/a?sslmode=verify-full",
        "far:4317",
        "nonsense",
    ],
)
def test_of_other_kinds_nothing_is_known(url):
    assert plain_kind(url) == "other"


def test_a_closed_service_names_no_collector_in_plain_text():
    plain = {"otlp_endpoint": "http://collector:4317"}
    with pytest.raises(ValueError, match=r"otlp_endpoint: .*use https://, or insecure_backends"):
        ServiceSettings(access="closed", **plain)
    for allowed in ({"insecure": True}, {"insecure_backends": True}, {"access": "learn"}):
        settings = ServiceSettings(**{"access": "closed", **plain, **allowed})
        assert list(settings.plain_backends) == ["otlp_endpoint"]
    assert not ServiceSettings(otlp_endpoint="https://collector:4317").plain_backends
    # Nor does one that is closed while it runs.
    with pytest.raises(ValueError, match="insecure_backends"):
        ServiceSettings(access="open", **plain).with_value("access", "closed")
