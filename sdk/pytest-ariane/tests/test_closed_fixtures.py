"""What the fixtures promise to applications that are tested on a closed cluster."""

import sys

import pytest

SECURED = """
    import pytest
    from ariane_sdk import Tls
    from ariane_sdk.errors import ArianeError, CallError
    from ariane_sdk.sync import ClusterClient, Message, Producer, QueueReader

    def read(name_servers, topic, **access):
        with QueueReader(name_servers, **access) as reader:
            found = 0
            for queue, (begin, end) in reader.bounds(topic).items():
                found += sum(len(columns) for columns in reader.read_range(queue, begin, end))
            return found

    def test_users_have_their_rights(
        ariane_name_servers, ariane_topic, make_ariane_topic, ariane_user, ariane_cluster
    ):
        other = make_ariane_topic()
        shop = ariane_user("shop", f"PUBLISH topic {ariane_topic}")
        for _ in range(2):
            with Producer(ariane_name_servers, tls=shop) as producer:
                producer.send(Message(ariane_topic, b"a teapot"))
                with pytest.raises(ArianeError, match="may not"):
                    producer.send(Message(other, b"a teapot"))
            # The rights outlive the broker.
            ariane_cluster.restart_broker()
        with pytest.raises(ArianeError, match="may not"):
            read(ariane_name_servers, ariane_topic, tls=shop)
        # Whoever says nothing is the super user.
        assert read(ariane_name_servers, ariane_topic) == 2
        ben = ariane_user("ben")
        with Producer(ariane_name_servers, tls=ben) as producer, pytest.raises(ArianeError):
            producer.send(Message(ariane_topic, b"a teapot"))
        with ClusterClient(ariane_name_servers, tls=Tls(ca=shop.ca)) as nobody:
            with pytest.raises(CallError, match="no credentials"):
                nobody.list_brokers()
        with pytest.raises(ValueError, match="'SEND orders'"):
            ariane_user("ben", "SEND orders")
"""

PLAIN = """
    import pytest
    from ariane_sdk.sync import Message, Producer

    def test_what_the_shell_says_is_about_another_cluster(
        ariane_name_servers, ariane_topic, ariane_user
    ):
        with Producer(ariane_name_servers) as producer:
            producer.send(Message(ariane_topic, b"a teapot"))
        with pytest.raises(RuntimeError, match="--ariane-closed"):
            ariane_user("shop", "PUBLISH topic *")
"""


def test_users_of_a_closed_cluster_have_the_rights_that_a_test_gives(pytester, monkeypatch):
    pytester.makepyfile(SECURED)
    monkeypatch.setenv("ARIANE_TEST_CLOSED", "1")
    pytester.run(sys.executable, "-m", "pytest", "-q").assert_outcomes(passed=1)


@pytest.mark.slow
def test_an_open_cluster_is_reached_whatever_the_shell_says(pytester, monkeypatch):
    pytester.makepyfile(PLAIN)
    monkeypatch.setenv("ARIANE_TLS_CA", "/nowhere/members.pem")
    pytester.run(sys.executable, "-m", "pytest", "-q").assert_outcomes(passed=1)
