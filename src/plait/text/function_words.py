"""Function words of other languages than English, for questions in them.

In a memory of several languages such words are rare, so that they would count as telling ones: a
Spanish question would find the few Spanish notes by "por" and "la", whatever it is about. They are
left out only of a question that is in that language, because "die", "war" or "no" mean something
in English.
"""

from collections.abc import Sequence
from functools import cache

from plait.text import empty_words

# So many of them must stand in a question of Latin letters, one of which shows its language.
LEAST_LISTED = 2

# All that are left out of a question in the language.
_BY_LANGUAGE = {
    "ar": (
        "ما ماذا من في على إلى عن مع هل كم أين متى كيف لماذا أي الذي التي هو هي أن كان كانت قد لم "
        "هذا هذه بين"
    ),
    "de": (
        "aber alle als am an auch auf aus bei bis da das dass dem den denn der des die diese "
        "dieser dieses doch durch ein eine einem einen einer eines er es für gibt haben hat hatte "
        "ich ihr ihre im in ist ja kann können man mein mit nach nicht noch nur ob oder ohne sein "
        "seine sich sie sind so über um und uns unser unter vom von vor wann war waren warum was "
        "welche welchem welchen welcher welches wem wen wer werden wie wird wir wo wurde wurden "
        "zu zum zur"
    ),
    "es": (
        "a al como cómo con cual cuál cuales cuáles cuando cuándo cuanta cuánta cuantas cuántas "
        "cuanto cuánto cuantos cuántos de del desde donde dónde e el él ella ellas ellos en entre "
        "era eran es esa ese eso esta está están estas este esto estos fue fueron ha había han "
        "hasta hay la las le les lo los más me mi muy no nos o para pero por porque que qué quien "
        "quién quienes quiénes se ser si sin sobre son su sus también te tiene un una uno unos y "
        "ya yo"
    ),
    "fr": (
        "a à au aux avec ce ces cet cette combien comment d dans de des du elle elles en est et "
        "était été il ils je l la laquelle le lequel les leur leurs ma mais mes mon ne nos notre "
        "nous on ont ou où par pas pour pourquoi qu quand que quel quelle quelles quels qui quoi "
        "sa sans se ses son sont sur tu un une vos votre vous y"
    ),
    "hi": (
        "का की के में से को है हैं था थे थी क्या कब कहाँ कहां कौन कितने कितनी किस किसने और ने पर "
        "यह वह इस उस लिए कैसे क्यों कि एक"
    ),
    "it": (
        "a ad al alla alle anche che chi come con cosa da dal dalla dei del della delle di dove e "
        "è era erano gli ha hanno i il in io la le lo loro ma mi nei nel nella non o per perché "
        "più qual quale quali quando quante quanti quanto questa questo se si sono su sua sue sul "
        "sulla suo tra un una uno"
    ),
    "nl": (
        "aan als bij dan dat de deze die dit door een en er haar heb heeft hem het hij hoe "
        "hoeveel ik in is je kan maar met mijn naar niet nog of om ons ook op over te tot uit van "
        "voor waar waarom wanneer waren was wat we welke werd wie wij worden wordt ze zich zijn"
    ),
    "pl": (
        "a ale bo był była były być co czy dla do gdzie go i ich ile jak jaka jaki jakie jako "
        "jego jej jest już kiedy kto która które który ma mnie na nad nie o od oraz po pod przez "
        "przy są się ta tak te tego ten to w we z za ze że"
    ),
    "pt": (
        "a ao aos as com como da das de do dos e é ela ele eles em entre era eram essa esse esta "
        "este eu foi foram há isso já mais mas me meu minha na não nas no nos o onde os ou para "
        "pela pelo por porque qual quais quando quanta quantas quanto quantos que quem se sem ser "
        "seu sua são também está estão tem têm um uma"
    ),
    "ru": (
        "а без бы был была были было быть в вам вас во все всё вы где да для до его ее её если "
        "есть ещё же за и из или им их к как какая какие какого какой каком какую ко когда кого "
        "кому которая которые который кто ли между меня мне мы на над не него нет ни но о об он "
        "она они от по под почему при с сколько со так также там то того только том ты у уже чего "
        "чем что чтобы эта эти это этого этой этот я"
    ),
    "sv": (
        "att av blev de dem den det detta du där en ett från för ha hade han har hon hur i inte "
        "jag kan med men mig min mot när och om oss på sig sin som till under ut vad var varför "
        "vem vi vid vilka vilken vilket är"
    ),
    "tr": (
        "ama ancak ben bir biz bu bunu çok da daha de değil diye en gibi göre hangi hangileri "
        "hangisi her için ile ise kaç kadar ki kim kime kimin mı mi mu mü nasıl ne neden nedir "
        "nerede niçin niye o olan olarak oldu olduğu onu şu tarafından var ve veya ya"
    ),
}
# Those in Latin letters that show the language: no English word, name, abbreviation or command is
# spelt like one ("per", "dan", "mit", "os", "su").
_SHOWING = (
    # Dutch
    "deze heeft hij hoeveel maar mijn naar niet waarom wanneer welke werd worden wordt zijn "
    # French
    "avec cette combien était été leurs lequel laquelle nous où pourquoi quand quel quelle "
    "quelles quels quoi sont vous "
    # German
    "aber auch diese dieser dieses durch einem einen einer eines für haben ihre kann können "
    "nicht noch oder ohne seine sich sind über und unser unter waren warum welche welchem "
    "welchen welcher welches werden wie wir wird wurde wurden zum zur "
    # Italian
    "anche della delle hanno nella perché più quale quali quante quanti quanto questa questo "
    # Polish
    "był była były być czy dla gdzie jaka jaki jakie kiedy która które który przez przy są się "
    "że "
    # Portuguese
    "aos foram há já minha não onde pela pelo porque quais qual quantas quantos quem são também "
    # Spanish
    "cómo cuál cuales cuáles cuándo cuántas cuánto cuántos desde dónde donde está están fueron "
    "había hasta más pero por que qué quien quién quienes quiénes también tiene "
    # Swedish
    "från för inte när och på vad varför vilka vilken vilket är "
    # Turkish
    "ancak çok değil gibi göre hangi hangileri hangisi için kaç kadar nasıl neden nedir nerede "
    "niçin olan olarak oldu olduğu tarafından veya"
)
_FIRST_OTHER_LETTER = "\u0370"  # of scripts that no English word is written in
# Function words of English that other languages have, too.
_SHARED = frozenset(
    ("also", "am", "an", "as", "at", "been", "but", "by", "do", "for", "had", "has")
)
_SHARED |= {"have", "he", "her", "him", "his", "if", "in", "is", "me", "mine", "my", "no", "of"}
_SHARED |= {"on", "or", "so", "to", "us", "was", "we", "will"}


