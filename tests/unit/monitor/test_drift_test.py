"""`groundwatch drift test`: files in every form, what it says of them, and of files that are none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from detectors.mmd import permutation_test
from monitor.cli import main


def _lines(path: Path, items: list[object]) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return path


def _about(rng: np.random.Generator, count: int, topics: list[str]) -> list[object]:
    verbs = ["show me", "tell me about", "what is", "how do i get", "where is"]
    chosen = rng.choice(topics, count)
    return [
        {"query": f"{rng.choice(verbs)} {topic} number {rng.integers(100)}", "slices": {"topic": str(topic)}}
        for topic in chosen
    ]


@pytest.fixture
def usual(tmp_path: Path) -> Path:
    return _lines(
        tmp_path / "usual.jsonl", _about(np.random.default_rng(1), 200, ["invoices", "parking", "lunch"])
    )


def test_texts_that_moved_differ_and_the_slice_is_named(
    usual: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = _about(np.random.default_rng(2), 150, ["invoices", "parking", "lunch", "visa", "visa", "visa"])
    assert main(["drift", "test", str(usual), str(_lines(tmp_path / "moved.jsonl", moved)), "--fail"]) == 3
    said = capsys.readouterr().out
    assert "topic = visa grew from 0.0 %" in said
    assert "The samples differ" in said
    assert "hashed-ngram" in said
    assert "200 queries in 200 units" in said


def test_the_same_traffic_does_not_differ(
    usual: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same = _about(np.random.default_rng(3), 150, ["invoices", "parking", "lunch"])
    assert main(["drift", "test", str(usual), str(_lines(tmp_path / "same.jsonl", same)), "--fail"]) == 0
    assert "do not differ" in capsys.readouterr().out


def test_arrays_are_compared_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(60, 5)).astype(np.float32), rng.normal(0.4, 1.0, size=(40, 5)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    arguments = ["drift", "test", str(tmp_path / "x.npy"), str(tmp_path / "y.npy"), "--json", "--seed", "5"]
    assert main(arguments) == 0
    said = json.loads(capsys.readouterr().out)
    expected = permutation_test(list(x[:, None]), list(y[:, None]), permutations=1000, seed=5)
    assert said["tests"][0]["p_value"] == expected.p_value
    assert said["tests"][0]["statistic"] == pytest.approx(expected.statistic)
    assert said["tests"][0]["adjusted"] >= expected.p_value
    assert said["units"] == [60, 40]


def test_lines_of_a_session_are_one_unit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(6)
    items: list[object] = [
        {"embedding": rng.normal(size=3).tolist(), "session": f"s{i % 25}"} for i in range(100)
    ]
    path = _lines(tmp_path / "sessions.jsonl", items)
    assert main(["drift", "test", str(path), str(path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["queries"], said["units"]) == ([100, 100], [25, 25])


def test_bad_lines_are_told_and_the_others_compared(
    usual: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text(usual.read_text() + '{"query": 3}\nnot json\n[]\n"a plain text"\n{"vector": ["x"]}\n')
    assert main(["drift", "test", str(usual), str(bad), "--json"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["queries"] == [200, 201]
    assert [f"bad.jsonl line {n}:" in printed.err for n in (201, 202, 203, 205)] == [True] * 4


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.jsonl", b"\n", "holds no query"),
        ("bad.jsonl", b"{]\n", "line 1"),
        ("text.csv", b"a,b\n", "cannot be told from its name"),
        ("broken.npy", b"no array", "numpy.save"),
        ("empty.npy", b"", "numpy.save"),
        ("numbers.jsonl", b"[1.0, 2.0]\n[2.0, 1.0]\n", "every line of both"),
    ],
)
def test_a_file_that_is_no_sample_is_named_with_the_remedy(
    usual: Path, tmp_path: Path, name: str, content: bytes, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert main(["drift", "test", str(usual), str(path)]) == 2
    printed = capsys.readouterr().err
    assert said in printed
    assert name in printed
    assert "Traceback" not in printed


def test_vectors_that_do_not_compare_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.ones((20, 3)))
    np.save(tmp_path / "y.npy", np.ones((20, 4)))
    np.save(tmp_path / "nan.npy", np.full((20, 3), np.nan))
    assert main(["drift", "test", str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]) == 2
    assert "y.npy: vectors have 4 dimensions, not 3" in capsys.readouterr().err
    assert main(["drift", "test", str(tmp_path / "x.npy"), str(tmp_path / "nan.npy")]) == 2
    assert "nan.npy: row 0 is not finite" in capsys.readouterr().err


def test_a_folder_that_is_no_encoder_is_named(
    usual: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["drift", "test", str(usual), str(usual), "--encoder", str(tmp_path)]) == 2
    assert f"{tmp_path} holds none of model.onnx" in capsys.readouterr().err
