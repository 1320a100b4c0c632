"""``ProcessService``: information about the process itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio
from typing_extensions import override

from ariane.common.v1 import process_service_pb2 as process_pb
from ariane.common.v1.process_service_pb2_grpc import (
    ProcessServiceServicer,
    add_ProcessServiceServicer_to_server,
)
from ariane_servicekit.clock import Clock
from ariane_servicekit.configuration.live_settings import LiveSetting, LiveSettings
from ariane_servicekit.machine import Machine
from ariane_servicekit.observability.logs import get_logger
from ariane_servicekit.rpc.admission import Phase
from ariane_servicekit.rpc.pages import take_page
from ariane_servicekit.rpc.server import RpcService
from ariane_servicekit.security.gate.asking import require_super

_log = get_logger(__name__)

_STAGES: Final = MappingProxyType(
    {
        Phase.STARTING: process_pb.PROCESS_STAGE_STARTING,
        Phase.SERVING: process_pb.PROCESS_STAGE_SERVING,
        Phase.DRAINING: process_pb.PROCESS_STAGE_DRAINING,
    }
)
_ACCESS: Final = "access"
_SETTINGS_DEFAULT: Final = 1000


class ProcessServicer(ProcessServiceServicer):
    """Translates queries about the process, and changes of its settings.

    Args:
        service_name: The name of its service.
        settings: Its settings.
        machine: What it runs on.
        phase: Returns its phase.
        name: Its cluster, and its own name there; empty where there is none.
        certificate_end: Returns when its certificate ends; None without one.
    """

    def __init__(
        self,
        service_name: str,
        settings: LiveSettings,
        machine: Machine,
        phase: Callable[[], Phase],
        *,
        name: tuple[str, str],
        certificate_end: Callable[[], datetime] | None = None,
    ) -> None:
        self._settings = settings
        clock = self._clock = machine.clock
        self._phase = phase
        self._certificate_end = certificate_end
        self._state = process_pb.ProcessState(
            service=service_name,
            cluster_name=name[0],
            member_name=name[1],
            version=_version_of(service_name),
            incarnation=machine.new_id(),
            start_time=_time(clock),
        )

    def listens_on(self, address: str) -> None:
        """Set the address, once its port is known."""
        self._state.address = address

    @override
    async def GetProcessState(
        self,
        request: process_pb.GetProcessStateRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> process_pb.GetProcessStateResponse:
        state = process_pb.ProcessState(
            stage=_STAGES[self._phase()], current_time=_time(self._clock)
        )
        state.MergeFrom(self._state)
        if self._certificate_end is not None:
            state.certificate_expire_time.FromDatetime(self._certificate_end())
        return process_pb.GetProcessStateResponse(state=state)

    @override
    async def ListProcessSettings(
        self,
        request: process_pb.ListProcessSettingsRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> process_pb.ListProcessSettingsResponse:
        page = take_page(
            self._settings.all(),
            lambda setting: (setting.row.name,),
            page_size=request.page_size or _SETTINGS_DEFAULT,
            page_token=request.page_token,
            scope="settings",
        )
        return process_pb.ListProcessSettingsResponse(
            settings=map(_message, page.entries), next_page_token=page.next_page_token
        )

    @override
    async def UpdateProcessSetting(
        self,
        request: process_pb.UpdateProcessSettingRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> process_pb.UpdateProcessSettingResponse:
        if request.name == _ACCESS:
            # Else every right would be of those who may change the number of calls, too.
            require_super("change who may call")
        setting = self._settings.change(request.name, request.value)
        _log.warning("setting_changed", setting=setting.row.name, value=setting.value)
        return process_pb.UpdateProcessSettingResponse(setting=_message(setting))


def process_rpc_service(servicer: ProcessServicer) -> RpcService:
    """The service in the form for a server."""
    descriptor = process_pb.DESCRIPTOR.services_by_name["ProcessService"]
    return RpcService(descriptor, add_ProcessServiceServicer_to_server, servicer)


def _message(setting: LiveSetting) -> process_pb.ProcessSetting:
    return process_pb.ProcessSetting(
        name=setting.row.name,
        value=setting.value,
        default_value=setting.row.default,
        type=setting.row.type,
        description=setting.row.description,
        dynamic=setting.row.changeable,
        source=setting.source,
    )


def _time(clock: Clock) -> Timestamp:
    time = Timestamp()
    time.FromMilliseconds(clock.now_ms())
    return time


def _version_of(service_name: str) -> str:
    """The version of the service's distribution; of servicekit if it has none."""
    try:
        return version(f"ariane-{service_name}")
    except PackageNotFoundError:
        return version("ariane-servicekit")
