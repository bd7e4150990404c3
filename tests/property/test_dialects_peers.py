"""Our answers beside the stores' own: what each lets through of the same documents by the same filter.

The peers run in this process, without a server: the local mode of qdrant-client, mongomock, milvus-lite's evaluator,
Chroma and LanceDB. They are heavy and no part of the test extra: what is not installed skips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dialect_filters as filters
import pytest
from hypothesis import HealthCheck, given, settings

from collectors.dialects.lancedb import parse_lancedb
from collectors.dialects.milvus import parse_milvus
from collectors.dialects.mongo import parse_chroma, parse_mongo
from collectors.dialects.qdrant import parse_qdrant
from collectors.predicate import evaluate

SLOW = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


_IN_THE_TEST_EXTRA = ("qdrant_client", "mongomock")


def peer(module: str) -> Any:
    """A store's own code; the light ones are in the extra `test`, the heavy ones are tried where they are installed."""
    name = module.partition(".")[0]
    missing = "part missing" if name in _IN_THE_TEST_EXTRA else "peer not installed"
    return pytest.importorskip(module, reason=f"{missing}: {name}", exc_type=ImportError)


def without_whole_floats(document: dict[str, Any]) -> bool:
    """Whether no number is a float that an integer equals: Qdrant tells 1 from 1.0, which JSON does not."""
    return not any(isinstance(item, float) and item.is_integer() for item in _values(document))


def _values(document: dict[str, Any]) -> list[Any]:
    return [item for value in document.values() for item in (value if isinstance(value, list) else [value])]


@SLOW
@given(filters.qdrant(), filters.DOCUMENTS.filter(without_whole_floats))
def test_qdrant(logged: dict[str, Any], document: dict[str, Any]) -> None:
    local, models = peer("qdrant_client.local.payload_filters"), peer("qdrant_client.models")
    passes = local.check_filter(models.Filter(**logged), document, 1, {})
    assert evaluate(parse_qdrant(logged), document) is passes


@SLOW
@given(filters.qdrant(), filters.DOCUMENTS)
def test_qdrant_as_its_client_prints_it(logged: dict[str, Any], document: dict[str, Any]) -> None:
    model = peer("qdrant_client.models").Filter(**logged)
    passes = evaluate(parse_qdrant(logged), document)
    for form in (repr(model), str(model), model.model_dump(), model.model_dump_json()):
        assert evaluate(parse_qdrant(form), document) is passes


def without_0_and_1(document: dict[str, Any]) -> bool:
    """mongomock compares as Python does, where True equals 1 and False equals 0; BSON knows better."""
    return not any(item in (0, 1) for item in _values(document))


@SLOW
@given(filters.mongo(), filters.DOCUMENTS.filter(without_0_and_1))
def test_mongo(logged: dict[str, Any], document: dict[str, Any]) -> None:
    passes = peer("mongomock.filtering").filter_applies(logged, document)
    assert evaluate(parse_mongo(logged), document) is passes


# Chained ranges are in Milvus' grammar, and not in milvus-lite's, which also knows no unknown list.
@SLOW
@given(
    filters.milvus().filter(lambda text: "<= year <" not in text),
    filters.ROWS.filter(lambda row: row["tags"] is not None),
)
def test_milvus(logged: str, row: dict[str, Any]) -> None:
    backend, parser = peer("milvus_lite.search.filter.eval.python_backend"), peer("milvus_lite.search.filter")
    passes = backend._eval_row(parser.parse_expr(logged), row) is True
    assert evaluate(parse_milvus(logged), row) is passes


ROWS: Sequence[dict[str, Any]] = [
    {"tenant": "acme", "year": 2020, "draft": True, "tags": ["acme", "a b"]},
    {"tenant": "acm", "year": 1, "draft": False, "tags": [""]},
    {"tenant": "it's", "year": -1, "draft": None, "tags": ["it's"]},
    {"tenant": 'say "hi"', "year": 3, "draft": True, "tags": None},
    {"tenant": "", "year": 0, "draft": False, "tags": ["2020"]},
    {"tenant": "2020", "year": None, "draft": True, "tags": ["true", "acme"]},
    {"tenant": None, "year": None, "draft": None, "tags": None},
]
Ask = Callable[[Any], set[int]]


@pytest.fixture(scope="module")
def ask_lancedb(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    lancedb, pa = peer("lancedb"), peer("pyarrow")
    columns = [
        ("tenant", pa.string()),
        ("year", pa.int64()),
        ("draft", pa.bool_()),
        ("tags", pa.list_(pa.string())),
    ]
    rows = [{"n": n, **row} for n, row in enumerate(ROWS)]
    data = pa.Table.from_pylist(rows, schema=pa.schema([("n", pa.int64()), *columns]))
    table = lancedb.connect(str(tmp_path_factory.mktemp("lance"))).create_table("rows", data)
    return lambda where: {row["n"] for row in table.search().where(where).limit(99).to_list()}


@SLOW
@given(logged=filters.lancedb())
def test_lancedb(ask_lancedb: Ask, logged: str) -> None:
    predicate = parse_lancedb(logged)
    assert {n for n, row in enumerate(ROWS) if evaluate(predicate, row)} == ask_lancedb(logged)


LISTED: Sequence[dict[str, Any]] = [
    *({"n": 0, **{key: value for key, value in row.items() if value is not None}} for row in ROWS),
    {"n": 0, "tenant": ["acme", "acm"], "year": [1, 2], "draft": [True]},
    {"n": 0, "tenant": 1, "year": "1", "draft": "true", "tags": "acme"},
    {"n": 0, "tenant": True, "year": 0.5, "draft": 1, "tags": 2020},
    {"n": 0, "year": 1.0},
]


@pytest.fixture(scope="module")
def ask_chroma() -> Iterator[Ask]:
    chromadb = peer("chromadb")
    client = chromadb.EphemeralClient(settings=chromadb.Settings(anonymized_telemetry=False))
    table = client.create_collection("documents", embedding_function=None)
    ids = [str(n) for n in range(len(LISTED))]
    table.add(ids=ids, embeddings=[[1.0]] * len(ids), metadatas=[dict(one) for one in LISTED])
    yield lambda where: {int(n) for n in table.get(where=where, include=[])["ids"]}
    client.delete_collection("documents")


# Chroma truncates a fraction before it compares it with an integer: nobody can mean that.
@SLOW
@given(logged=filters.chroma().filter(lambda logged: "0.5" not in repr(logged)))
def test_chroma(ask_chroma: Ask, logged: dict[str, Any]) -> None:
    predicate = parse_chroma(repr(logged))
    assert {n for n, document in enumerate(LISTED) if evaluate(predicate, document)} == ask_chroma(logged)
