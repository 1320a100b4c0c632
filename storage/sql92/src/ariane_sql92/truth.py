"""Four truths, one byte per message, and their combination by AND, OR and NOT.

Besides true, false and unknown (of a missing value) there is *incomparable*: a text that is
compared with a number is not a number. RocketMQ stops the whole condition at that place, and does
not deliver the message. So it overrides everything to its right, and never becomes true::

    AND    F T ? !     OR    F T ? !     NOT
    F      F F F F     F     F T ? !     F -> T
    T      F T ? !     T     T T T T     T -> F
    ?      F ? ? !     ?     ? T ? !     ? -> ?
    !      ! ! ! !     !     ! ! ! !     ! -> !
    left, then right
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Truths: TypeAlias = NDArray[np.uint8]
"""One of the four truths for each message."""

FALSE: Final = np.uint8(0)
TRUE: Final = np.uint8(1)
UNKNOWN: Final = np.uint8(2)
INCOMPARABLE: Final = np.uint8(3)

_ROW_SHIFT: Final = 2
_AND: Final = np.array([0, 0, 0, 0, 0, 1, 2, 3, 0, 2, 2, 3, 3, 3, 3, 3], np.uint8)
_OR: Final = np.array([0, 1, 2, 3, 1, 1, 1, 1, 2, 1, 2, 3, 3, 3, 3, 3], np.uint8)
_NOT: Final = np.array([1, 0, 2, 3], np.uint8)


def both(left: Truths, right: Truths) -> Truths:
    """AND."""
    truths: Truths = _AND[left << _ROW_SHIFT | right]
    return truths


def either(left: Truths, right: Truths) -> Truths:
    """OR."""
    truths: Truths = _OR[left << _ROW_SHIFT | right]
    return truths


def opposite(truths: Truths) -> Truths:
    """NOT."""
    turned: Truths = _NOT[truths]
    return turned
