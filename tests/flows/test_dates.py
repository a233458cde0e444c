"""A date in a question is found however a note writes it, and a number with marks as a whole."""

from collections.abc import Iterator

import pytest

from plait.memory import Memory
from plait.text import MAX_TERMS, beginnings, parse
from plait.text.dates import dates_in, is_in_other_words

DAYS = {
    "2026-03-03": "We decided to move the backup to half past four.",
    "2026-03-04": "We decided to drop version 3 of the client in March.",
    "2026-04-03": "We decided to paint the third door in March.",
    "2025-11-21": "We decided nothing on that day of snow.",
}
LETTERS = {
    "landlord": "The landlord came on 17 May 2024 to look at the roof.",
    "notary": "Am 07. Juni 2025 waren wir beim Notar.",
    "plumber": "El 14 de abril de 2025 vino el fontanero.",
    "lawyer": "On 09 August 2025 we saw the lawyer.",
    "meeting": "Toplantı 12 Mayıs 2025 günü yapıldı.",
    "roof": "The roof was mended in May, 17 tiles for 2024 euros.",
    "printer": "The printer is 192.168.178.31 in the hall, tray 20.",
    "sensor": "Firmware v1.4.2 of the sensor ends the naps.",
    "client": "Since 2.7.0 the client naps no longer.",
    "匠": "2024年11月7日に大工さんが来た。",
    "搬家": "三月二十六日搬到新公寓。",
    "decoys": "Of 1 or 2 radiators and 4 doors in the hall, the attic and the shed, none was "
    "painted, because the whole afternoon went by with tea and cake and talk of the weather.",
    "router": "The router is 192.168.178.20 in the hall, channel 31.",
}


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory.open(":memory:", project="") as opened:
        for day, text in DAYS.items():
            opened.store(f"# {day}\n\n{text}", key=f"daily/{day}.md")
        for key, text in LETTERS.items():
            opened.store(text, key=key)
        for number in range(12):
            opened.store(f"Log of {2020 + number % 7}: {number} visitors, 3 of them in March.")
        yield opened


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("what did we decide on 3 March", "daily/2026-03-03.md"),
        ("what was decided on March 3rd, 2026?", "daily/2026-03-03.md"),
        ("Was wurde am 3. März 2026 beschlossen", "daily/2026-03-03.md"),
        ("qu'avons-nous fait le 3 mars 2026", "daily/2026-03-03.md"),
        ("decisiones del 3 de marzo de 2026", "daily/2026-03-03.md"),
        ("3.3.2026", "daily/2026-03-03.md"),
        ("decided 3.4.2026", "daily/2026-04-03.md"),
        ("decided 21/11/2025 or 21.11.2025", "daily/2025-11-21.md"),
        ("2024-05-17", "landlord"),
        ("who came on May 17th", "landlord"),
        ("what happened on June 7, 2025", "notary"),
        ("14 April 2025", "plumber"),
        ("2025/04/14", "plumber"),
        ("9 August 2025", "lawyer"),
        ("12.5.2025", "meeting"),
        ("2025-05-12", "meeting"),
        ("7 November 2024", "匠"),
        ("2024-11-07", "匠"),
        ("令和6年11月7日に何があった", "匠"),
        ("2024年5月17日", "landlord"),
        ("26 March", "搬家"),
        ("3月26日做了什么", "搬家"),
        ("2025年11月21日决定了什么", "daily/2025-11-21.md"),
        ("decided 11/21/2025", "daily/2025-11-21.md"),
        ("what is 192.168.178.31", "printer"),
        ("what is 192.168.178.20", "router"),
    ],
)
def test_the_note_of_that_day_or_number_is_first(memory: Memory, query: str, key: str) -> None:
    assert memory.search(query)[0].document.key == key


@pytest.mark.parametrize(
    "query",
    ["5 October 2026", "October 5th", "the 5th of October", "what happened on 5 October 2026"],
)
def test_a_day_in_numbers_is_before_other_days_of_its_month_in_words(query: str) -> None:
    with Memory.open(":memory:", project="") as memory:
        memory.store("Maya: tetanus due 2027. Flu jab 2026-10-05, at the chemist's.", key="jabs")
        memory.store("# 31 October 2026\n\nTrick or treat; lost the keys in the park.", key="diary")
        memory.store("# Retro, October\n\nThe release of 14 October broke the forms.", key="retro")
        memory.store("- Dan: 9 March 1984\n- Nils and Elsa: 30 October", key="birthdays")
        memory.store("500 g flour, 5 hours at 24 degrees, 20 minutes with the lid.", key="bread")
        first, *others = memory.search(query)
    assert first.doc_id == "jabs"
    assert not any("october" in hit.signals.matched for hit in others)
    assert "happened" in query or all(hit.is_weak for hit in others)


