"""Filters of every dialect as services write them: few names and values, so that documents match."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["tenant", "year", "tags", "draft"])
TEXTS = st.sampled_from(["acme", "it's", 'say "hi"', "a b", "", "2020", "true", "acm"])
NUMBERS = st.integers(-1, 3) | st.sampled_from([2020, 0.5])
SCALARS = TEXTS | NUMBERS | st.booleans()
DAYS = st.sampled_from(["2024-01-01", "2024-01-02T10:00:00Z", "2024-01-02T12:30:00+02:00"])
VALUES = SCALARS | DAYS
DOCUMENTS = st.dictionaries(NAMES, st.none() | VALUES | st.lists(st.none() | VALUES, max_size=3), max_size=4)

Filters = st.SearchStrategy[Any]


def _nested(leaves: Filters, extend: Any) -> Filters:
    return st.recursive(leaves, extend, max_leaves=6)


def _bounds(values: Filters, *names: str) -> Filters:
    return st.dictionaries(st.sampled_from(names), values, min_size=1, max_size=2)


def qdrant() -> Filters:
    words = TEXTS | st.integers(-1, 3)
    match = st.one_of(
        st.builds(lambda value: {"value": value}, words | st.booleans()),
        st.builds(
            lambda values: {"any": values},
            st.lists(TEXTS, max_size=3) | st.lists(st.integers(-1, 3), max_size=3),
        ),
        st.builds(lambda values: {"except": values}, st.lists(TEXTS, max_size=3)),
    )
    of_field = st.one_of(
        st.builds(lambda key, value: {"key": key, "match": value}, NAMES, match),
        st.builds(
            lambda key, value: {"key": key, "range": value}, NAMES, _bounds(NUMBERS | st.none(), *_ORDER)
        ),
        st.builds(lambda key, value: {"key": key, "range": value}, NAMES, _bounds(DAYS, *_ORDER)),
        st.builds(lambda key: {"is_empty": {"key": key}}, NAMES),
        st.builds(lambda key: {"is_null": {"key": key}}, NAMES),
        st.builds(
            lambda key, kind, value: {"key": key, kind: value},
            NAMES,
            st.sampled_from(["is_empty", "is_null"]),
            st.booleans(),
        ),
    )
    conditions = _nested(of_field, _clauses)
    return _clauses(conditions)


_ORDER = ("gt", "gte", "lt", "lte")


def _clauses(inner: Filters) -> Filters:
    some = st.lists(inner, max_size=3)
    least = st.builds(
        lambda of, count: {"conditions": of, "min_count": count},
        st.lists(inner, min_size=1, max_size=3),
        st.integers(1, 3),
    )
    return st.fixed_dictionaries(
        {}, optional={"must": some, "should": some, "must_not": some, "min_should": least}
    )


def mongo() -> Filters:
    one = st.one_of(
        SCALARS,
        _bounds(NUMBERS, "$gt", "$gte", "$lt", "$lte"),
        _bounds(SCALARS, "$eq", "$ne"),
        st.dictionaries(
            st.sampled_from(["$in", "$nin"]), st.lists(SCALARS, min_size=1, max_size=3), min_size=1
        ),
        st.dictionaries(st.just("$exists"), st.booleans(), min_size=1),
    )
    several = ["$and", "$or", "$nor"]
    return _nested(
        st.dictionaries(NAMES, one, max_size=2),
        lambda inner: st.dictionaries(
            st.sampled_from(several), st.lists(inner, min_size=1, max_size=3), min_size=1, max_size=2
        ),
    )


def chroma() -> Filters:
    one = st.one_of(
        st.builds(lambda op, value: {op: value}, st.sampled_from(["$eq", "$ne"]), SCALARS),
        st.builds(lambda op, value: {op: value}, st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), NUMBERS),
        st.builds(
            lambda op, values: {op: values},
            st.sampled_from(["$in", "$nin"]),
            st.lists(TEXTS, min_size=1, max_size=3) | st.lists(st.integers(-1, 3), min_size=1, max_size=3),
        ),
        st.builds(lambda op, value: {op: value}, st.sampled_from(["$contains", "$not_contains"]), TEXTS),
        SCALARS,
    )
    return _nested(
        st.builds(lambda name, value: {name: value}, NAMES, one),
        lambda inner: st.builds(
            lambda op, items: {op: items},
            st.sampled_from(["$and", "$or"]),
            st.lists(inner, min_size=2, max_size=3),
        ),
    )


def elasticsearch() -> Filters:
    leaves = st.one_of(
        st.builds(lambda name, value: {"term": {name: value}}, NAMES, SCALARS),
        st.builds(
            lambda name, value: {"term": {f"{name}.keyword": {"value": value, "boost": 2}}}, NAMES, TEXTS
        ),
        st.builds(lambda name, values: {"terms": {name: values}}, NAMES, st.lists(SCALARS, max_size=3)),
        st.builds(lambda name, value: {"range": {name: value}}, NAMES, _bounds(NUMBERS, "gt", "lte")),
        st.builds(lambda name, value: {"range": {name: value}}, NAMES, _bounds(DAYS, "gt", "lte")),
        st.builds(lambda name: {"exists": {"field": name}}, NAMES),
        st.builds(lambda name, value: {"match": {f"{name}.keyword": value}}, NAMES, TEXTS),
    )

    def boolean(inner: Filters) -> Filters:
        some = inner | st.lists(inner, max_size=3)
        least = st.sampled_from([0, 1, 2, "1", "-1", "50%", "-25%"])
        optional = {
            "must": some,
            "filter": some,
            "should": some,
            "must_not": some,
            "minimum_should_match": least,
        }
        return st.fixed_dictionaries({}, optional=optional).map(lambda body: {"bool": body})

    return _nested(leaves, boolean)


def weaviate() -> Filters:
    def typed(kind: str, values: Filters, *operators: str) -> Filters:
        return st.builds(
            lambda name, operator, value: {"path": [name], "operator": operator, f"value{kind}": value},
            NAMES,
            st.sampled_from(operators),
            values,
        )

    ordered = ("GreaterThan", "GreaterThanEqual", "LessThan", "LessThanEqual", "Equal", "NotEqual")
    leaves = st.one_of(
        typed("Text", TEXTS, "Equal", "NotEqual"),
        typed("Text", st.lists(TEXTS, min_size=1, max_size=3), "ContainsAny", "ContainsAll", "ContainsNone"),
        typed("Int", st.integers(-1, 3), *ordered),
        typed("Date", DAYS, *ordered),
        typed("Boolean", st.booleans(), "Equal", "IsNull"),
    )
    return _nested(
        leaves,
        lambda inner: st.one_of(
            st.builds(
                lambda operator, operands: {"operator": operator, "operands": operands},
                st.sampled_from(["And", "Or"]),
                st.lists(inner, min_size=1, max_size=3),
            ),
            st.builds(lambda one: {"operator": "Not", "operands": [one]}, inner),
        ),
    )


def llamaindex() -> Filters:
    def operated(values: Filters, *operators: str) -> Filters:
        return st.builds(
            lambda key, value, operator: {"key": key, "value": value, "operator": operator},
            NAMES,
            values,
            st.sampled_from(operators),
        )

    leaves = st.one_of(
        operated(SCALARS, "==", "!="),
        operated(TEXTS | NUMBERS, ">", ">=", "<", "<="),
        operated(st.lists(TEXTS, max_size=3), "in", "nin", "any", "all"),
        operated(TEXTS, "contains"),
        operated(st.none(), "is_empty"),
    )

    def several(inner: Filters) -> Filters:
        conditions = st.sampled_from(["and", "or", "not", None])
        return st.builds(
            lambda of, how: {"filters": of, "condition": how}, st.lists(inner, max_size=3), conditions
        )

    return several(_nested(leaves, several))


def haystack() -> Filters:
    def operated(values: Filters, *operators: str) -> Filters:
        return st.builds(
            lambda name, operator, value: {"field": f"meta.{name}", "operator": operator, "value": value},
            NAMES,
            st.sampled_from(operators),
            values,
        )

    leaves = st.one_of(
        operated(st.none() | SCALARS, "==", "!="),
        operated(NUMBERS | DAYS, ">", ">=", "<", "<="),
        operated(st.lists(SCALARS, max_size=3), "in", "not in"),
    )
    return _nested(
        leaves,
        lambda inner: st.builds(
            lambda operator, conditions: {"operator": operator, "conditions": conditions},
            st.sampled_from(["AND", "OR", "NOT"]),
            st.lists(inner, max_size=3),
        ),
    )


def clauses() -> Filters:
    def operated(values: Filters, *operators: str) -> Filters:
        return st.builds(
            lambda name, op, value: {"field": name, "op": op, "value": value},
            NAMES,
            st.sampled_from(operators),
            values,
        )

    return st.lists(
        st.one_of(
            operated(st.none() | SCALARS, "eq", "!=", "contains"),
            operated(NUMBERS | DAYS, "gt", ">=", "<", "lte"),
            operated(st.lists(SCALARS, max_size=3), "in", "nin"),
            operated(st.booleans(), "exists"),
        ),
        max_size=4,
    )


def equalities() -> Filters:
    return st.dictionaries(NAMES, st.none() | SCALARS | st.lists(SCALARS, max_size=3), max_size=3)


KINDS = {"tenant": TEXTS, "year": st.integers(-1, 3) | st.just(2020), "draft": st.booleans()}
"""The columns of a typed store, which also has `tags`, a list of texts."""
ROWS = st.fixed_dictionaries(
    {
        **{name: st.none() | values for name, values in KINDS.items()},
        "tags": st.none() | st.lists(TEXTS, max_size=3),
    }
)


def _sql_text(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).lower()


def _milvus_text(value: Any) -> str:
    return (
        '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        if isinstance(value, str)
        else str(value).lower()
    )


def milvus() -> Filters:
    return _expressions(_milvus_text, ("==", "!="), "[]", "array_contains", bare=False, chained=True)


def lancedb() -> Filters:
    return _expressions(_sql_text, ("=", "!=", "<>"), "()", "array_has", bare=True, chained=False)


def _expressions(
    literal: Any, equality: tuple[str, ...], brackets: str, contains: str, bare: bool, chained: bool
) -> Filters:
    names = st.sampled_from(sorted(KINDS))
    order = st.sampled_from(["<", "<=", ">", ">="])

    def compared(name: str) -> Filters:
        signs = st.sampled_from(equality) | (st.nothing() if name == "draft" else order)
        return st.builds(lambda sign, value: f"{name} {sign} {literal(value)}", signs, KINDS[name])

    def listed(name: str) -> Filters:
        values = st.lists(KINDS[name], min_size=1, max_size=3).map(lambda some: ", ".join(map(literal, some)))
        word = st.sampled_from(["in", "not in"])
        return st.builds(lambda how, some: f"{name} {how} {brackets[0]}{some}{brackets[1]}", word, values)

    leaves = st.one_of(
        names.flatmap(compared),
        st.sampled_from(["tenant", "year"]).flatmap(listed),
        st.builds(lambda value: f"{contains}(tags, {literal(value)})", TEXTS),
        st.builds(lambda name, word: f"{name} {word}", names, st.sampled_from(["is null", "is not null"])),
        st.builds(lambda text: f"tenant like {literal('%' + text + '%')}", st.sampled_from(["a", "m", " "])),
        st.builds(lambda low, high: f"{low} <= year < {high}", st.integers(-1, 3), st.integers(-1, 3))
        if chained
        else st.builds(
            lambda low, high: f"year between {low} and {high}", st.integers(-1, 3), st.integers(-1, 3)
        ),
        st.just("draft") if bare else st.nothing(),
    )
    return _nested(
        leaves,
        lambda inner: st.one_of(
            st.builds(
                lambda one, word, other: f"{one} {word} {other}", inner, st.sampled_from(["and", "or"]), inner
            ),
            st.builds(
                lambda one, word, other: f"({one}) {word} ({other})",
                inner,
                st.sampled_from(["AND", "OR"]),
                inner,
            ),
            st.builds(lambda one: f"not ({one})", inner),
        ),
    )
