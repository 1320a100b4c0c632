"""The naming room: the broker's registration with name servers."""

from __future__ import annotations

from dataclasses import dataclass

from ariane_broker.environment import Environment
from ariane_broker.naming.announcement import BrokerAnnouncement
from ariane_broker.naming.filter_servers import FilterServers
from ariane_broker.naming.registration import (
    FoundNameServers,
    NameServerLink,
    Registration,
    name_server_link,
)
from ariane_broker.state.room import StateRoom
from ariane_broker.topics.topic_table import TopicTable
from ariane_servicekit import Address, new_id


@dataclass(frozen=True, slots=True)
class NamingRoom:
    """The announcement, its registration, and the filter servers."""

    announcement: BrokerAnnouncement
    registration: Registration
    filter_servers: FilterServers


def own_registration(
    environment: Environment, topics: TopicTable, route_id: int, address: Address
) -> Registration:
    """The registration of a replica whose set has no primary.

    Args:
        environment: The environment of the replica.
        topics: The topics that it knows.
        route_id: The broker id that routes show.
        address: The address at which clients reach it.
    """
    incarnation = new_id(environment.chance)
    announcement = BrokerAnnouncement(environment.settings, topics, incarnation, broker_id=route_id)
    announcement.listen_on(address)
    return _registration(environment, announcement)


def _registration(environment: Environment, announcement: BrokerAnnouncement) -> Registration:
    """The registration of an announcement with all name servers."""
    settings = environment.settings

    def make_link(address: Address) -> NameServerLink:
        return name_server_link(
            address,
            announcement,
            environment.clock,
            environment.chance,
            heartbeat_seconds=settings.name_server_heartbeat_s,
        )

    found = FoundNameServers(settings.name_servers, make_link)
    return Registration(found.find, wait_seconds=settings.name_server_wait_s)


def naming_room(environment: Environment, state: StateRoom, *, epoch: int = 0) -> NamingRoom:
    """Make the naming room.

    Args:
        environment: The environment of the broker.
        state: Its topics.
        epoch: The epoch in which it is primary; 0 without replicas.
    """
    settings = environment.settings
    announcement = BrokerAnnouncement(
        settings, state.topics, new_id(environment.chance), epoch=epoch
    )
    registration = _registration(environment, announcement)
    filter_servers = FilterServers(
        announcement,
        registration.announce,
        environment.clock,
        silence_s=settings.filter_server_silence_s,
    )
    return NamingRoom(announcement, registration, filter_servers)
