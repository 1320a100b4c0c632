"""Telling the application which queues its consumer gains and loses, before they move."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

from ariane_record.names import RETRY_PREFIX
from ariane_sdk.client.listener import is_coroutine_function
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.runtime.application_calls import for_thread
from ariane_sdk.runtime.log import logger
from ariane_sdk.settings import ConsumerSettings, QueueNotice


class QueueNotices:
    """Calls the functions of a consumer's settings, and waits for them."""

    def __init__(self, settings: ConsumerSettings, *, locked: bool = False) -> None:
        """Call ``on_gained`` and ``on_lost`` of these settings.

        ``locked``: whether the next owner of a queue waits for its lock, however long that takes.
        """
        self._on_gained = settings.on_gained
        self._on_lost = settings.on_lost
        self._timeout_s = settings.release_timeout_s
        self._handover_s = math.inf if locked else settings.handover_s

    async def gained(self, queues: Sequence[MessageQueue]) -> None:
        """Tell of queues whose first messages have not been pulled yet."""
        await self._notify(self._on_gained, "on_gained", queues)

    async def lost(self, queues: Sequence[MessageQueue], *, to_other: bool = False) -> None:
        """Tell of queues whose messages in work are finished, and that are not given up yet.

        ``to_other``: whether another member is about to take them over.
        """
        now_s = asyncio.get_running_loop().time
        began_s = now_s()
        await self._notify(self._on_lost, "on_lost", queues)
        took_s = now_s() - began_s
        if to_other and self._on_lost is not None and took_s > self._handover_s:
            logger.warning(
                "on_lost took %.1f s with %s, whose next owner begins after handover_s, %g s",
                took_s,
                ", ".join(map(str, queues)),
                self._handover_s,
            )

    async def _notify(
        self, notice: QueueNotice | None, name: str, queues: Sequence[MessageQueue]
    ) -> None:
        # The application does not know the group's retry topic.
        own = sorted(queue for queue in queues if not queue.topic.startswith(RETRY_PREFIX))
        if notice is None or not own:
            return
        try:
            async with asyncio.timeout(self._timeout_s):
                if is_coroutine_function(notice):
                    answer = notice(own)
                else:
                    answer = await asyncio.to_thread(for_thread(notice), own)
                if answer is not None:
                    await answer
        except TimeoutError:
            logger.warning("%s took longer than %g s; not waiting", name, self._timeout_s)
        except (SystemExit, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
                raise
            # Queues move, whatever the application does.
            logger.exception("%s failed with %s", name, ", ".join(map(str, own)))
