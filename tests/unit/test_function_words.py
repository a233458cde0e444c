"""Function words of other languages are left out of questions in these languages alone."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plait.memory import Memory
from plait.searching.evidence import IN_PASSAGE, _may_be_english
from plait.text import parse, words_in
from plait.text.english import empty_words
from plait.text.function_words import (
    function_words_by_letters,
    without_foreign_function_words,
)

QUESTIONS = {
    "¿por qué no usamos la nube?": ("usamos", "nube"),
    "Wo sind die Winterreifen?": ("winterreifen",),
    "¿Dónde está el pasaporte?": ("pasaporte",),
    "Wie lange heben wir gelöschte Daten auf?": ("lange", "heben", "gelöschte", "daten"),
    "Quand est-ce que nous partons en vacances ?": ("partons", "vacances"),
    "dove sono le chiavi della macchina": ("chiavi", "macchina"),
    "onde estão as chaves do carro e o mapa": ("chaves", "carro", "mapa"),
    "waarom staat de deur van het huis open": ("staat", "deur", "huis", "open"),
    "gdzie są klucze do samochodu": ("klucze", "samochodu"),
    "почему мы сменили поставщика SMS": ("сменили", "поставщика", "sms"),
    "varför har vi inte bytt lösenord": ("bytt", "lösenord"),
    "şifre neden değil veritabanı yedek": ("şifre", "veritabanı", "yedek"),
    "أين توجد مفاتيح السيارة": ("توجد", "مفاتيح", "السيارة"),
    "wann Besuch Lissabon": ("besuch", "lissabon"),
    "wieso Umzug": ("umzug",),
    "wo ist Lissabon": ("lissabon",),
    "Cuándo viaje": ("viaje",),
    "por que mudanza": ("mudanza",),
    "pourquoi voyage": ("voyage",),
    "quando trasloco": ("trasloco",),
    "quem mudança": ("mudança",),
    "taşınma ne zaman": ("taşınma",),
    "yedek anahtar kimde": ("yedek", "anahtar"),
    "wie viel kostet die Kita": ("kostet", "kita"),
    "wanneer verhuizing": ("verhuizing",),
    "kiedy przeprowadzka": ("przeprowadzka",),
    "когда переезд": ("переезд",),
    "чай без сахара": ("чай", "без", "сахара"),
    "متى الانتقال": ("الانتقال",),
    "शिफ्ट कब": ("शिफ्ट",),
    "गाड़ी की चाबी कहाँ रखी": ("गाड़ी", "चाबी", "रखी"),
}
# Each has words that are function words elsewhere.
ENGLISH = (
    "vad threshold min silence",
    "wer metric",
    "Perry Como song",
    "Kim birthday",
    "quanto option",
    "qui tam",
    "kto training",
    "chi square",
    "hangi pit",
    "comment style",
    # Names show no language.
    "Erdo\u011fan visit en route de facto",
    "Wa\u0142\u0119sa photo na gallery",
    "\u0141ukasz D\u0105browski pod restart",
    "Micha\u0142 Wi\u015bniewski Go module review",
    "Rafa\u0142 B\u0142aszczyk jest config",
    "K\u0131l\u0131\u00e7 A\u011fao\u011flu Ben email",
    "Für Elise in concert",
    "über laptop cost in winter",
    "silero VAD min speech duration",
    "DLA pod inference go client",
    "oder river front war 1945",
    "Oder river front war in Poland",
    "Unter den Linden memorial war",
    "POR reset min voltage de-assert",
    "hangi pit en route",
    "HET catalyst min yield",
    "Perry Como para Elle magazine",
    "die hard war movie",
    "van der waals force",
    "plot x y o e i a",
    "iterate over file names in directory",
    "men under thirty till noon",
    "come on over to the chat",
    "vi var settings file",
    "Do all of the projects go smoothly?",
    "par son golf lessons",
    "de facto standard library",
    "Dan opened the door",
    "Ben Kim salary review 2024",
    "Kim and Ben birthday gift ideas",
    "disk io per process",
    "kubernetes pod crashes ten times",
    "git checkout -b fix/pod-ten",
    "postgres HA min replicas",
    "synology NAS OS update schedule",
    "DAS vs NAS vs SAN",
    "http://nas.example.com/login password",
    "com.android.os.Bundle crash",
    "meeting Mon 3pm EST zoom",
    "AWS SES quota EST timezone",
    "MIT ALS research lab contact",
    "play F\u00fcr Elise on piano",
    "Los Angeles de la Cruz contract",
    "el ni\u00f1o la ni\u00f1a difference",
    "su root du disk usage min",
    "SELECT id FROM users WHERE ist = 1 ORDER BY de",
    "dove family nest per tree",
    "Che Guevara con Castro photo",
    "AT&T att plan hur contact",
    "Cosa Nostra al Capone trial",
    "sono report la clinic",
    "r\u00e9sum\u00e9 caf\u00e9 al fresco",
    "S\u00e3o Paulo office lease",
    "\u00fcber driver rating low",
    "pip install -U en core web sm",
    "ffmpeg -i in.mp4 -ss 10 -to 20 out.mp4",
    "chmod u+x run.sh as root",
)


@pytest.mark.parametrize(("question", "words"), QUESTIONS.items())
def test_a_question_keeps_what_it_is_about(question: str, words: tuple[str, ...]) -> None:
    assert parse(question).words == words


@pytest.mark.parametrize("question", ENGLISH)
def test_an_english_question_keeps_words_that_mean_something_in_it(question: str) -> None:
    words = words_in(question)
    assert without_foreign_function_words(words, words) == words


@pytest.mark.parametrize("question", ["de la soul", "el que", "wie ist das", "кто я"])
def test_a_question_of_little_else_keeps_all_its_words(question: str) -> None:
    assert parse(question).words == tuple(question.split())


def test_a_note_in_another_language_is_not_buried_by_those_in_that_of_the_question() -> None:
    with Memory.open(":memory:") as memory:
        memory.store("Decision: no cloud. Pictures never leave the house.", key="cloud")
        for number, about in enumerate(("la clínica", "el jardín", "la cocina", "el taller")):
            memory.store(f"Por la mañana no se abre {about}, por qué no se sabe.", key=f"{number}")
        assert memory.search("¿por qué no usamos la nube?").hits[0].document.key == "cloud"


def test_a_short_question_in_another_language_is_told_by_its_subject() -> None:
    with Memory.open(":memory:") as memory:
        memory.store("The winter tyres are stored at Kowald.", key="tyres")
        memory.store(
            "Zur Feier kommen die Nachbarn, die Kinder und die Gäste aus Graz.", key="party"
        )
        for number in range(12):
            memory.store(f"Shelf {number} of the cellar holds jam of {2000 + number}.")
        assert memory.search("Wo sind die Winterreifen?").hits[0].document.key == "tyres"


@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("wann Umzug", "Umzug in die neue Wohnung am ersten Mai."),
        ("cuándo viaje", "Viaje a Lisboa con Ana en octubre."),
        ("quando viaggio", "Viaggio a Lisbona con Ana in ottobre."),
        ("taşınma ne zaman", "Yeni daireye taşınma bir Mayıs'ta."),
        ("когда поездка", "Поездка в Лиссабон с Аной в октябре."),
    ],
)
def test_a_question_word_is_no_evidence_in_a_short_question(question: str, note: str) -> None:
    with Memory.open(":memory:", embedder="none") as memory:
        memory.store(note, key="asked")
        for trap in ("Wann immer es regnet", "Cuándo llueve", "Quando piove", "Ne zaman yağarsa"):
            memory.store(f"{trap}, garage.")
        memory.store("Когда идёт дождь, гараж мокрый.")
        for number in range(40):
            memory.store(f"Shelf {number} of the cellar holds jam of {1900 + number}.")
        hit = memory.search(question).hits[0]
        assert (hit.document.key, hit.signals.coverage) == ("asked", 1.0)
        assert [item.hit.document.key for item in memory.recall(question).items] == ["asked"]


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("Veritabanı diski dolarsa ne yapmalıyım?", "için"),
        ("Şifre değişikliği ağda kaldı", "için"),
        ("o której zamykają tę księgarnię", "oraz"),
    ],
)
def test_letters_show_a_language_that_needs_few_function_words(question: str, word: str) -> None:
    assert word in function_words_by_letters(question)


@pytest.mark.parametrize(
    "question",
    [
        "Erdoğan visit",
        "which ferry goes to Kadıköy and Beşiktaş",
        "how is Wałęsa written in Łódź",
        "Smørrebrød på café",
        "ask Ben to call Ayşe Yıldız",
        "go service for Łukasz Wiśniewski",
        "pod restart Łukasz Więcek",
        "ssh go client Michał Żak",
        "gift for ayşe yıldız",
        "ağaç, şifre: what?",
        "",
    ],
)
def test_a_name_or_english_around_it_shows_no_other_language(question: str) -> None:
    assert function_words_by_letters(question) == frozenset()


@given(
    st.lists(
        st.one_of(st.sampled_from(sorted(empty_words())), st.text("Tth\u212aе\u0301_ş日 \n")),
        max_size=6,
    ),
    st.sampled_from([" ", "—", "é", ""]),
)
@example(["\uff34\uff28\uff25", "\uff54\uff4f"], " ")
@example(["than\u212as", "to"], " ")
def test_whatever_has_function_words_of_english_may_be_english(words: list[str], gap: str) -> None:
    text = gap.join(words)
    if len(empty_words().intersection(words_in(text))) >= IN_PASSAGE:
        assert _may_be_english(text)


def test_a_text_of_another_script_is_told_from_english_without_listing_its_words() -> None:
    assert not _may_be_english("Ключи меняются каждый квартал, см. README to start.")
    assert not _may_be_english("鍵は四半期ごとに交換します。")
