"""How far a batch has come on its way, over all its travels."""

from __future__ import annotations

from dataclasses import dataclass, field

from ariane_record import ProducerSequence
from ariane_sdk.errors import CallError


@dataclass(slots=True)
class Journey:
    """What its travels have brought so far.

    Attributes:
        deadline_s: When it is given up, by the monotonic clock.
        not_before_s: When it may travel (again), by the monotonic clock.
        repeat_count: How often it was repeated after an error that limits repeats.
        failed_rounds: How often all brokers that could take it have refused it, one after another;
            for a batch that stays in its queue, how often that has.
        refused_until_s: The brokers that refused it in this round, each with the time before which
            it does not want to see it again, by the monotonic clock.
        last_refusal: Why it was refused the last time.
        in_flight: Whether a call has it now.
        maybe_stored: Whether one of its travels may have stored it.
        sequence: The numbers under which it may be stored, or is about to be; they hold in its
            queue only.
    """

    deadline_s: float = 0.0
    not_before_s: float = 0.0
    repeat_count: int = 0
    failed_rounds: int = 0
    refused_until_s: dict[str, float] = field(default_factory=dict)
    last_refusal: CallError | None = None
    in_flight: bool = False
    maybe_stored: bool = False
    sequence: ProducerSequence | None = None

    def wait_a_round(self, now_s: float, delay_s: float, broker_name: str) -> None:
        """Wait before the next round.

        Args:
            now_s: The time, by the monotonic clock.
            delay_s: How long to wait at least.
            broker_name: Where it begins.
        """
        refused_s = self.refused_until_s
        self.not_before_s = max(now_s + delay_s, refused_s.get(broker_name, 0.0))
        self.failed_rounds += 1
        # Who does not want to see it by then has refused the next round as well.
        self.refused_until_s = {
            name: until_s for name, until_s in refused_s.items() if until_s > self.not_before_s
        }
