"""TLS and credentials of a query: the driver has its own key, and tasks never do."""

import pickle

import pytest

from ariane.common.v1.login_service_pb2 import DelegationTerms
from ariane_servicekit.security.rules import words
from ariane_spark import OptionIllegal
from ariane_spark.options import access_options as access_module
from ariane_spark.options.access_options import (
    NO_ACCESS,
    given_access,
    rights_to_read,
    rights_to_write,
    scope_of,
)
from ariane_spark.options.option_table import Use
from ariane_spark.options.options import read_options
from ariane_spark.positions.ranges import QueueRange
from ariane_spark.records.columns import Projection, message_schema
from ariane_spark.sink.batch_writer import batch_writer, stream_writer
from ariane_spark.source.batch_reader import ArianeBatchReader
from ariane_spark.source.stream_reader import ArianeStreamReader
from ariane_testkit.certificates import ClusterCertificates
from ariane_testkit.user_keys import UserKeys
from pyspark_ariane import DefaultSource

PLACE = {"endpoints": "127.0.0.1:9876", "topic": "orders"}


@pytest.fixture
def key(tmp_path, monkeypatch):
    """The file of a key; and no credentials in the environment."""
    for name in ("CREDENTIALS", "TLS_CA", "TLS_CERTIFICATE", "TLS_KEY"):
        monkeypatch.delenv(f"ARIANE_{name}", raising=False)
    return UserKeys(tmp_path).file_of("etl")


@pytest.fixture
def secret(key):
    """The part of the key that nobody else may have."""
    return key.read_text().split("-----")[2].strip()


def told(access):
    terms = DelegationTerms.FromString(access.key.terms)
    return [
        (words.resource_word(entry.resource), entry.name, *map(words.action_word, entry.actions))
        for entry in terms.entries
    ]


@pytest.mark.parametrize("form", ["file", "text", "environment"])
def test_what_travels_to_tasks_is_another_key(
    key, secret, form, ddl, cluster, connect, monkeypatch
):
    given = dict(PLACE)
    if form == "environment":
        monkeypatch.setenv("ARIANE_CREDENTIALS", str(key))
    else:
        given["accessKey"] = str(key) if form == "file" else key.read_text()
    queue = cluster.add("orders", "broker-a", 0, 3)
    options = read_options(given, Use.BATCH_READ)
    assert secret not in repr(options)
    projection = Projection.of(message_schema())
    batch = ArianeBatchReader(options, projection, connect)
    stream = ArianeStreamReader(options, projection, connect)
    end = {"orders": {"broker-a": {"0": 3}}}
    planned = [*batch.partitions(), *stream.partitions({}, end)]
    assert [each.ranges for each in planned] == [(QueueRange(queue, 0, 3),)] * 2
    assert [told(each.access) for each in planned] == [[("topic", "orders", "SUBSCRIBE")]] * 2
    rows = ddl("body binary")
    exactly = {"deliveryGuarantee": "exactly-once", "writeId": "w"}
    writers = [
        batch_writer(given, rows, overwrite=False),
        batch_writer(given | exactly, rows, overwrite=False),
        stream_writer(given | {"checkpointLocation": "x"}, rows, overwrite=False),
    ]
    for each in (options, *planned, *writers):
        travelled = pickle.dumps(each)
        assert secret.encode() not in travelled
        assert b"PRIVATE" not in travelled
    for each in planned:
        there = pickle.loads(pickle.dumps(each))  # noqa: S301
        assert there.access.credentials()().delegation == (
            each.access.key.terms,
            each.access.key.signature,
        )
        assert each.access.key.key.hex() not in repr(there)


def test_tasks_may_do_what_they_have_to(key):
    access = given_access({"accessKey": str(key)})
    assert told(access.for_tasks(rights_to_read(["b", "a", "b"]))) == [
        ("topic", name, "SUBSCRIBE") for name in ("a", "b")
    ]
    once = rights_to_write({"orders", "bad"}, exactly_once=True)
    assert told(access.for_tasks(once)) == [
        *(("topic", name, "PUBLISH", "CREATE") for name in ("bad", "orders")),
        ("sink", "", "GET", "UPDATE"),
    ]
    some = rights_to_write({None}, exactly_once=False)
    assert told(access.for_tasks(some)) == [("topic", "", "PUBLISH", "CREATE")]


def test_spark_gets_a_source_without_secrets_for_its_tasks(key, secret):
    for make in (DefaultSource.reader, DefaultSource.streamReader):
        source = DefaultSource(PLACE | {"accessKey": key.read_text(), "TAG": "a"})
        reader = make(source, message_schema())
        # What reads is bound to both.
        travelled = pickle.dumps((source.options, reader))
        assert secret.encode() not in travelled
        assert source.options == PLACE | {"TAG": "a"}


def test_a_connection_logs_in_by_the_newest_key(key):
    access = given_access({"accessKey": str(key)})
    first, second = (access.for_tasks(rights_to_read(["orders"])) for _ in range(2))
    other = access.for_tasks(rights_to_read(["pay"]))
    assert scope_of(first) == scope_of(second) != scope_of(other)
    source = first.credentials()
    assert source().delegation[0] == first.key.terms
    scope_of(second)
    assert source().delegation[0] == second.key.terms


def test_the_authority_travels_as_a_text(key, tmp_path, monkeypatch):
    path = ClusterCertificates(tmp_path / "certificates").path / "members.pem"
    text = path.read_text()
    for given in (str(path), text):
        access = given_access({"tlsCa": given})
        assert access.for_tasks([]).tls_ca.strip() == text.strip()
        assert access.connections().tls is not None
        assert access.for_tasks([]).connections().tls is not None
    monkeypatch.setenv("ARIANE_TLS_CA", str(path))
    # Tasks have an environment of their own; a key is of no use to them without the authority.
    assert NO_ACCESS.for_tasks([]) == NO_ACCESS
    assert given_access({"accessKey": str(key)}).for_tasks([]).tls_ca == text


def test_what_is_wrong_is_told_without_the_secret(key, secret, tmp_path):
    for wrong in (secret, f"-----BEGIN {secret}", str(tmp_path / "absent"), key.read_text()[:-60]):
        with pytest.raises(OptionIllegal, match="accessKey") as caught:
            DefaultSource(PLACE | {"accessKey": wrong})
        assert secret[:20] not in str(caught.value)
    (tmp_path / "none").write_text("no certificates")
    for name in ("absent", "none"):
        with pytest.raises(OptionIllegal, match="tlsCa"):
            DefaultSource(PLACE | {"tlsCa": str(tmp_path / name)})
    for value in ("59s", "169h", "soon"):
        with pytest.raises(OptionIllegal, match="keyLifetime"):
            DefaultSource(PLACE | {"keyLifetime": value})


def test_keys_of_tasks_end(key, monkeypatch):
    monkeypatch.setattr(access_module.time, "time", lambda: 1_000_000.0)
    access = given_access({"accessKey": str(key), "keyLifetime": "2h"}).for_tasks([])
    terms = DelegationTerms.FromString(access.key.terms)
    assert terms.expire_time.ToMilliseconds() == 1_000_000_000 + 2 * 3_600_000
