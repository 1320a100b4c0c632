"""Which topics of a broker's announcement get into routes.

A topic that breaks a rule, or exceeds the limit, is left out alone: refusing the whole announcement
would make all topics of the broker vanish because of one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ariane_namesrv.registration import RefusedTopic, TopicLayout

NAMED_MAX: Final = 20
"""Refused topics that are kept by name; the others are only counted."""

_SHOWN_MAX: Final = 255


@dataclass(slots=True)
class TopicRefusals:
    """The refused topics of one announcement."""

    count: int = 0
    """How many."""
    named: list[RefusedTopic] = field(default_factory=list)
    """The first of them by name."""

    def add(self, topic: str, cause: str) -> None:
        """Refuse a topic; illegal names are escaped."""
        self.count += 1
        if len(self.named) < NAMED_MAX:
            shown = topic if topic.isprintable() else ascii(topic)[1:-1]
            self.named.append(RefusedTopic(shown[:_SHOWN_MAX], cause))


def chosen_topics(
    announced: Mapping[str, TopicLayout],
    standing: Collection[str],
    refusals: TopicRefusals,
    *,
    topics_max: int,
) -> Mapping[str, TopicLayout]:
    """The topics that are in routes from now on.

    If there are too many, topics already in routes come first, so that creating topics pushes no
    used topic out of the routes; then the topics that were changed least recently.

    Args:
        announced: All topics that follow the rules, by name.
        standing: The broker's topics in routes now.
        refusals: Takes the refused topics.
        topics_max: How many may be in routes.
    """
    if len(announced) <= topics_max:
        return announced

    def rank(item: tuple[str, TopicLayout]) -> tuple[bool, int, str]:
        topic, layout = item
        return topic not in standing, layout.version, topic

    ranked: Iterable[tuple[str, TopicLayout]] = sorted(announced.items(), key=rank)
    chosen: dict[str, TopicLayout] = {}
    for topic, layout in ranked:
        if len(chosen) < topics_max:
            chosen[topic] = layout
        else:
            refusals.add(
                topic,
                f"of a broker, at most {topics_max} are taken (topics_per_broker_max)",
            )
    return chosen
