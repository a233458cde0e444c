"""Question words of scripts without blanks are no part of what a question is about."""

import pytest

from plait.memory import Memory
from plait.text import parse
from plait.text.unspaced_asking import without_asking

SUBJECTS = {
    "什么时候搬家": "搬家",
    "什麼時候搬家?": "搬家?",
    "你什么时候搬家": "搬家",
    "谁去里斯本": "去里斯本",
    "护照在哪里": "护照在",
    "为什么换供应商?": "换供应商?",
    "引っ越しはいつですか": "引っ越しは",
    "誰がリスボンへ行く": "リスボンへ行く",
    "언제 이사": "이사",
    "여권은 어디에 있어": "여권은 있어",
    "พาสปอร์ตอยู่ที่ไหน": "พาสปอร์ตอยู่",
}


@pytest.mark.parametrize(("question", "subject"), SUBJECTS.items())
def test_a_question_keeps_what_it_is_about(question: str, subject: str) -> None:
    assert " ".join(without_asking(question).split()) == subject


@pytest.mark.parametrize(
    "question",
    [
        *("什么", "为什么", "谁", "いつも元気", "あいつの家", "などの例", "誰か来た", "誰も来ない"),
        *("언제나 청춘", "왜", "他为什么", "日本語の本", "plain words", ""),
    ],
)
def test_what_is_no_question_or_nothing_else_stays(question: str) -> None:
    assert without_asking(question) == question


def test_a_quoted_question_word_is_looked_for() -> None:
    assert parse('"언제" 노래').words == ("언제", "노래")
    assert parse('+"什么时候"').words == ("什么", "么时", "时候")


@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("什么时候搬家", "五月一日搬家到新公寓。"),
        ("谁去里斯本", "十月和安娜一起去里斯本旅行,机票已订好。"),
        ("引っ越しはいつ", "五月一日に新しい部屋へ引っ越し。"),
        ("언제 이사", "5월 1일에 새 아파트로 이사."),
    ],
)
def test_a_question_word_is_no_evidence(question: str, note: str) -> None:
    with Memory.open(":memory:", embedder="none") as memory:
        memory.store(note, key="asked")
        for trap in (
            "什么时候下雨,车库都会湿。",
            "谁最后离开谁关灯。",
            "언제 비가 오면 차고가 젖는다.",
        ):
            memory.store(trap)
        memory.store("いつ雨が降るか、車庫が濡れる。")
        for number in range(40):
            memory.store(f"Shelf {number} of the cellar holds jam of {1900 + number}.")
        assert memory.search(question).hits[0].document.key == "asked"
        assert [item.hit.document.key for item in memory.recall(question).items] == ["asked"]
