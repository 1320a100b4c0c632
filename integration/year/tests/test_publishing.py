"""The year publishes what the demo makes of flights."""

from itertools import islice
from unittest.mock import create_autospec

from ariane_sdk.sync import Producer


def test_all_events_of_a_day_are_published_in_their_order():
    # The conftest puts these on the path.
    from flight_demo.events import in_event_time_order, iter_events  # noqa: PLC0415
    from flight_demo.flights import package_folder, read_flights  # noqa: PLC0415
    from flight_demo.selection import Selection  # noqa: PLC0415
    from flight_demo.stages import Stage  # noqa: PLC0415
    from flight_year.publishing import publish_columns  # noqa: PLC0415

    # The file begins with the first days.
    flights = Selection(days=1).choose(islice(read_flights(package_folder()), 2000))
    packed = in_event_time_order(flights)
    events = list(iter_events(flights, packed))
    producer, stage = create_autospec(Producer), create_autospec(Stage)
    stage.count = 0

    count = publish_columns(producer, "flights", iter(events), len(events) - 10, stage)

    [call] = producer.send_columns.call_args_list
    topic, table = call.args
    assert count == len(events) - 10
    assert topic == "flights"
    assert table["body"].to_pylist() == [event.body for event in events[:-10]]
    assert table["messageGroup"].to_pylist() == [event.message_group for event in events[:-10]]
    assert table["keys"].to_pylist() == [[event.key] for event in events[:-10]]
