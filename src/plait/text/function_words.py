"""Function words of other languages than English, and which of them a question is in.

In a memory of several languages such words are rare, so that they would count as telling ones: a
Spanish question would find the few Spanish notes by "por" and "la", whatever it is about. They are
left out only of a question that is in that language, because "die", "war" or "no" mean something
in English.
"""

from collections.abc import Sequence
from functools import cache

from plait.text import words_in
from plait.text.asking import FEW_WORDS, asking_words, is_of_other_script
from plait.text.english import empty_words

# So many must stand in a question of Latin letters, and so many of them show its language. In an
# English question a single one may be a name or an abbreviation ("HET", "Oder"), unless it has a
# letter that English has not, or so many are listed in all.
LEAST_LISTED = 2
LEAST_SHOWING = 2
MANY_LISTED = 4
OPENING_LISTED = 3  # where the first two words are, as in "wo sind die"

# In a question of few words they tell what it is about: "без сахара" is not about sugar.
_NEGATIONS = frozenset(("без", "не", "нет", "ни", "لم"))

# All that are left out of a question in the language.
_BY_LANGUAGE = {
    "ar": (
        "ما ماذا من في على إلى عن مع هل كم أين متى كيف لماذا أي الذي التي هو هي أن كان كانت قد لم "
        "هذا هذه بين اين الى لمن بكم مين وين فين ليه امتى إمتى"
    ),
    "da": (
        "af at blev da de den der det du en er et for fra han har havde hun hvad hvem hvilke "
        "hvilken hvilket hvor hvordan hvorfor hvornår i ikke jeg kan med men min mit når og om os "
        "på sig sin som til var ved vi være"
    ),
    "de": (
        "aber alle als am an auch auf aus bei bis da das dass dem den denn der des die diese "
        "dieser dieses doch durch ein eine einem einen einer eines er es für gegen gibt haben hat "
        "hatte hatten ich ihr ihre im in ist ja kann können man mein mit nach nicht noch nur ob "
        "oder ohne sein seine sich sie sind so um und uns unser unter über viele vielen vom von "
        "vor wann war waren warum was während welche welchem welchen welcher welches wem wen wer "
        "werden weshalb wessen wie wieso wieviel wieviele wir wird wo wodurch wofür woher wohin "
        "womit woran worauf worin worüber wozu wurde wurden zu zum zur zwischen viel"
    ),
    "es": (
        "a adónde al como cómo con cual cuál cuales cuáles cuando cuándo cuanta cuánta cuantas "
        "cuántas cuanto cuánto cuantos cuántos de del desde donde dónde e el él ella ellas ellos "
        "en entre era eran es esa ese eso esta está están estas este esto estos fue fueron ha "
        "había han hasta hay la las le les lo los más me mi muy no nos o para pero por porque que "
        "qué quien quién quienes quiénes se ser si sin sobre son su sus también te tiene un una "
        "uno unos y ya yo"
    ),
    "fr": (
        "a à au aux avec ce ces cet cette combien comment d dans de des du elle elles en est et "
        "était été il ils je l la laquelle le lequel les leur leurs ma mais mes mon ne nos notre "
        "nous on ont ou où par pas pour pourquoi qu quand que quel quelle quelles quels qui quoi "
        "sa sans se ses son sont sur tu un une vos votre vous y"
    ),
    "hi": (
        "का की के में से को है हैं था थे थी क्या कब कहाँ कहां कौन कितने कितनी किस किसने और ने पर "
        "यह वह इस उस लिए कैसे कैसा कैसी क्यों कि एक कितना किसका किसकी किसके किसको"
    ),
    "it": (
        "a ad al alla alle anche che chi come con cosa da dal dalla dei del della delle di dove e "
        "è era erano gli ha hanno i il in io la le lo loro ma mi nei nel nella non o per perche "
        "perchè perché più qual quale quali quando quante quanti quanto questa questo se si sono "
        "su sua sue sul sulla suo tra un una uno"
    ),
    "nl": (
        "aan als bij dan dat de deze die dit door een en er haar heb heeft hem het hij hoe "
        "hoeveel ik in is je kan maar met mijn naar niet nog of om ons ook op over te tot uit van "
        "voor waar waarom wanneer waren was wat we welke werd wie wij worden wordt ze zich zijn"
    ),
    "pl": (
        "a ale bo był była były być co czy dla dlaczego do gdzie go i ich ile jak jaka jaki jakie "
        "jako jego jej jest już kiedy kto która które który ma mnie na nad nie o od oraz po pod "
        "przez przy są się ta tak te tego ten to w we z za ze że"
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
        "чем что чтобы эта эти это этого этой этот я зачем каким каких каков кем куда откуда чей "
        "чему чьё чьи чья"
    ),
    "sv": (
        "att av blev de dem den det detta du där en ett från för ha hade han har hon hur i inte "
        "jag kan med men mig min mot när och om oss på sig sin som till under ut vad var varför "
        "vem vi vid vilka vilken vilket är"
    ),
    "tr": (
        "ama ancak ben bir biz bu bunu çok da daha de değil diye en gibi göre hangi hangileri "
        "hangisi her için ile ise kaç kadar ki kim kimdi kimdir kime kimin mi mı midir mu mü "
        "nasıl ne neden nedir nelerdir nerede neydi neye neyi niçin niye o olan olarak oldu "
        "olduğu onu şu tane tarafından var ve veya ya yılında zaman kimde kimden kiminle nerde "
        "nereden nereye neresi"
    ),
}
# Those in Latin letters that show the language: hardly an English word, name, abbreviation or
# command is spelt like one ("per", "dan", "mit", "os", "su", "vad").
_SHOWING = (
    # Danish
    "hvad hvem hvilke hvilken hvilket hvor hvordan hvorfor hvornår ikke jeg når på være "
    # Dutch
    "bij deze een heeft het hij hoeveel maar mijn naar niet voor waarom wanneer welke werd worden "
    "wordt zijn "
    # French
    "avec cette combien dans était été leurs lequel laquelle nous où pourquoi quand quel quelle "
    "quelles quels quoi sont une vous "
    # German
    "aber auch auf bei diese dieser dieses durch eine einem einen einer eines für gegen haben "
    "hatte hatten ihre kann können nach nicht noch oder ohne seine sich sind und unser über "
    "viele vielen wann waren warum während welche welchem welchen welcher welches werden wessen "
    "wie wir wird wofür woher wohin womit worin wozu wurde wurden zum zur zwischen "
    # Italian
    "anche della delle hanno nella perché più quale quali quante quanti quanto questa questo "
    # Polish
    "był była były być czy gdzie jaka jaki jakie kiedy która które który przez przy są się "
    "że "
    # Portuguese
    "aos foram há já minha não onde para pela pelo porque quais qual quando quantas quantos quem "
    "são também uma "
    # Spanish
    "cómo cuál cuales cuáles cuando cuándo cuántas cuánto cuántos desde dónde donde está "
    "están fue fueron había hasta más para pero por que qué quien quién quienes quiénes también "
    "tiene una "
    # Swedish
    "det ett från för inte när och på varför vilka vilken vilket är "
    # Turkish
    "ancak bir çok değil gibi göre hangi hangileri hangisi için kaç kadar kimdi kimdir midir "
    "nasıl neden nedir nelerdir nerede neydi neye neyi niçin olan olarak oldu olduğu tane "
    "tarafından veya yılında zaman"
)
# Letters that no other language listed here has. Where endings do what words do elsewhere, a
# question has few function words to be known by.
_LETTERS = {"pl": frozenset("ąęłśźż"), "tr": frozenset("ğış")}
# Function words of English that other languages have, too.
_SHARED = frozenset(
    ("also", "am", "an", "as", "at", "been", "but", "by", "do", "for", "had", "has")
)
_SHARED |= {"have", "he", "her", "him", "his", "if", "in", "is", "me", "mine", "my", "no", "of"}
_SHARED |= {"on", "or", "so", "to", "us", "was", "we", "will"}


