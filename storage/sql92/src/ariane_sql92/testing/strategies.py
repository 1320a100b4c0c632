"""Random conditions, and messages whose few properties and values meet them often."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

_NAMES: Final = ("a", "b", "c", "Delay", "TAGS")
_WORDS: Final = (
    *("0", "1", "5", "-5", "+5", "007", "60", "61", "2147483647", "2147483648", "-2147483649"),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "5.0",
        "5.",
        ".5",
        "-0.0",
        "0.0",
        "1e3",
        "1E400",
    ),
    *(
        "5d",
        "5f",
        " 5 ",
        "NaN",
        "-NaN",
        "Infinity",
        "0x1p3",
        "0x1",
        "1_000",
        "nan",
        "inf",
        "5L",
        "\u0665",
    ),
    *(
        "true",
        "TRUE",
        "false",
        "yes",
        "JFK",
        "jfk",
        "JFKX",
        "it's",
        "''",
        "grüße",
        "\U0001d7dd",
        "a b",
        "-",
    ),
)
_NUMBERS: Final = (
    *("0", "1", "5", "5L", "60", "2147483647", "2147483648", "9223372036854775807"),
    *("5.0", "5.", ".5", "60.5", "1e3", "5E-1", "9007199254740993"),
)
_ORDERS: Final = ("=", "<>", ">", ">=", "<", "<=")
_MATCHES: Final = ("CONTAINS", "STARTSWITH", "ENDSWITH")
_JOINERS: Final = (" AND ", " OR ", " and ", "\nOr ")


def property_maps() -> st.SearchStrategy[dict[str, str]]:
    """Properties of a message."""
    values = st.sampled_from(_WORDS) | st.text("JFKtrue5.", min_size=1, max_size=4)
    return st.dictionaries(st.sampled_from(_NAMES), values, max_size=len(_NAMES))


def condition_texts() -> st.SearchStrategy[str]:
    """Conditions that follow the grammar; some have no meaning and must be refused."""
    return st.recursive(_leaves(), _branches, max_leaves=8)


def _quoted() -> st.SearchStrategy[str]:
    words = st.sampled_from(_WORDS) | st.just("")
    return words.map(lambda word: "'" + word.replace("'", "''") + "'")


def _values() -> st.SearchStrategy[str]:
    bare = st.sampled_from(_NAMES) | st.sampled_from(_NUMBERS) | _quoted()
    signed = st.builds("{}{}".format, st.sampled_from(("-", "+", "- -")), bare)
    rare = st.sampled_from(("TRUE", "false", "NULL"))
    return st.one_of(bare, bare, bare, signed, rare)


def _leaves() -> st.SearchStrategy[str]:
    name = st.sampled_from(_NAMES)
    number = st.sampled_from(_NUMBERS) | name
    negation = st.sampled_from(("", "NOT "))
    texts = st.lists(_quoted(), min_size=1, max_size=6).map(", ".join)
    return st.one_of(
        st.builds("{} {} {}".format, name, st.sampled_from(_ORDERS), st.sampled_from(_NUMBERS)),
        st.builds("{}{}{}".format, _values(), st.sampled_from(_ORDERS), _values()),
        st.builds("{} IS {}NULL".format, _values(), negation),
        st.builds("{} {}IN ({})".format, name, negation, texts),
        st.builds("{} {}BETWEEN {} AND {}".format, name, negation, number, number),
        st.builds("{} {}{} {}".format, _values(), negation, st.sampled_from(_MATCHES), _quoted()),
        st.sampled_from(("TRUE", "FALSE", "NULL", "a", "b /* never */")),
    )


def _branches(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=2, max_size=3).flatmap(
            lambda parts: st.sampled_from(_JOINERS).map(lambda joiner: joiner.join(parts))
        ),
        inner.map("NOT ({})".format),
        inner.map("({})".format),
        st.builds("({}) {} ({})".format, inner, st.sampled_from(_ORDERS[:2]), inner),
        st.builds("({}) {} {}".format, inner, st.sampled_from(_ORDERS[:2]), _values()),
        st.builds("{} {} ({})".format, _values(), st.sampled_from(_ORDERS[:2]), inner),
        st.builds("({}) IS NULL".format, inner),
        st.builds("-({}) IS NULL".format, inner),
        st.builds("({}) CONTAINS {}".format, inner, _quoted()),
    )
