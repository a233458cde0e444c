"""Splitting text and parsing queries, checked against SQLite's own FTS5."""

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait import text as plain_text
from plait.text import (
    MAX_QUERY_BYTES,
    MAX_TERM_CHARS,
    MAX_TERMS,
    beginnings,
    parse,
    parts,
    placed_parts,
    unspaced,
)
from plait.text.columns import split_columns
from plait.text.english import STOP_WORDS
from plait.text.operators import MAX_NEAR_DISTANCE, loosened
from plait.text.unspaced import grams, segments, split
from plait.types.queries import Expression, Group, Query, Term

TOKENIZERS = (
    "porter unicode61",
    "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc' separators '\ufe0e\ufe0f'",
)
# Texts that mix everything the rules tell apart, denser than plain random Unicode.
MIXED = st.text(
    st.sampled_from(
        "ab cZ9 \t\n\"'*()-_,.AND東京都のガｶﾞか\u3099한국어ทีมน้ำʼéßऔहिन्दीكَتبשָׁ。、「…😀\ufe0f\0\ud800"
    )
)
ANY_TEXT = st.one_of(st.text(), MIXED, st.text(st.characters()))
OPERATORS = st.lists(
    st.sampled_from(
        [
            "AND",
            "OR",
            "NOT",
            "(",
            ")",
            "NEAR(",
            "NEAR(a,5)",
            "NEAR(a\tb,5)",
            '"',
            '"ssh\tkeys"',
            '"ssh"*',
            "keys",
            "rot*",
            "the",
            "ssh-key",
            "東京都",
            "水",
            ",",
            "*",
            '12"',
            "don't",
            "C++",
        ]
    ),
    max_size=14,
).map(" ".join)


def fts(*texts: str, tokenizer: str = TOKENIZERS[1]) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute(f'CREATE VIRTUAL TABLE t USING fts5(x, tokenize="{tokenizer}")')
    for text in texts:
        connection.execute("INSERT INTO t(x) VALUES (?)", (split(text) or text,))
    return connection


def quoted(words: tuple[str, ...]) -> str:
    return '"' + " ".join(words) + '"'


def match_string(expression: Expression) -> str:
    if isinstance(expression, Group):
        joined = f" {expression.operator.upper()} ".join(map(match_string, expression.parts))
        return f"({joined})"
    if expression.near:
        return f"NEAR({' '.join(quoted((word,)) for word in expression.words)}, {expression.near})"
    return quoted(expression.words) + ("*" if expression.prefix else "")


def matching(connection: apsw.Connection, match: str) -> list[int]:
    return [row[0] for row in connection.execute("SELECT rowid FROM t WHERE t MATCH ?", (match,))]


def searched(connection: apsw.Connection, text: str) -> list[int]:
    query = parse(text)
    bag = " OR ".join(quoted((word,)) for word in query.words)
    return matching(connection, match_string(query.expression) if query.expression else bag)


def words_of(expression: Expression | None) -> list[str]:
    if expression is None:
        return []
    if isinstance(expression, Term):
        return list(expression.words)
    return [word for part in expression.parts for word in words_of(part)]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("東京都", "東京 京都"),
        ("東", "東"),
        ("日本語のテスト", "日本 本語 語の のテ テス スト"),
        ("한국어", "한국 국어"),
        ("ภาษาไทย", "ภาษ าษา ษาไ าไท ไทย"),
        ("ປີ", "ປີ"),
        ("ខ្មែរ", "ខ្ម ្មែ មែរ"),
        ("မြန်မာ", "မြန ြန် န်မ ်မာ"),
        ("NASA計画2015年", "NASA 計画 2015 年"),
        ("東京。大阪", "東京 。 大阪"),
        ("ｶﾞｷﾞｸﾞ", "ガギ ギグ"),
        ("か\u3099くせい", "がく くせ せい"),
        ("\u1112\u1161\u11ab\u1100\u116e\u11a8", "한국"),
        ("葛\U000e0100飾区", "葛飾 飾区"),
        ("\uff21\uff22\uff23 \uff12\uff10\uff11\uff15", "abc 2015"),
    ],
)
def test_spaceless_runs_become_overlapping_pieces(text: str, pieces: str) -> None:
    assert (split(text) or "").split() == pieces.split()


