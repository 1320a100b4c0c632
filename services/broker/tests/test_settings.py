import pytest

from ariane_broker.settings import BrokerSettings
from ariane_record.names import CLUSTER_NAME_LENGTH_MAX, REPLY_SUFFIX, check_topic_name
from ariane_servicekit import SettingsError, load_settings, settings_reference
from ariane_storage.config import FlushMode


def load(*flags):
    return load_settings(BrokerSettings, ["--store-path", "store", *flags], {})


def test_the_defaults_fit_together():
    settings = load()
    assert settings.default_queue_count == 4
    config = settings.store_config()
    assert config.flush_mode is FlushMode.ASYNC
    assert config.segment_bytes == 1 << 30
    assert config.retention_ms == 72 * 3600 * 1000


def test_every_setting_says_what_it_is():
    assert all(row.description for row in settings_reference(BrokerSettings))


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (("--broker-name", "a b"), "--broker-name"),
        (("--cluster-name", "../x"), "--cluster-name"),
        (("--cluster-name", "c" * 116), "--cluster-name"),
        (("--broker-id", "1"), "replica_set_url"),
        (("--broker-id", "-1"), "--broker-id"),
        (("--listen", "0.0.0.0:0"), "credentials"),
        (("--listen", "0.0.0.0:0", "--insecure", "--name-servers", "h:1"), "advertised_address"),
        (("--no-such-flag", "1"), "no-such-flag"),
        (("--flush-mode", "maybe"), "--flush-mode"),
        (("--disk-clean-ratio", "0.99"), "disk ratios"),
        (("--held-pulls-max", "4096"), "held_pulls_max"),
        (("--client-heartbeat-s", "120"), "client_heartbeat_s"),
        (("--message-bytes-max", str(6 << 20)), "message_bytes_max"),
        (("--segment-bytes", str(4 << 20)), "message_bytes_max"),
        (("--segment-bytes", "1048577"), "--segment-bytes"),
        (("--name-servers", "nowhere"), "--name-servers"),
    ],
)
def test_senseless_settings_are_refused(flags, word):
    with pytest.raises(SettingsError, match=word) as raised:
        load(*flags)
    assert "\n" not in str(raised.value)


def test_the_longest_name_of_a_cluster_has_a_legal_topic_of_replies():
    settings = load("--cluster-name", "c" * CLUSTER_NAME_LENGTH_MAX)
    assert check_topic_name(settings.cluster_name + REPLY_SUFFIX)