@pytest.mark.parametrize(
    ("query", "key"),
    [("1.4.2", "sensor"), ("v1.4.2", "sensor"), ("2.7.0", "client"), ("naps in v2.7.0", "client")],
)
def test_a_version_is_found_with_a_v_or_without(memory: Memory, query: str, key: str) -> None:
    assert memory.search(query, mode="keyword")[0].document.key == key


def test_each_of_several_dates_and_every_word_has_a_place_in_the_query() -> None:
    text = "Größere Änderungen am 3. März, am 21. November 2025 und am 4. April 2026"
    query = parse(text)
    assert {("2025", "11", "21"), ("2026", "04", "04"), ("03", "03")} <= {
        term.words for term in query.boosts
    }
    assert {term.words for term in query.boosts if term.prefix} == {
        (start,) for start in beginnings(query.words).values()
    }
    assert len(query.boosts) <= MAX_TERMS


@pytest.mark.parametrize("query", ["what did we decide on 3 March", "4.3.2026", "2025-06-07"])
def test_a_date_in_other_words_counts_as_its_words(memory: Memory, query: str) -> None:
    hit = memory.search(query)[0]
    assert hit.signals.coverage == 1.0
    assert not hit.is_weak
    assert [item.hit.document.key for item in memory.recall(query).items][:1] == [hit.document.key]


@pytest.mark.parametrize("query", ["March 3rd", "3rd of March", "what happened on 3 March 2026?"])
@pytest.mark.parametrize("embedder", ["none", "builtin"])
def test_a_date_is_found_where_no_note_has_any_of_its_words(query: str, embedder: str) -> None:
    with Memory.open(":memory:", project="", embedder=embedder) as opened:
        opened.store("Sunny. We painted the fence.", key="2026-03-03.md")
        for number in range(20):
            opened.store(f"Row {number + 100} of the table has a blue lamp.")
        assert opened.search(query)[0].relevance > 0.5
        [item] = opened.recall(query).items
        assert item.hit.document.key == "2026-03-03.md"


@pytest.mark.parametrize(
    ("note", "query"),
    [
        ("On 6 March 2024 the dentist called.", "what happened on 5 March 2024"),
        ("Am 6. März 2024 beim Zahnarzt.", "was war am 5. März 2024"),
        ("2024年3月6日去看牙医。", "2024年3月5日发生了什么"),
    ],
)
def test_another_day_of_the_month_is_no_evidence(note: str, query: str) -> None:
    with Memory.open(":memory:", project="", embedder="none") as opened:
        opened.store(note, key="other day")
        for number in range(40):
            opened.store(f"Shelf {number} of the cellar holds jam with label {number * 7}.")
        assert "other day" not in {item.hit.document.key for item in opened.recall(query).items}
        opened.store(f"{note} Before: 2024-03-05.", key="both")
        assert opened.recall(query).items[0].hit.document.key == "both"


def test_what_happened_on_another_day_is_found_by_its_subject() -> None:
    with Memory.open(":memory:", project="", embedder="none") as opened:
        opened.store("On 6 March 2024 the dentist called about the crown.", key="dentist")
        for number in range(40):
            opened.store(f"Shelf {number} of the cellar holds jam with label {number * 7}.")
        query = "did the dentist call about the crown on 5 March 2024"
        assert opened.recall(query).items[0].hit.document.key == "dentist"


