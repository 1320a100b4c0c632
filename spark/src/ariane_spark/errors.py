"""Errors that a Spark job gets.

::

    ArianeSparkError
    +-- OptionError (ValueError)
    |   +-- UnknownOption       no option has this name; the nearest one is named
    |   +-- OptionIllegal       the value is malformed, or contradicts another option
    |   +-- FeatureNotAvailable the option or mode is known, and comes with a later version
    +-- SparkTooOld             this version of Spark lacks a needed function
    +-- SchemaIllegal (ValueError)  a column that a topic does not have, or has with another type
    +-- RowIllegal (ValueError) a row that cannot become a message
    +-- QueueNotFound           options name a queue that no broker carries
    +-- NothingAtTime           a queue has no message at or after a starting time
    +-- DataLost                messages that were to be read are not kept any more
    +-- MessageDamaged          the body of a message cannot be decompressed
    +-- CommitRefused           the tasks' reports of a batch disagree; nothing was done
    +-- BatchDiffers            the batch was written before, with other rows; nothing was done

The text of each error reaches the user as it stands: Spark wraps it into a ``PythonException``.
"""

from __future__ import annotations


class ArianeSparkError(Exception):
    """Root of every error of this package."""


class OptionError(ArianeSparkError, ValueError):
    """An option that cannot be obeyed.

    Attributes:
        option: Name of the option, as the documentation spells it where it is known.
        is_of_other_use: Whether it is an option of another kind of query.
    """

    def __init__(self, option: str, text: str, *, is_of_other_use: bool = False) -> None:
        super().__init__(f"option {option!r}: {text}")
        self.option = option
        self.is_of_other_use = is_of_other_use

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel between Spark's processes; a rebuilt one must not repeat its prefix.
        return (_rebuilt, (type(self), self.args, self.__dict__))


class UnknownOption(OptionError):
    """No option has this name."""


class OptionIllegal(OptionError):
    """A value that is malformed, or that contradicts another option."""


class FeatureNotAvailable(OptionError):
    """Known, but not built yet; refused rather than ignored."""


class SparkTooOld(ArianeSparkError):
    """This version of Spark lacks a function that reading or writing needs."""


class SchemaIllegal(ArianeSparkError, ValueError):
    """A column that a topic does not have, or has with another type."""


class RowIllegal(ArianeSparkError, ValueError):
    """A row that cannot become a message."""


class QueueNotFound(ArianeSparkError):
    """Options name a queue that no broker carries, or topics that there are none of."""


class NothingAtTime(ArianeSparkError):
    """A queue has no message at or after a starting time, and that was to be an error."""


class DataLost(ArianeSparkError):
    """Messages that were to be read are not kept any more."""


class MessageDamaged(ArianeSparkError):
    """The body of a message cannot be decompressed, and its column is read."""


class CommitRefused(ArianeSparkError):
    """The tasks' reports of a batch disagree, so it was not committed.

    Start the query again: the batch is then repeated, or found committed.
    """


class BatchDiffers(ArianeSparkError):
    """A batch comes again, and was committed before with other rows; nothing was written.

    To skip it would lose rows, and to write it would write some of them twice.
    """


def _rebuilt(
    error_class: type[OptionError], args: tuple[object, ...], attributes: dict[str, object]
) -> OptionError:
    """An option error as it was before it was pickled."""
    error = error_class.__new__(error_class)
    error.args = args
    error.__dict__.update(attributes)
    return error