@cache
def _languages() -> tuple[tuple[frozenset[str], frozenset[str]], ...]:
    """Return the function words of each language, and those of them that show it."""
    showing = frozenset(_SHOWING.split())
    return tuple(
        (words, frozenset(word for word in words if word in showing or _is_of_other_script(word)))
        for words in map(frozenset, map(str.split, _BY_LANGUAGE.values()))
    )


def _is_of_other_script(word: str) -> bool:
    return word[0] >= _FIRST_OTHER_LETTER


def without_foreign_function_words(words: Sequence[str], question: Sequence[str]) -> list[str]:
    """Return words without the function words of the language that the question is in.

    A question in English, or in a language that is not known here, has none.

    >>> without_foreign_function_words(["usamos", "la", "nube"], "por qué usamos la nube".split())
    ['usamos', 'nube']
    >>> without_foreign_function_words(["disk", "io", "per"], "disk io per process".split())
    ['disk', 'io', 'per']
    """
    asked = frozenset(question)
    if any(len(word) > 1 for word in (asked & empty_words()) - _SHARED):
        return list(words)
    counts = [len(asked & listed) if asked & showing else 0 for listed, showing in _languages()]
    listed, showing = _languages()[counts.index(max(counts))]
    if max(counts) < LEAST_LISTED and not any(map(_is_of_other_script, asked & showing)):
        return list(words)
    return [word for word in words if word not in listed]