def test_a_month_finds_its_days(memory: Memory) -> None:
    answer = memory.search("what did we decide in March 2026", limit=2)
    assert {hit.document.key for hit in answer} == {"daily/2026-03-03.md", "daily/2026-03-04.md"}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("on 3 March 2026", "2026-03-03"),
        ("March 3, 2026", "3.3.2026"),
        ("1st of April 2026", "01.04.2026"),
        ("1er mars 2026", "2026_03_01"),
        ("25 December 2026", "12/25/2026"),
        ("2026-3-3", "03.03.2026"),
        ("3 March", "2025-03-03"),
        ("sept 3", "2025-09-03"),
        ("3 de septiembre", "Sept 3"),
        ("mars 3, 2026", "2026-03-03"),
        ("7 августа 2026", "2026-08-07"),
        ("12 Şubat 2026", "12. 2. 2026"),
        ("2026/03/03", "March 03, 2026"),
        ("3 March 2026", "03. März 2026"),
        ("2026-03-01", "1er mars 2026"),
        ("2026-03-03", "3 de marzo de 2026"),
        ("2024年3月5日", "2024-03-05"),
        ("2024年3月5日", "5 March 2024"),
        ("令和6年3月5日に", "2024/03/05"),
        ("令和六年三月五日", "2024年3月5日"),
        ("平成元年1月8日", "1989-01-08"),
        ("5 March 2024", "於2024年3月5日開會"),
        ("5 March 2024", "二〇二四年三月五日"),
        ("8 January 1989", "平成元年1月8日"),
        ("7 January 1989", "昭和64年1月7日"),
        ("15 June 1389", "1389年6月15日"),
        ("1389年6月15日", "15 June 1389"),
        ("三月五日", "2024-03-05"),
        ("25 December", "25.12.2024"),
        ("5 марта", "05. 03. 2024"),
        ("十二月二十五日", "25.12.2024"),
        ("3月5号", "5 March"),
        ("２０２４年３月５日", "2024-03-05"),
        ("2024年3月", "March 2024"),
        ("March 2024", "2024年3月5日"),
        ("2024년 3월 5일", "2024-03-05"),
        ("2024. 3. 5.", "2024년 3월 5일에"),
        ("会議は2024-03-05に", "2024年3月5日"),
        ("5 March 2024", "会議は2024-03-05に"),
        ("5 March 2024", "20240305_plan"),
        ("25/12/2024", "2024-12-25"),
        ("12/25/2024", "25 December 2024"),
        ("5/5/2024", "2024-05-05"),
        ("5 marca 2024", "2024-03-05"),
        ("5 maj 2024", "2024-05-05"),
        ("март 2024", "March 2024"),
        ("в марте 2024", "2024-03-05"),
        ("5 مارس 2024", "2024-03-05"),
        ("5 March 2024", "5 marca 2024"),
        ("March 2026", "Tuesday, 3. März 2026"),
        ("März 2026", "March 3rd, 2026"),
    ],
)
def test_other_ways_to_write_a_date_are_known(text: str, written: str) -> None:
    assert [is_in_other_words(date, f"Notes of {written}:") for date in dates_in(text)] == [True]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("3 March 2026", "2026-03-30"),
        ("3 March 2026", "13.3.2026"),
        ("3 March 2026", "2025-03-03"),
        ("3 March 2026", "3. März 2025"),
        ("3 March 2026", "13. März 2026"),
        ("March 2026", "3. Mai 2026"),
        ("3 March", "at 03:03"),
        ("3 December", "version 3.12."),
        ("3 December", "version 1.3.12.2024"),
        ("2024年3月5日", "2024年3月15日"),
        ("2024年3月5日", "2024年3月25日"),
        ("2024年3月5日", "2024年13月5日"),
        ("2024年3月5日", "2025-03-05"),
        ("三月五日", "三月五十日"),
        ("三月五日", "十三月五日"),
        ("三月五日", "三月十五日"),
        ("5 March 2024", "令和5年3月5日"),
        ("15 June 1389", "15 June 2024"),
        ("15 June 1389", "2024-06-15"),
        ("25/12/2024", "2024-12-26"),
        ("5 March 2024", "1202403059"),
        ("3 March", "Mars 3, a probe"),
    ],
)
def test_another_day_is_another_day(text: str, written: str) -> None:
    (date,) = dates_in(text)
    assert not is_in_other_words(date, written)


@pytest.mark.parametrize(
    "text",
    [
        *("Mars 3 probe", "mayo 5 eggs"),
        *(
            "31.02.2026",
            "0 March",
            "99 May",
            "the march of 3 people",
            "in 2026",
            "03/04/2026",
            "1.2.3",
            "2024.3.5",
            "192.168.1.31",
            "1/2/3/2024",
            "3月",
            "三月",
            "13月5日",
            "2月31日",
            "3ヶ月5日間",
            "25/13/2024",
            "costs 2024. 3. 5 %",
        ),
    ],
)
def test_no_other_number_is_a_date(text: str) -> None:
    assert dates_in(text) == ()
