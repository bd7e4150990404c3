"""atheris over the decoder: no crash, no hang of a second, no memory over 200 MB; for `FUZZ_SECONDS` (60)."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz_seeds import MOST_BYTES, write_seeds

SHARED = Path(__file__).resolve().parents[3] / "shared"
HARNESS = Path(__file__).parent / "decode_harness.py"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("part missing: atheris")
    folder = tmp_path / "corpus"
    assert write_seeds(folder, SHARED if SHARED.is_dir() else None) >= 5
    return folder


def fuzz(corpus: Path, *flags: str, deadline_s: float) -> str:
    """The fuzzer's report; the input that broke the decoder is named in it and stays beside the corpus."""
    limits = ["-timeout=1", "-rss_limit_mb=200", f"-max_len={MOST_BYTES}", "-print_final_stats=1"]
    harness = [
        sys.executable,
        str(HARNESS),
        str(corpus),
        *limits,
        *flags,
        f"-artifact_prefix={corpus.parent}/",
    ]
    # A process begins with the peak memory of the one that made it, and this one may be large: a shell stands between.
    run = subprocess.run(
        ["sh", "-c", '"$@"; exit $?', "sh", *harness],
        check=False,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        timeout=deadline_s,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    return run.stderr


def test_every_seed_is_answered(corpus: Path) -> None:
    report = fuzz(corpus, "-runs=0", deadline_s=120)
    assert int(re.search(r"stat::number_of_executed_units:\s*(\d+)", report)[1]) >= 5


@pytest.mark.long
def test_no_bytes_break_the_decoder(corpus: Path) -> None:
    seconds = int(os.environ.get("FUZZ_SECONDS", "60"))
    report = fuzz(corpus, f"-max_total_time={seconds}", deadline_s=seconds + 120)
    print(*re.findall(r"stat::.*", report), sep="\n")
    assert int(re.search(r"stat::slowest_unit_time_sec:\s*(\d+)", report)[1]) < 1
    assert int(re.search(r"stat::peak_rss_mb:\s*(\d+)", report)[1]) < 200
