"""The filter of a topic, from any form of a subscription."""

from __future__ import annotations

from typing import TypeAlias

from ariane_sdk.checks.local_filter import Local, LocalFilter
from ariane_sdk.checks.sql_filter import Sql, SqlFilter
from ariane_sdk.checks.tag_filter import TagFilter
from ariane_sdk.checks.uploaded_filter import Uploaded, UploadedFilter

MessageFilter: TypeAlias = TagFilter | SqlFilter | UploadedFilter | LocalFilter


def message_filter(expression: str | Sql | Uploaded | Local) -> MessageFilter:
    """Make a filter from a condition, from code, or from an expression of tags.

    Raises:
        FilterIllegal: It is none of these.
    """
    if isinstance(expression, Uploaded):
        return UploadedFilter(expression)
    if isinstance(expression, Local):
        return LocalFilter(expression)
    return SqlFilter(expression) if isinstance(expression, Sql) else TagFilter.parse(expression)