def test_no_character_of_a_script_without_spaces_is_passed_over() -> None:
    everything = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    in_runs = "".join(run[0] for run in unspaced.runs().finditer(everything))
    assert [character for character in in_runs if plain_text.needs_no_runs(character)] == []
    assert plain_text.needs_no_runs("\u2019\u2013\u2192\u20ac \u0416 \u05d0")


@pytest.mark.parametrize(
    "text",
    ["", "plain words", "naïve café - “quotes”", "Привет мир", "हिन्दी भाषा", "كتاب", "שלום", "😀"],
)
def test_scripts_with_spaces_are_left_to_the_engine(text: str) -> None:
    assert split(text) is None


@given(ANY_TEXT)
def test_segments_cover_the_text_without_gap_or_overlap(text: str) -> None:
    runs = list(segments(text))
    assert "".join(text[start:end] for start, end, _ in runs) == text
    assert all(start < end for start, end, _ in runs)
    assert (split(text) is None) == all(n == 0 for _, _, n in runs)


@given(ANY_TEXT)
def test_grams_cover_every_character_of_their_run_in_order(text: str) -> None:
    for start, end, n in segments(text):
        if n:
            places = [(left, right) for left, right, _ in grams(text, start, end, n)]
            assert set().union(*(range(left, right) for left, right in places)) >= {
                at for at in range(start, end) if not "\U000e0100" <= text[at] <= "\U000e01ef"
            }
            assert places == sorted(places)
            assert all(start <= left < right <= end for left, right in places)


@given(st.text(st.sampled_from("ab é東京都のカ한국ทีมน้")))
def test_splitting_again_changes_nothing(text: str) -> None:
    once = split(text)
    if once is not None:
        assert (split(once) or "").split() == once.split()


def test_width_and_composition_do_not_change_what_is_indexed() -> None:
    assert split("ガギグ") == split("ｶﾞｷﾞｸﾞ") == split("カ\u3099キ\u3099ク\u3099")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("how do we rotate the SSH-password?", ("rotate", "ssh", "password")),
        ("C++", ("c",)),
        ("ubuntu 20.04", ("ubuntu", "20", "04")),
        ("foo:bar foo_bar", ("foo", "bar")),
        ("John's keys don't rotate", ("john", "keys", "rotate")),
        ("we\u2019ll rotate l\u2019eau", ("rotate", "eau")),
        ("don't", ("don", "t")),
        ("what is it", ("what", "is", "it")),
        ("what is plait", ("what", "is", "plait")),
        ("Key key KEY ring", ("key", "ring")),
        ("東京都の天気 in May", ("東京", "京都", "都の", "の天", "天気", "may")),
        ("2015年3月", ("2015", "年", "3", "月")),
        ("\uff21\uff22\uff23 ｶﾞｷﾞｸﾞ", ("abc", "ガギ", "ギグ")),
        ("हिन्दी भाषा", ("हिन्दी", "भाषा")),
        ("✔️done ✔️️ ok", ("done", "ok")),
        ("foo (bar) [baz]", ("foo", "bar", "baz")),
    ],
)
def test_plain_text_becomes_its_content_words(text: str, words: tuple[str, ...]) -> None:
    assert parse(text)[:4] == Query(text, words)[:4]


@pytest.mark.parametrize("text", ["", "   ", "?!", '"', '""', "()", "\0", "\ud800", "😀", "\ufe0f"])
def test_query_without_any_word_has_no_words_and_no_expression(text: str) -> None:
    query = parse(text)
    assert (query.words, query.expression) == ((), None)


RETRIES = [Term(("max", "retries")), Term(("alpha", "beta"))]
SSH_KEYS, ROTATE = Term(("ssh", "keys")), Term(("rotate",))
SSH_OR_KEYS = Group("or", (Term(("ssh",)), Term(("keys",))))
A, B, C = Term(("alpha",)), Term(("beta",)), Term(("gamma",))
NOT_ALPHA = Group("not", (Group("and", (SSH_KEYS, Group("or", (SSH_KEYS, ROTATE)))), A))


