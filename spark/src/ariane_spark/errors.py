"""Errors that a Spark job gets.

::

    ArianeSparkError
    +-- OptionError (ValueError)
    |   +-- UnknownOption       no option has this name; the nearest one is named
    |   +-- OptionIllegal       the value is malformed, or contradicts another option
    |   +-- FeatureNotAvailable the option or mode is planned for a later version
    +-- SparkTooOld             this version of Spark lacks a needed function
    +-- SchemaIllegal (ValueError)  a column that a topic does not have, or has with another type
    +-- RowIllegal (ValueError) a row that cannot become a message
    +-- QueueNotFound           options name a queue that no broker has
    +-- NothingAtTime           a queue has no message at or after a starting time
    +-- DataLost                messages that were to be read are not kept any more
    +-- MessageDamaged          the body of a message cannot be decompressed
    +-- CommitRefused           the tasks' reports of a batch disagree; nothing was done
    +-- BatchDiffers            the batch was written before, with other rows; nothing was done

The text of each error reaches the user unchanged: Spark wraps it into a ``PythonException``.
"""

from __future__ import annotations


class ArianeSparkError(Exception):
    """Root of every error of this package."""


class OptionError(ArianeSparkError, ValueError):
    """An option that cannot be used."""

    def __init__(self, option: str, text: str, *, is_of_other_use: bool = False) -> None:
        super().__init__(f"option {option!r}: {text}")
        self.option = option
        """The name of the option, in the spelling of the documentation if it is known."""
        self.is_of_other_use = is_of_other_use
        """Whether it is an option of another kind of query."""

    def __reduce__(self) -> tuple[object, ...]:
        # Errors are sent between Spark's processes; a rebuilt one must not repeat its prefix.
        return (_rebuilt, (type(self), self.args, self.__dict__))


class UnknownOption(OptionError):
    """No option has this name."""


class OptionIllegal(OptionError):
    """A value that is malformed, or that contradicts another option."""


class FeatureNotAvailable(OptionError):
    """An option or mode that is planned but not built yet; refused instead of ignored."""


class SparkTooOld(ArianeSparkError):
    """This version of Spark lacks a function that reading or writing needs."""


class SchemaIllegal(ArianeSparkError, ValueError):
    """A column that a topic does not have, or has with another type."""


class RowIllegal(ArianeSparkError, ValueError):
    """A row that cannot become a message."""


class QueueNotFound(ArianeSparkError):
    """Options name a queue that no broker has, or a pattern that no topic matches."""


class NothingAtTime(ArianeSparkError):
    """A queue has no message at or after a starting time, which the options make an error."""


class DataLost(ArianeSparkError):
    """Messages that were to be read are not kept any more."""


class MessageDamaged(ArianeSparkError):
    """The body of a message cannot be decompressed, and the query reads bodies."""


class CommitRefused(ArianeSparkError):
    """The tasks' reports of a batch disagree, so it was not committed.

    Start the query again: the batch is then repeated, or found committed.
    """


class BatchDiffers(ArianeSparkError):
    """A repeated batch was committed before with other rows; nothing was written.

    Skipping it would lose rows, and writing it would write some rows twice.
    """


def _rebuilt(
    error_class: type[OptionError], args: tuple[object, ...], attributes: dict[str, object]
) -> OptionError:
    """An option error as it was before it was pickled."""
    error = error_class.__new__(error_class)
    error.args = args
    error.__dict__.update(attributes)
    return error
