"""The catalogue and the golden set: what is read, and how a bad line is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.trace import RagTrace
from monitor.knowledge import JsonlCatalogue, JsonlGoldenSet, KnowledgeError, normalised


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def trace(query: str | None, **slices: str) -> RagTrace:
    return RagTrace(id="t:a", trace_id="t", start_time_ns=0, query=query, slices=slices)


def test_a_catalogue_tells_metadata_and_text(tmp_path: Path) -> None:
    path = written(
        tmp_path / "c.jsonl",
        '\ufeff{"id": "kb-1", "metadata": {"locale": "de-DE", "tags": ["a"]}, "text": "Zeile\u2028zwei"}',
        "",
        '{"id": "kb-2", "metadata": {}}\r',
    )
    catalogue = JsonlCatalogue.read(path)
    assert len(catalogue) == 2
    assert catalogue.metadata("kb-1") == {"locale": "de-DE", "tags": ["a"]}
    assert catalogue.text("kb-1") == "Zeile\u2028zwei"
    assert catalogue.metadata("kb-2") == {}
    assert catalogue.text("kb-2") is None
    assert catalogue.metadata("kb-3") is None


def test_a_golden_set_answers_by_probe_then_by_query(tmp_path: Path) -> None:
    path = written(
        tmp_path / "g.jsonl",
        '{"query": "How do I get a refund?", "gold": ["kb-1", "kb-2"]}',
        '{"query": "What is the moon made of?", "gold": []}',
        '{"query": "refund please", "gold": ["kb-3"], "probe_id": "p1"}',
    )
    golden = JsonlGoldenSet.read(path)
    assert len(golden) == 3
    assert golden.gold(trace("  how do I get a ＲＥＦＵＮＤ ?")) == ("kb-1", "kb-2")
    assert golden.gold(trace("What is the moon made of")) == ()
    assert golden.gold(trace("something else")) is None
    assert golden.gold(trace(None)) is None
    assert golden.gold(trace("How do I get a refund?", probe="p1")) == ("kb-3",)
    assert golden.gold(trace("How do I get a refund?", probe="p9")) == ("kb-1", "kb-2")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "not JSON"),
        ("[]", "the line"),
        ('{"metadata": {}}', "id: "),
        ('{"id": "", "metadata": {}}', "id: "),
        ('{"id": 7, "metadata": {}}', "id: "),
        ('{"id": "b"}', "metadata: "),
        ('{"id": "b", "metadata": [1]}', "metadata: "),
        ('{"id": "b", "metadata": {}, "txt": "?"}', "txt: "),
        ('{"id": "a", "metadata": {}}', "id: "),
    ],
)
def test_a_bad_catalogue_line_is_named_by_file_line_and_field(tmp_path: Path, line: str, what: str) -> None:
    path = written(tmp_path / "c.jsonl", '{"id": "a", "metadata": {}}', line)
    with pytest.raises(KnowledgeError) as caught:
        JsonlCatalogue.read(path)
    assert str(caught.value).startswith(f"{path}:2: {what}")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"query": "b"}', "gold: "),
        ('{"query": "b", "gold": "kb-1"}', "gold: "),
        ('{"query": "b", "gold": ["kb-1", 2]}', "gold.1: "),
        ('{"query": "A!", "gold": ["kb-2"]}', "query: "),
        ('{"query": "b", "gold": ["kb-2"], "probe_id": "p"}', "probe_id: "),
    ],
)
def test_a_bad_golden_line_is_named_by_file_line_and_field(tmp_path: Path, line: str, what: str) -> None:
    path = written(tmp_path / "g.jsonl", '{"query": "a", "gold": ["kb-1"], "probe_id": "p"}', line)
    with pytest.raises(KnowledgeError) as caught:
        JsonlGoldenSet.read(path)
    assert str(caught.value).startswith(f"{path}:2: {what}")


def test_the_same_row_twice_is_no_contradiction(tmp_path: Path) -> None:
    row = '{"query": "a", "gold": ["kb-1"]}'
    assert len(JsonlGoldenSet.read(written(tmp_path / "g.jsonl", row, row))) == 1


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(KnowledgeError, match=r"nowhere\.jsonl"):
        JsonlCatalogue.read(tmp_path / "nowhere.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"id": "caf\xe9"}')
    with pytest.raises(KnowledgeError, match="not UTF-8 at byte 11"):
        JsonlCatalogue.read(tmp_path / "latin.jsonl")


@given(st.text())
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    assert normalised(normalised(text)) == normalised(text)
