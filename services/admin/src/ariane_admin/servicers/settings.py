"""``SettingService``: the settings of every process, side by side."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from grpc import aio

from ariane.admin.v1 import setting_service_pb2 as setting_pb
from ariane.admin.v1.setting_service_pb2_grpc import SettingServiceServicer
from ariane.common.v1 import process_service_pb2 as process_pb
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_admin.asking.cluster_doors import answer_from, changed_at
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_sdk.errors import CallError
from ariane_servicekit import ServiceError, field_invalid

_Context = aio.ServicerContext[Any, Any]

_PAGE = 1000


class _Process(NamedTuple):
    service: str
    address: str
    member: str

    @property
    def peer(self) -> str:
        """Its name in the text of an error."""
        return f"{self.service} at {self.address}"


class SettingServicer(SettingServiceServicer):
    """Asks each process for its settings, and changes them where the process allows."""

    def __init__(self, cluster: ClusterAccess, checkers: Sequence[str]) -> None:
        self._cluster = cluster
        self._doors = cluster.doors
        self._checkers = checkers
        self._own_address = ""

    def listens_on(self, address: str) -> None:
        """Set the address of admin itself, which has settings like the others.

        Not called for servicers that the command line runs without admin's process.
        """
        self._own_address = address

    async def addresses(self) -> set[str]:
        """The addresses of all processes of the cluster that are known.

        Raises:
            NameServersUnreachable: No name server answers.
        """
        return {process.address for process in await self._processes("")}

    async def before(
        self, method: str, request: setting_pb.UpdateSettingRequest
    ) -> setting_pb.ListSettingsResponse:
        """The setting in each process before it is changed."""
        chosen = await self._chosen(request.service, request.addresses)
        settings, silent = await self._settings(chosen)
        return setting_pb.ListSettingsResponse(
            settings=[each for each in settings if each.setting.name == request.name],
            silent_processes=silent,
        )

    async def ListProcesses(
        self, request: setting_pb.ListProcessesRequest, context: _Context
    ) -> setting_pb.ListProcessesResponse:
        """List the processes of the cluster."""
        page = self._cluster.page(
            sorted(await self._processes(request.service)),
            lambda each: each,
            request,
            scope=f"processes:{request.service}",
        )
        found = await asyncio.gather(*map(self._state, page.entries))
        return setting_pb.ListProcessesResponse(
            processes=found, next_page_token=page.next_page_token
        )

    async def ListSettings(
        self, request: setting_pb.ListSettingsRequest, context: _Context
    ) -> setting_pb.ListSettingsResponse:
        """List settings with their values in each process."""
        only = [request.address] if request.address else []
        settings, silent = await self._settings(await self._chosen(request.service, only))
        if request.differing_only:
            settings = [
                each
                for each in settings
                if len({*each.values.values(), each.setting.default_value}) > 1
            ]
        page = self._cluster.page(
            settings,
            lambda each: (each.setting.name,),
            request,
            scope=f"settings:{request.service}:{request.address}:{request.differing_only}",
            page_size=_PAGE,
        )
        return setting_pb.ListSettingsResponse(
            settings=page.entries,
            next_page_token=page.next_page_token,
            silent_processes=silent,
        )

    async def UpdateSetting(
        self, request: setting_pb.UpdateSettingRequest, context: _Context
    ) -> setting_pb.UpdateSettingResponse:
        """Change a setting in processes that allow it."""
        chosen = await self._chosen(request.service, request.addresses)
        settings, _ = await self._settings(chosen)
        known = {each.setting.name: each for each in settings}
        found = known.get(request.name)
        if found is None or not found.setting.dynamic:
            rule = "is not known" if found is None else "may not change while the process runs"
            may = ", ".join(name for name, each in known.items() if each.setting.dynamic)
            raise ServiceError(
                ErrorReason.ERROR_REASON_SETTING_INVALID,
                f"setting {request.name!r} of {request.service}: {rule}; what may: {may or 'none'}",
                {"setting": request.name, "rule": rule},
            )
        asked = process_pb.UpdateProcessSettingRequest(name=request.name, value=request.value)
        refusals: list[CallError] = []

        async def change(process: _Process) -> setting_pb.SettingOutcome:
            outcome = setting_pb.SettingOutcome(
                process=_reference(process), previous_value=found.values.get(process.address, "")
            )
            stub = self._doors.processes(process.address)
            try:
                await changed_at(process.peer, stub.UpdateProcessSetting, asked)
            except CallError as error:
                refusals.append(error)
                outcome.error.CopyFrom(self._cluster.translator.status(error))
            return outcome

        outcomes = await asyncio.gather(*map(change, chosen))
        if len(refusals) == len(outcomes):
            raise refusals[0]
        return setting_pb.UpdateSettingResponse(outcomes=outcomes)

    async def _processes(self, service: str) -> list[_Process]:
        brokers = await self._doors.client.list_brokers()
        found = {
            *(_Process("namesrv", address, "") for address in self._doors.name_servers),
            *(_Process("broker", b.address, f"{b.broker_name}/{b.broker_id}") for b in brokers),
            *(_Process("filter", address, "") for b in brokers for address in b.filter_servers),
            *(_Process("txn-checker", address, "") for address in self._checkers),
            *(_Process("admin", address, "") for address in (self._own_address,) if address),
        }
        return [each for each in found if service in {"", each.service}]

    async def _chosen(self, service: str, addresses: Sequence[str]) -> list[_Process]:
        """The requested processes of one service; no other address is ever called."""
        if not service:
            raise field_invalid("service", "is required")
        known = await self._processes(service)
        chosen = sorted(each for each in known if not addresses or each.address in addresses)
        missing = set(addresses) - {each.address for each in chosen}
        if missing or not chosen:
            where = f"at {min(missing)}" if missing else "in this cluster"
            field = "addresses" if missing else "service"
            raise field_invalid(field, f"names none that is there: there is no {service} {where}")
        return chosen

    async def _settings(
        self, processes: Sequence[_Process]
    ) -> tuple[list[setting_pb.ClusterSetting], list[setting_pb.ClusterProcess]]:
        """The settings of processes, by name; and the processes that do not answer.

        Raises:
            CallError: None answers.
        """

        async def at(process: _Process) -> Sequence[process_pb.ProcessSetting]:
            asked = process_pb.ListProcessSettingsRequest(page_size=_PAGE)
            stub = self._doors.processes(process.address)
            return (await answer_from(process.peer, stub.ListProcessSettings, asked)).settings

        results = await asyncio.gather(*map(at, processes), return_exceptions=True)
        settings: dict[str, setting_pb.ClusterSetting] = {}
        silent: list[setting_pb.ClusterProcess] = []
        for process, answer in zip(processes, results, strict=True):
            if isinstance(answer, CallError):
                if all(isinstance(each, CallError) for each in results):
                    raise answer
                error = self._cluster.translator.status(answer)
                silent.append(setting_pb.ClusterProcess(process=_reference(process), error=error))
                continue
            if isinstance(answer, BaseException):
                raise answer
            for setting in answer:
                entry = settings.setdefault(
                    setting.name, setting_pb.ClusterSetting(setting=setting)
                )
                entry.values[process.address] = setting.value
        return [settings[name] for name in sorted(settings)], silent

    async def _state(self, process: _Process) -> setting_pb.ClusterProcess:
        found = setting_pb.ClusterProcess(process=_reference(process))
        stub = self._doors.processes(process.address)
        try:
            request = process_pb.GetProcessStateRequest()
            answer = await answer_from(process.peer, stub.GetProcessState, request)
        except CallError as error:
            found.error.CopyFrom(self._cluster.translator.status(error))
        else:
            found.state.CopyFrom(answer.state)
        return found


def _reference(process: _Process) -> setting_pb.ProcessReference:
    return setting_pb.ProcessReference(
        service=process.service, address=process.address, member=process.member
    )
