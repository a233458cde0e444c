"""Question words of languages whose words are not set apart by blanks, and of Korean. Pure.

They are cut out of a question before its runs are divided into pieces: "什么时候搬家" has three
pieces of "when" and one of "moving house". Loaded only for a question in such a script.
"""

import re
from functools import cache

from plait.text import words_in
from plait.text.english import empty_words
from plait.text.unspaced import segments

_CHINESE = (
    r"什[么麼](?:时候|時候|时间|時間|地方|样|樣)?|[为為]什[么麼]|怎[么麼](?:样|樣|办|辦)?|怎[样樣]"
    r"|如何|哪(?:[里裡裏儿兒个個些位年天月]|一[个個年天])?|[谁誰](?![かも])|多少|多久|[几幾][点點个個号號]"
    r"|何[时時](?:候)?|[吗嗎呢](?=\W*$)"
)
# Each is also a part of words: "いつ" of "いつも" and "あいつ", "どの" of "などの".
_JAPANESE = (
    r"(?<![あこそどくつひ])いつ(?:から|まで|ごろ|頃)?(?![もかのくわ])"
    r"|(?<![ほう])どこ(?:で|に|へ|から|まで)?(?![かも])|(?<![なほけれ])どの(?:ような|ように|くらい)?"
    r"|誰(?:が|の|に|と|を)?(?![かも])|なぜ|どうして|どうやって|どんな|(?<![なほけれそ])どれ(?!も)"
    r"|いくら(?=です|でした|かか|\W*$)|いくつ|何(?=です|でした|\W*$)|何(?:が|を|に|で)(?![かも])"
    r"|(?:です|でした|ました|ます|でしょう|だった)か?(?=\W*$)"
)
_KOREAN = (
    "(?<![가-힣])(?:언제(?:부터|까지|쯤|였지|야|예요|인가요)?|어디(?:서|에서|에|로|까지|야|예요|인가요)?"
    "|누(?:가|구(?:를|의|와|랑|에게|한테|야|예요|인가요)?)|무엇(?:을|이|인가요|으로)?|뭐(?:가|를|야|예요|였지)?|뭘"
    "|왜|어떻게|어떤|어느|얼마(?:나|야|예요|인가요)?)(?![가-힣])"
)
_THAI = "อะไร|เมื่อ(?:ไหร่|ไร|ใด)|ที่(?:ไหน|ใด)|ใคร(?!่)|ทำไม|อย่างไร|ยังไง|เท่า(?:ไหร่|ไร|ใด)"


@cache
def _asking() -> re.Pattern[str]:
    return re.compile("|".join((_JAPANESE, _CHINESE, _KOREAN, _THAI)))


def without_asking(text: str) -> str:
    """Return a question without its question words, or as it is if nothing else would be left.

    >>> without_asking("什么时候搬家"), without_asking("언제 왜")
    (' 搬家', '언제 왜')
    """
    rest = _asking().sub(" ", text)
    if rest == text:
        return text
    # A rest shorter than the pieces in the index is no word, unless it was written alone.
    alone = {text[start:end] for start, end, _ in segments(text)}
    runs = [(rest[start:end], n) for start, end, n in segments(rest)]
    kept = "".join(run if len(run) >= n or run in alone else " " for run, n in runs)
    return kept if not empty_words().issuperset(words_in(kept)) else text