@cache
def showing_words() -> frozenset[str]:
    """Return the words in Latin letters that show another language than English."""
    return frozenset(_SHOWING.split())


@cache
def _languages() -> tuple[tuple[frozenset[str], frozenset[str]], ...]:
    """Return the function words of each language, and those of them that show it."""
    showing = showing_words()
    return tuple(
        (words, frozenset(word for word in words if word in showing or is_of_other_script(word)))
        for words in map(frozenset, map(str.split, _BY_LANGUAGE.values()))
    )


def function_words_of(question: Sequence[str]) -> frozenset[str]:
    """Return the function words of the language that a question is in, in lower case.

    None for a question in English, or in a language that is not known here.

    >>> "la" in function_words_of("por qué usamos la nube".split())
    True
    >>> function_words_of(["vad", "min", "silence"])
    frozenset()
    >>> "wann" in function_words_of(["wann", "umzug"])
    True
    """
    asked = frozenset(question)
    asks = asking_words(question)
    if any(len(word) > 1 for word in (asked & empty_words()) - _SHARED):
        return frozenset()
    most, language = 0, frozenset[str]()
    for listed, showing in _languages():
        shown, known = asked & showing, len((asked & listed) - empty_words())
        if any(map(is_of_other_script, shown)):
            return listed
        is_shown = len(shown) >= LEAST_SHOWING or not all(map(str.isascii, shown))
        if known > most and not asks.isdisjoint(listed):
            most, language = known, listed
        opens = listed.issuperset(question[:2])
        is_shown |= bool(shown) and known >= (OPENING_LISTED if opens else MANY_LISTED)
        if is_shown and known >= LEAST_LISTED and known > most:
            most, language = known, listed
    return language


def function_words_by_letters(question: str) -> frozenset[str]:
    """Return the function words of the language whose letters two words of a question have.

    At least one of the two is in lower case, because both may be names in an English question. Do
    not leave words out of a question for this: names may be in lower case, too.

    >>> "için" in function_words_by_letters("Geçmiş şifre değişir")
    True
    >>> function_words_by_letters("Beşiktaş ağaç for free")
    frozenset()
    """
    words = frozenset(question.split())
    english = empty_words().intersection(words_in(question))
    for language, letters in _LETTERS.items():
        spelt = [word for word in words if not letters.isdisjoint(word.lower())]
        if len(spelt) >= LEAST_SHOWING and any(map(str.islower, spelt)):
            listed = frozenset(_BY_LANGUAGE[language].split())
            return listed if english <= listed else frozenset()
    return frozenset()


def without_foreign_function_words(words: Sequence[str], question: Sequence[str]) -> list[str]:
    """Return words without the function words of the language that the question is in.

    >>> without_foreign_function_words(["usamos", "la", "nube"], "por qué usamos la nube".split())
    ['usamos', 'nube']
    >>> without_foreign_function_words(["disk", "io", "per"], "disk io per process".split())
    ['disk', 'io', 'per']
    """
    left_out = function_words_of(question)
    if len(question) <= FEW_WORDS:
        left_out -= _NEGATIONS
    return [word for word in words if word not in left_out]