@pytest.mark.parametrize(
    ("text", "words", "expression"),
    [
        ('"ssh keys"', ("ssh", "keys"), SSH_KEYS),
        (
            'rotate the +"ssh keys"',
            ("rotate", "ssh", "keys"),
            Group("and", (SSH_KEYS, Group("or", (SSH_KEYS, ROTATE)))),
        ),
        ('the +"ssh keys"', ("ssh", "keys"), SSH_KEYS),
        (
            '+"ssh keys" "alpha beta"',
            ("ssh", "keys", "alpha", "beta"),
            Group("and", (SSH_KEYS, Group("or", (SSH_KEYS, Term(("alpha", "beta")), A, B)))),
        ),
        ('"ssh keys" AND rotate', ("ssh", "keys", "rotate"), Group("and", (SSH_KEYS, ROTATE))),
        ('rotate "ssh keys" NOT alpha', ("rotate", "ssh", "keys"), NOT_ALPHA),
        ('"ssh keys" "rotate"', ("ssh", "keys", "rotate"), Group("and", (SSH_KEYS, ROTATE))),
        ('"state of the art"', ("state", "art"), Term(("state", "of", "the", "art"))),
        ("alpha AND beta AND gamma", ("alpha", "beta", "gamma"), Group("and", (A, B, C))),
        (
            "alpha OR beta AND gamma",
            ("alpha", "beta", "gamma"),
            Group("or", (A, Group("and", (B, C)))),
        ),
        (
            "(alpha OR beta) AND gamma",
            ("alpha", "beta", "gamma"),
            Group("and", (Group("or", (A, B)), C)),
        ),
        ("alpha NOT beta NOT gamma", ("alpha",), Group("not", (A, B, C))),
        ("alpha AND NOT beta", ("alpha",), Group("not", (A, B))),
        ("ssh the keys NOT alpha", ("ssh", "keys"), Group("not", (SSH_OR_KEYS, A))),
        ("(ssh) keys NOT alpha", ("ssh", "keys"), Group("not", (SSH_OR_KEYS, A))),
        (
            "(alpha OR beta) (gamma OR rotate)",
            ("alpha", "beta", "gamma", "rotate"),
            Group("and", (Group("or", (A, B)), Group("or", (C, ROTATE)))),
        ),
        ("rotat*", ("rotat",), Term(("rotat",), prefix=True)),
        (
            "rotat* alpha",
            ("rotat", "alpha"),
            Group("or", (Term(("rotat",), prefix=True), A)),
        ),
        ("हिन्दी*", ("हिन्दी",), Term(("हिन्दी",), prefix=True)),
        ("水 AND alpha", ("水", "alpha"), Group("and", (Term(("水",), prefix=True), A))),
        ("John's AND alpha", ("john", "alpha"), Group("and", (Term(("john", "s")), A))),
        ('"don\'t" NOT alpha', ("don", "t"), Group("not", (Term(("don", "t")), A))),
        ('"ssh ke"*', ("ssh", "ke"), Term(("ssh", "ke"), prefix=True)),
        ("ssh-keys AND rotate", ("ssh", "keys", "rotate"), Group("and", (SSH_KEYS, ROTATE))),
        ('"東京都"', ("東京", "京都"), Term(("東京", "京都"))),
        ("NEAR(ssh keys, 5)", ("ssh", "keys"), Term(("ssh", "keys"), near=5)),
        ("NEAR(ssh keys)", ("ssh", "keys"), Term(("ssh", "keys"), near=10)),
        ("NEAR(ssh keys, 0)", ("ssh", "keys"), Term(("ssh", "keys"), near=1)),
        ("NEAR(ssh keys, 99999)", ("ssh", "keys"), Term(("ssh", "keys"), near=MAX_NEAR_DISTANCE)),
        ("NEAR(alpha, 5)", ("alpha",), A),
    ],
)
def test_operators_make_an_expression(
    text: str, words: tuple[str, ...], expression: Expression
) -> None:
    assert parse(text) == Query(text, words, expression, strict=True)


