"""The kit that all ArianeMQ processes share. The README lists the pieces."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ariane_servicekit.addresses import Address as Address
    from ariane_servicekit.clock import Clock as Clock
    from ariane_servicekit.clock import SystemClock as SystemClock
    from ariane_servicekit.configuration.settings import CHANGEABLE as CHANGEABLE
    from ariane_servicekit.configuration.settings import NAME_SERVER_FORMS as NAME_SERVER_FORMS
    from ariane_servicekit.configuration.settings import AddressList as AddressList
    from ariane_servicekit.configuration.settings import CommaSeparated as CommaSeparated
    from ariane_servicekit.configuration.settings import ListenAddress as ListenAddress
    from ariane_servicekit.configuration.settings import NameServerList as NameServerList
    from ariane_servicekit.configuration.settings import ServiceSettings as ServiceSettings
    from ariane_servicekit.configuration.settings_sources import SettingRow as SettingRow
    from ariane_servicekit.configuration.settings_sources import load_settings as load_settings
    from ariane_servicekit.configuration.settings_sources import (
        settings_reference as settings_reference,
    )
    from ariane_servicekit.errors import ServiceError as ServiceError
    from ariane_servicekit.errors import ServicekitError as ServicekitError
    from ariane_servicekit.errors import SettingsError as SettingsError
    from ariane_servicekit.errors import StartRefused as StartRefused
    from ariane_servicekit.errors import StopIncomplete as StopIncomplete
    from ariane_servicekit.errors import feature_not_available as feature_not_available
    from ariane_servicekit.errors import field_invalid as field_invalid
    from ariane_servicekit.machine import Machine as Machine
    from ariane_servicekit.machine import new_id as new_id
    from ariane_servicekit.observability.logs import configure_logs as configure_logs
    from ariane_servicekit.observability.logs import get_logger as get_logger
    from ariane_servicekit.rpc.answer_budget import AnswerBudget as AnswerBudget
    from ariane_servicekit.rpc.answer_budget import AnswerLease as AnswerLease
    from ariane_servicekit.rpc.calls import Call as Call
    from ariane_servicekit.rpc.calls import current_call as current_call
    from ariane_servicekit.rpc.channels import open_channel as open_channel
    from ariane_servicekit.rpc.error_status import ErrorRules as ErrorRules
    from ariane_servicekit.rpc.error_status import ErrorTranslator as ErrorTranslator
    from ariane_servicekit.rpc.first_request import first_request as first_request
    from ariane_servicekit.rpc.pages import Page as Page
    from ariane_servicekit.rpc.pages import PageKey as PageKey
    from ariane_servicekit.rpc.pages import PageRequest as PageRequest
    from ariane_servicekit.rpc.pages import take_page as take_page
    from ariane_servicekit.rpc.server import RpcService as RpcService
    from ariane_servicekit.running.background import Loop as Loop
    from ariane_servicekit.running.lifecycle import live as live
    from ariane_servicekit.running.lifecycle import main as main
    from ariane_servicekit.running.lifecycle import run as run
    from ariane_servicekit.running.lifecycle import serving as serving
    from ariane_servicekit.running.service import ExitStatus as ExitStatus
    from ariane_servicekit.running.service import Service as Service
    from ariane_servicekit.running.service import StopRequest as StopRequest
    from ariane_servicekit.running.turns import EXAMINED_MAX as EXAMINED_MAX
    from ariane_servicekit.running.turns import at_once as at_once
    from ariane_servicekit.running.turns import in_turns as in_turns
else:
    from ariane_servicekit.public_names import found as __getattr__  # noqa: F401 - as well.
    from ariane_servicekit.public_names import listed as __all__  # noqa: F401 - Python looks for it.
    from ariane_servicekit.public_names import names as __dir__  # noqa: F401 - as well.
