"""The filter of a topic, from whatever form a subscription gives it in."""

from __future__ import annotations

from typing import TypeAlias

from ariane_sdk.checks.local_filter import Local, LocalFilter
from ariane_sdk.checks.sql_filter import Sql, SqlFilter
from ariane_sdk.checks.tag_filter import TagFilter
from ariane_sdk.checks.uploaded_filter import Uploaded, UploadedFilter

MessageFilter: TypeAlias = TagFilter | SqlFilter | UploadedFilter | LocalFilter


def message_filter(expression: str | Sql | Uploaded | Local) -> MessageFilter:
    """The filter that somebody means: a condition, code, or a text about tags.

    Raises:
        FilterIllegal: It is neither.
    """
    if isinstance(expression, Uploaded):
        return UploadedFilter(expression)
    if isinstance(expression, Local):
        return LocalFilter(expression)
    return SqlFilter(expression) if isinstance(expression, Sql) else TagFilter.parse(expression)
