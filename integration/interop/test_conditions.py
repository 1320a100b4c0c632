"""SQL92 conditions are refused, taken and judged as RocketMQ's own filter module does it."""

import subprocess

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from rocketmq import HERE, class_path

from ariane_record import encode_properties
from ariane_record.decoding.property_columns import decode_property_text
from ariane_sql92 import ConditionInvalid, compile_condition
from ariane_sql92.testing import condition_texts, property_maps

CONDITION_COUNT = 5000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def hexadecimal(text):
    return text.encode().hex()


def judged_by_rocketmq(cases):
    """For each condition with its messages: "refused", or a digit a message."""
    lines = []
    for text, messages in cases:
        lines.append(f"condition {hexadecimal(text)}")
        for properties in messages:
            parts = [hexadecimal(part) for pair in properties.items() for part in pair]
            lines.append(" ".join(["message", *parts]))
    command = ["java", "-cp", class_path(), str(HERE / "java" / "JudgeConditions.java")]
    done = subprocess.run(
        command, input="\n".join(lines).encode(), capture_output=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return [line.split('"')[3] for line in done.stdout.decode().splitlines()]


def judged_here(text, messages):
    rows = [encode_properties(properties) for properties in messages]
    lengths = np.array([len(row) for row in rows], np.int64)
    try:
        condition = compile_condition(text)
    except ConditionInvalid:
        return "refused"
    mask = condition.mask(decode_property_text(b"".join(rows), lengths))
    return "".join("01"[fulfilled] for fulfilled in mask.tolist())


def drawn_cases():
    """Conditions and messages as Hypothesis draws them, the same in each run."""
    cases = []

    @settings(
        max_examples=CONDITION_COUNT,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(condition_texts(), st.lists(property_maps(), min_size=6, max_size=6))
    def draw(text, messages):
        cases.append((text, messages))

    draw()
    return cases


def refused_by_rocketmq_alone(text):
    """The few literals that it takes for too small."""
    return "0.0" in text


def test_generated_conditions_are_judged_as_by_rocketmq():
    cases = drawn_cases()
    theirs = judged_by_rocketmq(cases)
    assert len(theirs) == len(cases)
    ours = [judged_here(text, messages) for text, messages in cases]
    differing = [
        (text, messages, there, here)
        for (text, messages), there, here in zip(cases, theirs, ours, strict=True)
        if there != here and not (there == "refused" and refused_by_rocketmq_alone(text))
    ]
    assert differing == []
    # The cases are worth it: of each outcome there are many.
    assert theirs.count("refused") > CONDITION_COUNT / 50
    assert "".join(theirs).count("1") > CONDITION_COUNT / 2
    assert "".join(theirs).count("0") > CONDITION_COUNT / 2
