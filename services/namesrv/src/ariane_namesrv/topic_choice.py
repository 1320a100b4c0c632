"""Which of the topics that a broker announces stand in routes.

One that breaks a rule, or is beyond the limit, is left out by itself: a broker whose every topic
vanished because of the last one would be worse off than with any choice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ariane_namesrv.registration import RefusedTopic, TopicLayout

NAMED_MAX: Final = 20
"""Refused topics that are kept by name; the others are counted."""

_SHOWN_MAX: Final = 255


@dataclass(slots=True)
class TopicRefusals:
    """Topics of one announcement that were not taken.

    Attributes:
        count: How many.
        named: The first of them.
    """

    count: int = 0
    named: list[RefusedTopic] = field(default_factory=list)

    def add(self, topic: str, cause: str) -> None:
        """Refuse a topic; names that no topic bears are escaped."""
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
    """The topics that stand in routes from now on.

    When there are too many, those that stand already go before others, so that nobody who makes
    topics takes one out of the routes that is in use; then those that were changed least lately.

    Args:
        announced: All that follow the rules, by name.
        standing: Those that the broker has in routes now.
        refusals: Takes those that do not.
        topics_max: How many may stand.
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
                topic, f"{topics_max} topics of a broker are taken (topics_per_broker_max)"
            )
    return chosen
