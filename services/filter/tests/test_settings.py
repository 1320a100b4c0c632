"""What a FilterServer may be told."""

import pytest
from pydantic import ValidationError

from ariane_filter.settings import FilterSettings
from ariane_servicekit import Address


def test_nothing_may_be_uploaded_unless_somebody_says_so(tmp_path):
    settings = FilterSettings(data_path=tmp_path)
    assert settings.uploads == "off"
    assert settings.listen.is_loopback
    assert settings.limits.memory_bytes == 64 << 20


def test_consumers_are_told_an_address_that_they_can_reach(tmp_path):
    everywhere = {"data_path": tmp_path, "listen": Address("::", 9885), "insecure": True}
    with pytest.raises(ValidationError, match="advertised_address"):
        FilterSettings(**everywhere)
    told = FilterSettings(**everywhere, advertised_address=Address("10.0.0.7", 9885))
    assert str(told.advertised_address) == "10.0.0.7:9885"