@pytest.mark.parametrize(
    ("text", "words", "phrases"),
    [
        ('rotate the "ssh keys"', ("rotate", "ssh", "keys"), [SSH_KEYS]),
        ('the "ssh keys"', ("ssh", "keys"), [SSH_KEYS]),
        ('Who wrote "Alpha Beta"?', ("wrote", "alpha", "beta"), [Term(("alpha", "beta"))]),
        ("Wer schrieb \u201eAlpha Beta\u201c", ("wer", "schrieb", "alpha", "beta"), None),
        ("Who wrote \u201cAlpha Beta\u201d.", ("wrote", "alpha", "beta"), None),
        ("Qui lit \u00abAlpha Beta\u00bb, hier", ("qui", "lit", "alpha", "beta", "hier"), None),
        ('水 "alpha beta"', ("水", "alpha", "beta"), None),
        ('12" and 14" disks', ("12", "14", "disks"), []),
        ('the word "rotate" alone', ("word", "rotate", "alone"), []),
        ('"東京都" rotate', ("東京", "京都", "rotate"), [Term(("東京", "京都"))]),
        ('5" disk of "alpha beta"', ("5", "disk", "alpha", "beta"), None),
        ("max_retries of alpha_beta_", ("max", "retries", "alpha", "beta"), RETRIES),
    ],
)
def test_a_phrase_beside_words_boosts(
    text: str, words: tuple[str, ...], phrases: list[Term] | None
) -> None:
    query = parse(text)
    assert (query.words, query.strict) == (words, False)
    assert list(query.boosts) == ([Term(("alpha", "beta"))] if phrases is None else phrases)


def test_strict_requires_every_phrase() -> None:
    query = parse('rotate the "ssh keys"', strict=True)
    assert query.strict
    assert query.expression == parse('rotate the +"ssh keys"').expression
    assert parse("rotate the keys", strict=True) == parse("rotate the keys")


@pytest.mark.parametrize(
    ("text", "words", "expression"),
    [
        ('"ssh keys"', ("ssh", "keys"), None),
        ("alpha AND beta", ("alpha", "beta"), None),
        ("NEAR(alpha beta)", ("alpha", "beta"), None),
        ("alpha NOT beta", ("alpha",), Group("not", (A, B))),
        (
            "(alpha NOT (beta NOT gamma)) OR (rotate NOT gamma)",
            ("alpha", "rotate"),
            Group("not", (Group("or", (A, ROTATE)), Group("not", (B, C)), C)),
        ),
    ],
)
def test_loosened_operators_are_words_less_what_not_excludes(
    text: str, words: tuple[str, ...], expression: Expression | None
) -> None:
    query = loosened(parse(text))
    assert query[1:4] == (words, expression, expression is not None)


@given(st.one_of(ANY_TEXT, OPERATORS))
def test_loosening_any_string_keeps_its_words(text: str) -> None:
    query = parse(text)
    loose = loosened(query)
    assert loose.words == query.words
    assert loose.expression is None or loose.strict == query.strict


@pytest.mark.parametrize(
    ("words", "begun"),
    [
        (["книгами", "год"], {"книгами": "книга"}),
        (["naïve", "café"], {"naïve": "naïv"}),
        (["kitapları", "okuyan", "yazar", "ev"], {"kitapları": "kitapla", "okuyan": "okuy"}),
        (["हिन्दी"], {"हिन्दी": "हिन्"}),
        (["quarterly", "reports"], {}),
        (["東京", "kubernetes"], {}),
        (["한국", "ทีม", "reports"], {}),
        (["größe2"], {}),
        ([], {}),
    ],
)
def test_words_of_inflected_languages_have_a_beginning(
    words: list[str], begun: dict[str, str]
) -> None:
    assert beginnings(words) == begun


