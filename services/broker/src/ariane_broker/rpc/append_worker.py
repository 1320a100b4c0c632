"""Work on the requests of streams on which producers append."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import partial

from google.rpc.status_pb2 import Status

from ariane.broker.v1.send_service_pb2 import StreamAppendsResponse
from ariane_broker.append.append import AppendRecords
from ariane_broker.append.batch_outcome import BatchOutcome
from ariane_broker.append.promised_outcomes import PromisedOutcomes
from ariane_broker.rpc.translation.append_wire import AppendRequest, stream_response
from ariane_record.layout import Host


class AppendWorker:
    """Works on the requests of one stream."""

    def __init__(self, append_records: AppendRecords, born_host: Host) -> None:
        self._append_records = append_records
        self._born_host = born_host

    def work(self, request: AppendRequest) -> bytes | Awaitable[bytes]:
        """Append; the answer, or what it is to be waited for."""
        outcomes = self._append_records.take(
            request.batches, self._born_host, request.trace_parents
        )
        if isinstance(outcomes, Sequence):
            return stream_response(request.request_number, outcomes)
        if isinstance(outcomes, PromisedOutcomes):
            respond = partial(stream_response, request.request_number)
            return outcomes.then(respond)
        return _answer_later(request, outcomes)

    def refusal(self, request: AppendRequest, status: Status) -> bytes:
        """The answer to a request that failed."""
        response = StreamAppendsResponse(request_number=request.request_number, error=status)
        return response.SerializeToString()


async def _answer_later(
    request: AppendRequest, outcomes: Awaitable[Sequence[BatchOutcome]]
) -> bytes:
    # Some of them were unusual: these are answered one by one.
    return stream_response(request.request_number, await outcomes)
