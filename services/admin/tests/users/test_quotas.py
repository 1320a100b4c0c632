"""Quotas as admin keeps them, as processes are told, and as the command shows them."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ariane.admin.v1 import quota_service_pb2 as quota_pb
from ariane.admin.v1 import user_service_pb2 as user_pb
from ariane.common.v1 import quota_pb2 as pb
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_admin.users.credential_store import CredentialStore
from ariane_admin.users.quota_servicer import QuotaServicer
from ariane_admin.users.quota_store import QuotaStore
from ariane_admin.users.store import UserStore
from ariane_servicekit import ErrorTranslator, ServiceError
from ariane_servicekit.security.limits.meter import FIGURE_WORDS, SUBJECT_WORDS, SUBJECTS_OF

SENT, CREDENTIALS = pb.QUOTA_FIGURE_SENT_BYTES, pb.QUOTA_FIGURE_CREDENTIALS
CONNECTIONS = pb.QUOTA_FIGURE_CONNECTIONS
USER, TOPIC, ADDRESS = pb.QUOTA_SUBJECT_USER, pb.QUOTA_SUBJECT_TOPIC, pb.QUOTA_SUBJECT_ADDRESS


@pytest.fixture
def quotas(database):
    told = []
    store, cluster = QuotaStore(database), ClusterAccess("127.0.0.1:1", ErrorTranslator({}))
    servicer = QuotaServicer(store, database, lambda: told.append("changed"), cluster)
    servicer.told = told
    return servicer


def quota(figure, subject, name, limit=0):
    return pb.Quota(figure=figure, subject=subject, name=name, limit=limit)


async def put(quotas, *wanted):
    request = quota_pb.SetQuotaRequest(quota=quota(*wanted))
    return (await quotas.SetQuota(request, None)).quota


async def delete(quotas, *wanted):
    request = quota_pb.DeleteQuotaRequest(quota=quota(*wanted))
    return (await quotas.DeleteQuota(request, None)).known


def test_every_figure_and_subject_of_the_contract_has_its_word():
    assert set(FIGURE_WORDS) == set(SUBJECTS_OF) == set(pb.QuotaFigure.values()) - {0}
    assert set(SUBJECT_WORDS) == set(pb.QuotaSubject.values()) - {0}


async def test_a_quota_lives_and_is_told_with_the_rules(quotas, database):
    store = UserStore(database)
    before = store.version()
    await put(quotas, SENT, USER, "anna", 5)
    await put(quotas, SENT, USER, "anna", 7)
    await put(quotas, SENT, USER, "", 9)
    assert (await put(quotas, CONNECTIONS, ADDRESS, "10.1.2.3", 4)).name == "10.1.2.3/32"
    rules = store.rules()
    assert rules.version == before + 4
    assert [(each.name, each.limit) for each in rules.quotas] == [
        ("", 9),
        ("anna", 7),
        ("10.1.2.3/32", 4),
    ]
    assert await delete(quotas, SENT, USER, "anna")
    assert not await delete(quotas, SENT, USER, "anna")
    page = await quotas.ListQuotas(quota_pb.ListQuotasRequest(page_size=1), None)
    rest = quota_pb.ListQuotasRequest(page_token=page.next_page_token)
    names = [each.name for each in (*page.quotas, *(await quotas.ListQuotas(rest, None)).quotas)]
    assert names == ["", "10.1.2.3/32"]
    assert quotas.told == ["changed"] * 6


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ((0, USER, "anna", 1), "quota.figure"),
        ((99, USER, "anna", 1), "quota.figure"),
        ((CREDENTIALS, TOPIC, "orders", 1), "quota.subject"),
        ((SENT, USER, "an na", 1), "quota.name"),
        ((SENT, TOPIC, "a\nb", 1), "quota.name"),
        ((SENT, TOPIC, "x" * 256, 1), "quota.name"),
        ((CONNECTIONS, ADDRESS, "10.1.2.3/8", 1), "quota.name"),
        ((CONNECTIONS, ADDRESS, "2001:db8::7", 1), "quota.name"),
        ((SENT, USER, "anna", 0), "quota.limit"),
        ((SENT, USER, "anna", -1), "quota.limit"),
    ],
)
async def test_a_quota_that_makes_no_sense_is_refused(quotas, wanted, field):
    with pytest.raises(ServiceError) as caught:
        await put(quotas, *wanted)
    assert (caught.value.row.name, caught.value.field) == ("FIELD_INVALID", field)
    assert quotas.told == []


async def test_a_user_has_as_many_credentials_as_its_quota_says(quotas, database):
    for name in ("anna", "ben"):
        UserStore(database).create_user(user_pb.User(user=name, enabled=True))
    await put(quotas, CREDENTIALS, USER, "", 1)
    await put(quotas, CREDENTIALS, USER, "ben", 2)
    store = CredentialStore(database, None)

    def create(user):
        key = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
        wanted = user_pb.Credential(
            credential_id=key.hex()[:16],
            kind=user_pb.CREDENTIAL_KIND_SIGNING_KEY,
            public_key=key,
        )
        return store.create(user, wanted, "", None)

    create("anna")
    for _ in range(2):
        create("ben")
    for user, limit in (("anna", 1), ("ben", 2)):
        with pytest.raises(ServiceError, match=f"may have {limit} credentials"):
            create(user)
