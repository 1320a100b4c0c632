"""The kit that all ArianeMQ processes share. The README lists the pieces."""

from ariane_servicekit.addresses import Address
from ariane_servicekit.clock import Clock, SystemClock
from ariane_servicekit.configuration.settings import (
    CHANGEABLE,
    NAME_SERVER_FORMS,
    AddressList,
    CommaSeparated,
    ListenAddress,
    NameServerList,
    ServiceSettings,
)
from ariane_servicekit.configuration.settings_sources import (
    SettingRow,
    load_settings,
    settings_reference,
)
from ariane_servicekit.errors import (
    ServiceError,
    ServicekitError,
    SettingsError,
    StartRefused,
    StopIncomplete,
    feature_not_available,
    field_invalid,
)
from ariane_servicekit.machine import Machine, new_id
from ariane_servicekit.observability.logs import configure_logs, get_logger
from ariane_servicekit.rpc.answer_budget import AnswerBudget, AnswerLease
from ariane_servicekit.rpc.calls import Call, current_call
from ariane_servicekit.rpc.channels import open_channel
from ariane_servicekit.rpc.error_status import ErrorRules, ErrorTranslator
from ariane_servicekit.rpc.first_request import first_request
from ariane_servicekit.rpc.pages import Page, PageKey, PageRequest, take_page
from ariane_servicekit.rpc.server import RpcService
from ariane_servicekit.running.background import Loop
from ariane_servicekit.running.lifecycle import live, main, run, serving
from ariane_servicekit.running.service import ExitStatus, Service, StopRequest
from ariane_servicekit.running.turns import EXAMINED_MAX, at_once, in_turns

__all__ = [
    "CHANGEABLE",
    "EXAMINED_MAX",
    "NAME_SERVER_FORMS",
    "Address",
    "AddressList",
    "AnswerBudget",
    "AnswerLease",
    "Call",
    "Clock",
    "CommaSeparated",
    "ErrorRules",
    "ErrorTranslator",
    "ExitStatus",
    "ListenAddress",
    "Loop",
    "Machine",
    "NameServerList",
    "Page",
    "PageKey",
    "PageRequest",
    "RpcService",
    "Service",
    "ServiceError",
    "ServiceSettings",
    "ServicekitError",
    "SettingRow",
    "SettingsError",
    "StartRefused",
    "StopIncomplete",
    "StopRequest",
    "SystemClock",
    "at_once",
    "configure_logs",
    "current_call",
    "feature_not_available",
    "field_invalid",
    "first_request",
    "get_logger",
    "in_turns",
    "live",
    "load_settings",
    "main",
    "new_id",
    "open_channel",
    "run",
    "serving",
    "settings_reference",
    "take_page",
]
