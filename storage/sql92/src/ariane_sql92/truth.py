"""Four truths, one byte a message, and how AND, OR and NOT combine them.

Beside true, false and unknown (of what is missing) there is *untold*: a text was to be compared
with a number and is none. RocketMQ leaves the whole condition at that place, and the message is not
delivered; so untold swallows everything to its right, and nothing turns it into true::

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
"""One of the four for each message."""

FALSE: Final = np.uint8(0)
TRUE: Final = np.uint8(1)
UNKNOWN: Final = np.uint8(2)
UNTOLD: Final = np.uint8(3)

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
