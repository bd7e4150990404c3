"""What holds for the filters of every dialect."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import dialect_filters as filters
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.dialects.clauses import parse_clauses
from collectors.dialects.elasticsearch import parse_elasticsearch
from collectors.dialects.haystack import parse_haystack
from collectors.dialects.lancedb import parse_lancedb
from collectors.dialects.llamaindex import parse_llamaindex
from collectors.dialects.milvus import parse_milvus
from collectors.dialects.mongo import parse_chroma, parse_mongo
from collectors.dialects.qdrant import parse_qdrant
from collectors.dialects.unnamed import parse_any
from collectors.dialects.weaviate import parse_weaviate
from collectors.predicate import (
    Predicate,
    UnparsedFilter,
    evaluate,
    fields,
    parse_equalities,
    parse_text,
    split,
    to_text,
)

Parser = Callable[[Any], Predicate]
DIALECTS: dict[str, tuple[Parser, filters.Filters]] = {
    "qdrant": (parse_qdrant, filters.qdrant()),
    "mongo": (parse_mongo, filters.mongo()),
    "chroma": (parse_chroma, filters.chroma()),
    "elasticsearch": (parse_elasticsearch, filters.elasticsearch()),
    "weaviate": (parse_weaviate, filters.weaviate()),
    "llamaindex": (parse_llamaindex, filters.llamaindex()),
    "haystack": (parse_haystack, filters.haystack()),
    "clauses": (parse_clauses, filters.clauses()),
    "equalities": (parse_equalities, filters.equalities()),
    "milvus": (parse_milvus, filters.milvus()),
    "lancedb": (parse_lancedb, filters.lancedb()),
}
by_dialect = pytest.mark.parametrize("dialect", DIALECTS)
as_json = pytest.mark.parametrize(
    "dialect", ["qdrant", "mongo", "chroma", "elasticsearch", "weaviate", "llamaindex"]
)


@by_dialect
@given(data=st.data())
def test_parse_print_and_parse_again_is_a_fixed_point(dialect: str, data: st.DataObject) -> None:
    parse, written = DIALECTS[dialect]
    predicate = parse(data.draw(written))
    assert parse_text(to_text(predicate)) == predicate


@by_dialect
@given(data=st.data())
def test_what_is_entitlement_and_what_is_relevance_make_the_whole(dialect: str, data: st.DataObject) -> None:
    parse, written = DIALECTS[dialect]
    predicate, document = parse(data.draw(written)), data.draw(filters.DOCUMENTS)
    entitlement, relevance = split(predicate, {"tenant"})
    assert (evaluate(entitlement, document) and evaluate(relevance, document)) is evaluate(
        predicate, document
    )
    assert "tenant" not in fields(relevance)


@as_json
@given(data=st.data())
def test_json_and_what_python_prints_say_the_same(dialect: str, data: st.DataObject) -> None:
    parse, written = DIALECTS[dialect]
    logged = data.draw(written)
    assert parse(json.dumps(logged)) == parse(repr(logged)) == parse(logged)


@as_json
@given(data=st.data())
def test_an_unnamed_filter_is_read_as_one_of_its_readings_or_not_at_all(
    dialect: str, data: st.DataObject
) -> None:
    logged = data.draw(DIALECTS[dialect][1])
    try:
        found = parse_any(logged)
    except UnparsedFilter:
        return
    readings = []
    for parse, _ in DIALECTS.values():
        try:
            readings.append(parse(logged))
        except (UnparsedFilter, AttributeError, TypeError):
            continue
    assert found in readings


WORDS = st.sampled_from(
    [
        *(
            "must",
            "should",
            "key",
            "match",
            "value",
            "range",
            "gt",
            "is_empty",
            "min_should",
            "min_count",
            "$and",
            "$eq",
        ),
        *(
            "$in",
            "$date",
            "tenant",
            "bool",
            "term",
            "filter",
            "minimum_should_match",
            "operator",
            "operands",
            "path",
        ),
        *(
            "Equal",
            "And",
            "valueText",
            "filters",
            "condition",
            "and",
            "==",
            "field",
            "op",
            "conditions",
            "AND",
            "2020",
        ),
    ]
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name not in ("clauses", "equalities")])
@given(junk=JUNK)
def test_anything_else_is_unparsed_and_never_an_error(dialect: str, junk: Any) -> None:
    try:
        predicate = DIALECTS[dialect][0](junk)
    except UnparsedFilter:
        return
    assert parse_text(to_text(predicate)) == predicate


TOKENS = st.sampled_from(
    [
        *(
            "tenant",
            "year",
            "==",
            "=",
            "!=",
            "<",
            "<=",
            "(",
            ")",
            "[",
            "]",
            ",",
            "and",
            "or",
            "not",
            "in",
            "like",
            "is",
        ),
        *(
            "null",
            '"a"',
            "'a'",
            "r'\\'",
            "'\\x'",
            "5",
            "-1.5",
            "1e999",
            "00",
            "between",
            "array_contains",
            "$meta",
        ),
        *(
            '["k"]',
            "`q`",
            ".",
            "date",
            "'2024-01-01'",
            "iso",
            "true",
            "{",
            "}",
            "must=",
            "Filter(",
            "key=",
            "\x00",
        ),
        *("<A.B: 'c'>", "datetime.datetime("),
    ]
)


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name not in ("clauses", "equalities")])
@given(text=st.lists(TOKENS, max_size=10).map(" ".join) | st.text(max_size=20))
def test_any_text_is_a_predicate_or_unparsed(dialect: str, text: str) -> None:
    try:
        predicate = DIALECTS[dialect][0](text)
    except UnparsedFilter:
        return
    assert parse_text(to_text(predicate)) == predicate
