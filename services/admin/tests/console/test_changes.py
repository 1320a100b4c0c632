"""How long the console waits for what it changes, and what it asks before."""

from collections import defaultdict
from types import SimpleNamespace

import pytest
from grpc import StatusCode

from ariane.admin.v1 import dead_letter_service_pb2 as letter_pb
from ariane.admin.v1 import filter_service_pb2 as filter_pb
from ariane.admin.v1 import group_service_pb2 as group_pb
from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane_admin.asking.filter_servers import LOAD_SECONDS_MAX
from ariane_admin.console.api import Api, Asker
from ariane_admin.console.app import STATUSES, _question
from ariane_admin.console.changing.change import NotDone, Unfinished, WronglyFilled
from ariane_admin.console.changing.changes import CHANGES
from ariane_admin.console.pages.messages import exported
from ariane_admin.servicers.replica_sets import CALL_BESIDE_S, GRACE_S
from ariane_servicekit.error_table import ERROR_TABLE


async def test_a_change_may_take_as_long_as_it_says():
    waited = []

    async def upload(request, *, metadata, **how):
        waited.append(how["timeout"])
        return filter_pb.UploadFilterResponse()

    change = CHANGES["/filters/upload"]
    api = Api.__new__(Api)
    api._proof = ""
    api.filters = SimpleNamespace(UploadFilter=upload)
    await change.perform(Asker(api, "", change.within_s), {"name": "late", "module": "x"})
    assert waited == [change.within_s]
    assert change.within_s > LOAD_SECONDS_MAX
    # Who the members are is asked twice before: for the trail, and to find the primary.
    assert CHANGES["/cluster/switchover"].within_s > GRACE_S + 3 * CALL_BESIDE_S


@pytest.mark.parametrize("path", CHANGES)
def test_every_question_names_the_cluster(path):
    """Whoever has the consoles of two clusters open should see which one he is about to change."""
    asked = _question(path, CHANGES[path], defaultdict(str), (), ["payments", "archive"])
    assert asked.blocks[0].text.startswith("In cluster payments and archive: ")


def test_an_unclean_election_asks_a_question_of_its_own():
    assert "lost" in CHANGES["/cluster/elect-unclean"].question
    assert "lost" not in CHANGES["/cluster/elect"].question


def test_a_refusal_of_a_service_is_no_fault_of_the_console():
    own_faults = {StatusCode.INTERNAL, StatusCode.DATA_LOSS}
    assert {row.code for row in ERROR_TABLE.values()} - own_faults <= STATUSES.keys()


async def test_a_redrive_of_many_calls_goes_on_and_shows_how_far_it_is():
    place = letter_pb.DeadLetterPlace(broker_name="broker-a", queue_offset=1204)
    answers = [
        letter_pb.RedriveDeadLettersResponse(
            redriven_count=1200,
            duplicate_count=5,
            failures=["broker-a/0/7: torn"],
            continue_after=place,
        ),
        letter_pb.RedriveDeadLettersResponse(redriven_count=30),
    ]
    asked = []

    async def redrive(request, **_):
        assert request.consumer_group == "billing"
        asked.append(request.continue_after if request.HasField("continue_after") else None)
        return answers.pop(0)

    api = Api.__new__(Api)
    api._proof = ""
    api.dead_letters = SimpleNamespace(RedriveDeadLetters=redrive)

    async def get_group(_request, **_):
        return group_pb.GetGroupResponse()

    api.groups = SimpleNamespace(GetGroup=get_group)
    change = CHANGES["/dead-letters/redrive"]
    first = await change.perform(Asker(api, ""), {"group": "billing"})
    assert isinstance(first, Unfinished)
    assert first.progress == "1,200 sent back so far. 1 could not be: broker-a/0/7: torn."
    last = await change.perform(Asker(api, ""), first.rest)
    assert last == "1,230 sent back, 5 had been before. 1 could not be: broker-a/0/7: torn."
    assert asked == [None, place]


async def test_a_purge_shows_first_what_it_would_hide_and_says_what_it_could_not():
    asked = []

    async def purge(request, **_):
        asked.append((request.validate_only, request.undo, request.before.seconds))
        answer = topic_pb.PurgeTopicResponse()
        answer.hidden.add(broker_name="broker-a", message_count=1204)
        answer.outcomes.add(broker_name="broker-b").error.message = "it is frozen"
        return answer

    api = Api.__new__(Api)
    api._proof = ""
    api.topics = SimpleNamespace(PurgeTopic=purge)
    given = {"topic": "orders", "before": "1970-01-01T01:00"}
    change = CHANGES["/topics/purge"]
    notice, table = await change.preview(Asker(api, ""), given)
    assert notice.text == "1,204 messages would be hidden. Not on broker-b: it is frozen."
    assert [[cell.text for cell in row] for row in table.rows] == [["broker-a", "", "1,204"]]
    told = await change.perform(Asker(api, ""), given)
    assert told.startswith("Within 10 s, 1,204 messages of topic orders will be hidden.")
    assert told.endswith("Not on broker-b: it is frozen.")
    assert "Not on broker-b" in await CHANGES["/topics/unpurge"].perform(Asker(api, ""), given)
    assert asked == [(True, False, 3600), (False, False, 3600), (False, True, 0)]


async def test_an_export_of_dead_letters_with_a_hole_is_none():
    whole = letter_pb.ListDeadLettersResponse(next_page_token="2")
    whole.dead_letters.add(origin_topic="orders")
    holed = letter_pb.ListDeadLettersResponse()
    holed.silent_brokers.add(broker_name="broker-b").error.message = "it is frozen"
    answers = {"": whole, "2": holed}

    async def listed(request, **_):
        return answers[request.page_token]

    api = Api.__new__(Api)
    api._proof = ""
    api.dead_letters = SimpleNamespace(ListDeadLetters=listed)
    lines = exported(Asker(api, ""), SimpleNamespace(query_params={}))
    assert b"orders" in await anext(lines)
    with pytest.raises(NotDone, match="broker-b did not answer: it is frozen"):
        await anext(lines)


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "7", '{"no_such": 1}'])
async def test_definitions_that_are_none_are_refused(text):
    api = Api.__new__(Api)
    api._proof = ""
    with pytest.raises(WronglyFilled):
        await CHANGES["/definitions/import"].perform(Asker(api, ""), {"definitions": text})
