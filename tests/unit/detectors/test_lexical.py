"""The lexical scorer: short answers, numbers, and that its constants are what its data give."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

import pytest

from detectors.lexical import COEFFICIENTS, FEATURES, INTERCEPT, LexicalScorer, LexicalSettings, support

CONTEXT = (
    "Refunds are paid to the original payment method within five business days after the return was received.\n\n"
    "The Team plan costs 1,250 euros a year and includes 25 seats. Further seats can be added by an administrator "
    "in the billing settings.\n\nThe support desk answers from 9:00 to 17:30 on working days."
)
QUOTE = (
    "Refunds are paid to the original payment method within five business days after the return was received."
)
INVENTED = "Premium customers in Zurich also receive a 40 percent bonus voucher worth 75 francs from our partner bank."


def faithful(answer: str, context: str = CONTEXT) -> bool:
    scorer = LexicalScorer()
    return scorer.score([(context, answer)])[0] >= scorer.threshold


@pytest.mark.parametrize(
    "answer",
    [
        QUOTE,
        "The Team plan costs 1,250 euros a year and includes 25 seats.",
        "The Team plan costs 1250 euros a year.",
        f"According to the help centre: {QUOTE}",
        f"{QUOTE} The support desk answers from 9:00 to 5:30 on working days.",
    ],
)
def test_an_answer_that_quotes_its_context_is_faithful(answer: str) -> None:
    assert faithful(answer)


@pytest.mark.parametrize(
    "answer",
    [
        f"{QUOTE} {INVENTED}",
        INVENTED,
        f"The Team plan costs 1,250 euros a year. {INVENTED}",
        "Refunds are handled by Ms. Keller's Geneva office, which charges 19 dollars and takes up to 60 days.",
    ],
)
def test_an_answer_that_adds_invented_facts_is_not(answer: str) -> None:
    assert not faithful(answer)


def test_adding_an_invention_lowers_the_score() -> None:
    scorer = LexicalScorer()
    alone, with_more = scorer.score([(CONTEXT, QUOTE), (CONTEXT, f"{QUOTE} {INVENTED}")])
    assert with_more < alone


def test_numbers_are_compared_by_value() -> None:
    assert (
        support("1,250 euros, 3.5 %, from 13:00, five days", "1250 and 3,5 and 1 and 5 and 13").numbers == ()
    )
    assert support("1,250 euros", "It costs 1,260 euros, not 12.").numbers == ("1,260", "12")


def test_explanations_name_what_the_context_does_not_hold() -> None:
    explained = LexicalScorer().explain(CONTEXT, f"{QUOTE} {INVENTED}")
    assert explained["unsupported_numbers"] == ["40", "75"]
    assert explained["unsupported_names"] == ["Zurich"]
    assert "voucher" in explained["novel_words"]  # type: ignore[operator]


def test_the_threshold_is_a_setting() -> None:
    assert LexicalScorer(LexicalSettings(threshold=0.7)).threshold == 0.7
    with pytest.raises(ValueError, match="threshold"):
        LexicalSettings(threshold=1.0)


@pytest.mark.parametrize(
    "answer", ["", "?", "…", "１２３ four", "²", "٣ كتب", "1" * 400, "1.2.3.4", "," * 50]
)
def test_odd_text_still_gets_a_score(answer: str) -> None:
    for pair in ((CONTEXT, answer), (answer, CONTEXT), ("", answer)):
        assert 0.0 <= LexicalScorer().score([pair])[0] <= 1.0


def test_an_answer_takes_a_few_milliseconds() -> None:
    context, answer = CONTEXT * 8, f"{QUOTE} {INVENTED} " * 4
    pairs = [(context, answer)] * 20
    scorer = LexicalScorer()
    best = min(_seconds(scorer, pairs) for _ in range(3)) / len(pairs)
    assert best < 0.010, "a shared machine gets room above the 4 ms that it should take"


def _seconds(scorer: LexicalScorer, pairs: list[tuple[str, str]]) -> float:
    began = time.perf_counter()
    scorer.score(pairs)
    return time.perf_counter() - began


@pytest.mark.part("shared")
def test_the_constants_are_what_the_labelled_answers_give(shared: Path) -> None:
    """Refits on the handed labels, so that constants, docstring figures and code cannot drift apart."""
    path = Path(__file__).resolve().parents[2] / "bench" / "fit_lexical.py"
    spec = importlib.util.spec_from_file_location("fit_lexical", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = {str(f["figure"]): f for f in module.figures(shared / "data" / "judge_labels.jsonl")}
    fitted = found["coefficients"]
    assert [fitted["ours"][name] for name in FEATURES] == pytest.approx(COEFFICIENTS, abs=0.01)
    assert fitted["intercept"] == pytest.approx(INTERCEPT, abs=0.01)
    text = (Path(__file__).resolve().parents[3] / "detectors" / "lexical.py").read_text(encoding="utf-8")
    for task, title in (("qa", "question answering"), ("summary", "summary"), ("data2txt", "data to text")):
        figure = found[f"faithfulness, {task}"]
        line = f"| {title} | {figure['answers']} | {figure['auc']:.3f} | {figure['balanced_accuracy']:.3f} |"
        assert line.replace("0.", ".") in text
