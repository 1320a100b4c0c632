"""SQL92 conditions over the properties of messages, with RocketMQ's results and by column."""

from ariane_sql92.building import CONDITION_COMPARISONS_MAX, CONDITION_DEPTH_MAX
from ariane_sql92.condition import Condition, compile_condition
from ariane_sql92.errors import ConditionInvalid
from ariane_sql92.parser import CONDITION_BYTES_MAX

__all__ = [
    "CONDITION_BYTES_MAX",
    "CONDITION_COMPARISONS_MAX",
    "CONDITION_DEPTH_MAX",
    "Condition",
    "ConditionInvalid",
    "compile_condition",
]