@given(st.lists(st.text(min_size=1, max_size=12)))
def test_a_beginning_begins_its_word(words: list[str]) -> None:
    for word, start in beginnings(words).items():
        assert word.startswith(start)
        assert 4 <= len(start) < len(word)


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("arrayToCSV", ["array", "to", "csv"]),
        ("HTTPServer2", ["http", "server2", "server"]),
        ("useState, XMLHttpRequest", ["use", "state", "xml", "http", "request"]),
        ("utf8Decode", ["utf8", "utf", "decode"]),
        ("getDbName getDbName", ["get", "db", "name"]),
        ("obj.maxRetries_count", ["max", "retries"]),
        ("Title Case, SHOUTING, IDs, URLs, a1B2c3D4, x", []),
        ("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", []),
        ("a" * 49 + "B", []),
        ("größeÄndern", []),
        ("", []),
    ],
)
def test_names_of_code_have_parts(text: str, listed: list[str]) -> None:
    assert parts(text) == listed


@given(st.one_of(ANY_TEXT, st.text("aB9_ é")))
def test_parts_lie_in_their_places(text: str) -> None:
    for start, end, part in placed_parts(text):
        assert text[start:end].lower().startswith(part)


@given(st.text("aabZAB90_ .", max_size=80))
def test_the_quick_way_to_parts_of_plain_texts_finds_the_same(text: str) -> None:
    assert parts(text) == list(dict.fromkeys(part for _, _, part in placed_parts(text)))


def test_a_passage_is_indexed_with_the_parts_of_its_names_beside_its_heading() -> None:
    assert split_columns("Notes", "plain text") == (None, None)
    assert split_columns("On useState", "call arrayToCSV") == (
        "On useState use state array to csv",
        None,
    )
    assert split_columns("東京", "arrayToCSV 東京") == ("東京 array to csv", "arrayToCSV  東京")


@pytest.mark.parametrize(
    "text",
    [
        "salt and pepper or not",
        "alpha AND",
        "AND alpha beta",
        "alpha OR OR beta",
        "alpha OR NOT beta",
        "NOT alpha beta",
        '"alpha beta',
        'alpha "" beta',
        '12" and 14" disks',
        'say"alpha"now beta',
        "(alpha AND beta",
        "alpha AND beta)",
        "() AND alpha beta",
        "NEAR(alpha AND (beta",
        "NEAR(, 5) alpha",
        "near(alpha beta)",
        "5 * 3 *.md **bold** a*b",
        "-alpha +beta ^gamma title:x {a b}",
        "FOR ANDROID",
        "alpha AND - AND beta",
        "NOT AND alpha*",
    ],
)
def test_what_does_not_parse_is_plain_words(text: str) -> None:
    query = parse(text)
    assert query.expression is None
    assert query.words


@pytest.mark.parametrize("unit", ["(", ")", "(a AND ", '"', "NEAR(", "a OR ", "NOT ", "((", "a* "])
def test_deep_or_endless_operators_are_read_without_harm(unit: str) -> None:
    for text in (unit * 10_000, unit * 10_000 + "a" + ")" * 10_000, unit * 40 + "a" + ")" * 40):
        query = parse(text)
        assert len(words_of(query.expression)) <= MAX_TERMS


def test_nested_groups_up_to_the_cap_still_count() -> None:
    text = "(" * 12 + "alpha AND beta" + ")" * 12
    assert parse(text).expression == Group("and", (A, B))


@given(st.one_of(ANY_TEXT, OPERATORS))
def test_every_string_is_a_query_within_the_caps(text: str) -> None:
    query = parse(text)
    assert len(query.text.encode()) <= MAX_QUERY_BYTES
    assert "\0" not in query.text
    for words in (query.words, words_of(query.expression)):
        assert len(words) <= MAX_TERMS
        assert all(0 < len(word) <= MAX_TERM_CHARS for word in words)
    assert len(set(query.words)) == len(query.words)


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000,
        "é" * 1_000_000,
        "word " * 200_000,
        "東" * 1_000_000,
        " " * 1_000_000,
        "\ud800" * 9_999,
    ],
)
def test_huge_queries_are_cut(text: str) -> None:
    query = parse(text)
    assert len(query.text.encode()) <= MAX_QUERY_BYTES
    assert all(len(word) <= MAX_TERM_CHARS for word in query.words)


