"""Series as pictures."""

from xml.etree import ElementTree as ET

from ariane_admin.console.pages.overview import line_chart


def drawn(points, label="Rate"):
    return ET.fromstring(line_chart(points, label, gap_ms=30))  # noqa: S314 - our own picture


def test_a_gap_is_not_joined():
    svg = drawn([(0, 1.0), (10, 2.0), (100, 3.0), (110, 1.0)])
    assert len(svg.findall("polyline")) == 2


def test_a_lone_sample_is_a_dot_and_nothing_is_a_sentence():
    assert len(drawn([(0, 1.0)]).findall("circle")) == 1
    assert "No samples yet" in line_chart([], "Rate", gap_ms=1)


def test_all_zero_lies_on_the_floor_and_labels_are_escaped():
    svg = drawn([(0, 0.0), (10, 0.0)], label='<b>"x"')
    assert svg.get("aria-label").startswith('<b>"x"')
    ys = {pair.split(",")[1] for pair in svg.find("polyline").get("points").split()}
    assert len(ys) == 1
