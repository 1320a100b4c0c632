"""What every process tells about itself, over gRPC."""

from __future__ import annotations

import asyncio
import time

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo

from ariane.common.v1 import process_service_pb2 as process_pb
from ariane.common.v1.process_service_pb2_grpc import ProcessServiceStub
from ariane.namesrv.v1.route_service_pb2 import GetRouteRequest, GetRouteResponse
from ariane_servicekit.configuration.live_settings import LiveSettings
from ariane_servicekit.configuration.settings import ServiceSettings
from ariane_servicekit.configuration.settings_sources import load_settings


async def state_of(channel):
    answer = await ProcessServiceStub(channel).GetProcessState(process_pb.GetProcessStateRequest())
    return answer.state


async def test_a_process_says_which_it_is(serve, probe_app):
    async with serve(probe_app) as probe:
        state = await state_of(probe.channel)
        again = await state_of(probe.channel)
    assert (state.service, state.address) == ("probe", str(probe.address))
    assert state.version
    assert state.incarnation == again.incarnation
    assert state.stage == process_pb.PROCESS_STAGE_SERVING
    assert state.start_time == again.start_time
    assert abs(state.current_time.ToSeconds() - time.time()) < 60
    assert state.current_time.ToMilliseconds() >= state.start_time.ToMilliseconds()


async def test_it_answers_in_every_stage_of_its_life(serve, probe_app):
    probe_app.go_on_draining.clear()
    stages = []

    async def look():
        await probe_app.draining.wait()
        stages.append((await state_of(probe.channel)).stage)
        probe_app.go_on_draining.set()

    async with serve(probe_app) as probe:
        looking = asyncio.create_task(look())
        await asyncio.sleep(0)
        # The channel of the probe closes first: this one outlives the block.
        channel = grpc.aio.insecure_channel(str(probe.address))
        probe.channel = channel
    await looking
    await channel.close()
    assert stages == [process_pb.PROCESS_STAGE_DRAINING]


async def test_settings_tell_where_they_come_from():
    settings = load_settings(
        ServiceSettings, ["--grace-s", "1"], {"ARIANE__DRAIN_S_MAX": "2", "OTHER": "3"}
    )
    live = LiveSettings(settings, dict.fromkeys(("access", "concurrent_calls_max"), lambda _: None))
    sources = {setting.row.name: (setting.value, setting.source) for setting in live.all()}
    assert sources["grace_s"] == ("1", "flag")
    assert sources["drain_s_max"] == ("2", "environment")
    assert sources["insecure"] == ("false", "default")
    assert sources["ready_file"] == ("", "default")


async def test_a_setting_that_may_change_is_changed(serve, probe_app, details_of):
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def get_route(_request, _context):
        entered.set()
        await go_on.wait()
        return GetRouteResponse()

    probe_app.methods["GetRoute"] = get_route
    async with serve(probe_app, concurrent_calls_max=7) as probe:
        stub = ProcessServiceStub(probe.channel)
        request = process_pb.UpdateProcessSettingRequest(name="concurrent_calls_max", value="1")
        setting = (await stub.UpdateProcessSetting(request)).setting
        assert (setting.value, setting.source, setting.dynamic) == ("1", "call", True)
        listed = await stub.ListProcessSettings(process_pb.ListProcessSettingsRequest())
        [shown] = [each for each in listed.settings if each.name == "concurrent_calls_max"]
        assert shown == setting
        assert [each.name for each in listed.settings] == sorted(e.name for e in listed.settings)
        first = asyncio.ensure_future(probe.route.GetRoute(GetRouteRequest(topic="a")))
        await entered.wait()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await probe.route.GetRoute(GetRouteRequest(topic="b"))
        # Who is full can still be asked, and be given more room.
        assert (await state_of(probe.channel)).stage == process_pb.PROCESS_STAGE_SERVING
        go_on.set()
        await first
    [error_info] = details_of(caught.value)[ErrorInfo]
    assert (error_info.reason, error_info.metadata["limit"]) == ("SERVICE_BUSY", "1")


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("nothing", "1", "is not known"),
        ("grace_s", "1", "may not change"),
        ("concurrent_calls_max", "0", "greater than or equal to 1"),
        ("concurrent_calls_max", "many", "valid integer"),
    ],
)
async def test_a_change_of_a_fixed_setting_is_refused(
    serve, probe_app, details_of, name, value, rule
):
    async with serve(probe_app) as probe:
        request = process_pb.UpdateProcessSettingRequest(name=name, value=value)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await ProcessServiceStub(probe.channel).UpdateProcessSetting(request)
    [error_info] = details_of(caught.value)[ErrorInfo]
    assert error_info.reason == "SETTING_INVALID"
    assert error_info.metadata["setting"] == name
    assert rule in error_info.metadata["rule"]


def test_what_is_changeable_must_be_applied():
    with pytest.raises(ValueError, match="concurrent_calls_max"):
        LiveSettings(ServiceSettings(), {})
