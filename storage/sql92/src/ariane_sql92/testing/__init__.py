"""For tests: random conditions and messages, and a plain judge. Needs Hypothesis."""

from ariane_sql92.testing.reference import judge_plainly
from ariane_sql92.testing.strategies import condition_texts, property_maps

__all__ = ["condition_texts", "judge_plainly", "property_maps"]