def test_long_query_is_cut_between_words_and_keeps_its_first_terms() -> None:
    words = [f"word{number:04}" for number in range(1_000)]
    query = parse(" ".join(words))
    assert query.text.split() == words[: len(query.text.split())]
    assert query.words == tuple(words[:MAX_TERMS])


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@given(text=st.one_of(ANY_TEXT, OPERATORS))
def test_fts5_accepts_the_words_and_the_expression_of_every_string(
    tokenizer: str, text: str
) -> None:
    connection = fts("ssh keys", tokenizer=tokenizer)
    query = parse(text)
    if query.words:
        matching(connection, " OR ".join(quoted((word,)) for word in query.words))
    if query.expression is not None:
        matching(connection, match_string(query.expression))
    connection.close()


# Not over all of Unicode: SQLite knows an older edition of it and takes unassigned characters in.
@given(st.one_of(MIXED, st.text(st.characters(max_codepoint=0x24F)), st.text("ab 東京の한국ทีม")))
def test_a_text_is_found_by_any_of_its_own_words(text: str) -> None:
    query = parse(text.replace('"', "").replace("*", "").lower())
    connection = fts(query.text)
    for word in query.words[:8]:
        if len(word) < MAX_TERM_CHARS and word.isalnum():
            assert matching(connection, quoted((word,))) == [1]
    connection.close()


@pytest.mark.parametrize(
    ("sentence", "word"),
    [
        ("We rotate the deploy keys every quarter.", "deploy"),
        ("Мы меняем ключи каждый квартал.", "ключи"),
        ("Αλλάζουμε τα ΚΛΕΙΔΙΆ κάθε τρίμηνο.", "κλειδιά"),
        ("نقوم بتغيير المفاتيح كل ربع سنة.", "المفاتيح"),
        ("אנחנו מחליפים מפתחות בכל רבעון.", "מפתחות"),
        ("हम हर तिमाही में कुंजियाँ बदलते हैं।", "कुंजियाँ"),
        ("我们每个季度更换部署密钥。", "部署"),
        ("わたしたちはカギをときどきかえます。", "ときどき"),
        ("デプロイキーヲコウカンスル", "ｺｳｶﾝ"),
        ("우리는 분기마다 배포키를 교체합니다.", "배포키"),
        ("เราเปลี่ยนกุญแจทุกไตรมาส", "กุญแจ"),
    ],
)
def test_word_in_the_middle_of_a_sentence_is_found_in_every_script(
    sentence: str, word: str
) -> None:
    connection = fts("nothing of the kind 天気 อากาศ 날씨 てんき", sentence)
    assert searched(connection, word) == [2]


@pytest.mark.parametrize(
    ("sentence", "query"),
    [("京都の水温", "水"), ("물을 마신다", "물"), ("ในปีนี้", "ปี"), ("水温", "水 foo")],
)
def test_short_spaceless_word_standing_alone_finds_what_it_begins(
    sentence: str, query: str
) -> None:
    assert searched(fts("unrelated", sentence), query) == [2]


def test_phrase_with_a_plus_is_required_and_words_beside_it_only_rank() -> None:
    connection = fts("ssh keys", "rotate keys", "rotate ssh keys", "keys ssh rotate")
    query = parse('rotate +"ssh keys"')
    assert query.expression is not None
    rows = connection.execute(
        "SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank", (match_string(query.expression),)
    )
    assert [row[0] for row in rows] == [3, 1]


def test_not_and_near_mean_what_they_say() -> None:
    connection = fts("ssh keys", "ssh password", "keys one two three ssh")
    assert searched(connection, "ssh NOT password") == [1, 3]
    assert searched(connection, "NEAR(ssh keys, 2)") == [1]


def test_stop_words_are_lower_case_words() -> None:
    assert {"the", "how", "what", "who"} <= STOP_WORDS
    assert not {"may", "get", "no", "before", "all"} & STOP_WORDS
    assert all(word.isalpha() and word.islower() for word in STOP_WORDS)
