"""Recognise an opening question: one that asks for the overview, and for nothing in particular.

The whole question must be made of the phrases listed here: "what should I know about this repo?" is
one, "what should I know about OAuth tokens?" is not. A word alone, as "continue", is not: people
say it in the middle of a session. A question about the past may name a time, as in "what did we do
yesterday?": then it asks for the overview of that time.
"""

import re
import time as clock
from functools import cache

from plait.searching.where import Where, given_fields
from plait.text.english import WEEKDAYS
from plait.times import show_time, span_of
from plait.types import Filter

# Phrases by their words.
Phrases = frozenset[tuple[str, ...]]

# Longer texts ask for something.
LONGEST_OPENING = 160
_NO_WORDS = re.compile(r"[^\w]+")
# subtle: an apostrophe joins: "what's" and "whats" are one spelling, "l'état" is "létat".
_APOSTROPHES = str.maketrans("", "", "'’`´‘ʼ")  # noqa: RUF001

# Words before a question that ask for nothing.
_BEFORE = (
    "hi|hello|hey|hey claude|good morning|good afternoon|ok|okay|so|well|now|first|please|claude|"
    "lets|let us|can you|could you|would you|can you please|could you please|can we|tell me|"
    "remind me|show me|just|and|before we start|before i start|"
    "hallo|guten morgen|moin|bitte|also|kannst du|kannst du bitte|sag mir|lass uns|"
    "hola|buenos días|por favor|puedes|dime|vale|"
    "bonjour|salut|sil te plaît|sil vous plaît|dis moi|peux tu|"
    "ciao|olá|oi|bom dia|per favore|hoi|alsjeblieft"
)
# What follows it without asking for more.
_BEHIND = (
    "please|here|again|today|now|first|so far|in general|right now|then|from memory|"
    "claude|last time|yesterday|last session|in the last session|in our last session|"
    "last week|this week|this morning|recently|lately|the other day|"
    "before we start|before i start|before we begin|before starting|before i begin|"
    "before you start|before i start working|to get started|to start|"
    "about {place}|on {place}|in {place}|of {place}|for {place}|with {place}|at {place}|"
    "about me|about us|about the user|about myself|about my preferences|about our work|"
    "on this|with this|about this|about it|from you|for me|"
    "hier|heute|bitte|jetzt|zuletzt|beim letzten mal|gestern|letzte woche|diese woche|bisher|"
    "über mich|über uns|von mir|über {ort}|zu {ort}|in {ort}|an {ort}|"
    "aquí|hoy|ahora|la última vez|ayer|sobre mí|de mí|sobre mi|de mi|"
    "sobre {lugar}|de {lugar}|en {lugar}|"
    "ici|aujourdhui|maintenant|la dernière fois|hier soir|sur moi|de moi|à mon sujet|"
    "sur {lieu}|de {lieu}|dans {lieu}|"
    "qui|oggi|lultima volta|ieri|su di me|di me|su questo progetto|di questo progetto|"
    "aqui|hoje|agora|da última vez|ontem|sobre mim|de mim|sobre este projeto|deste projeto|"
    "over mij|over dit project|vandaag|"
    "por favor|sil te plaît|sil vous plaît|per favore|alsjeblieft"
)
_PLACES = {
    "{place}": (
        "this repo|this repository|this project|this codebase|this code base|this workspace|"
        "this folder|this directory|the repo|the repository|the project|the codebase|"
        "our project|our repo|my project|my repo|here"
    ),
    "{ort}": (
        "dieses repo|diesem repo|dieses repository|diesem repository|dieses projekt|"
        "diesem projekt|das projekt|dem projekt|diese codebasis|dieser codebasis"
    ),
    "{lugar}": "este repo|este repositorio|este proyecto|el proyecto|este código",
    "{lieu}": "ce dépôt|ce projet|le projet|ce repo|ce code",
}
# Questions about the past: with a time, they ask for that time.
_PAST = (
    "where were we|where was i|where did we stop|where did i stop|where did we leave off|"
    "where did i leave off|where did we leave it|where we were|"
    "what were we doing|what was i doing|what were we working on|what was i working on|"
    "what have we been working on|what have i been working on|what have we been doing|"
    "what have we done|what did we do|what did i do|what did we work on|what did i work on|"
    "what did we talk about|what did we discuss|what did we decide|what have we decided|"
    "what was the last thing we did|what we were doing|what we did|"
    # German, Spanish, French
    "wo waren wir|wo war ich|wo waren wir stehengeblieben|wo waren wir stehen geblieben|"
    "wo haben wir aufgehört|wo habe ich aufgehört|woran haben wir gearbeitet|"
    "woran haben wir zuletzt gearbeitet|woran habe ich gearbeitet|"
    "woran habe ich zuletzt gearbeitet|was haben wir gemacht|was haben wir getan|"
    "was haben wir zuletzt gemacht|was haben wir zuletzt getan|was habe ich gemacht|"
    "was habe ich zuletzt gemacht|was haben wir besprochen|was haben wir zuletzt besprochen|"
    "was haben wir beschlossen|was haben wir entschieden|worüber haben wir gesprochen|"
    "worüber haben wir zuletzt gesprochen|"
    "dónde estábamos|donde estábamos|donde estabamos|dónde lo dejamos|donde lo dejamos|"
    "dónde nos quedamos|donde nos quedamos|en qué estábamos|en que estabamos|"
    "en qué estábamos trabajando|en qué trabajábamos|qué hicimos|que hicimos|"
    "qué decidimos|que decidimos|de qué hablamos|de que hablamos|"
    "où en étions nous|ou en étions nous|où en étais je|où on en était|on en était où|"
    "sur quoi travaillions nous|sur quoi on travaillait|quavons nous fait|quest ce quon a fait|"
    "quavons nous décidé|quest ce quon a décidé|de quoi avons nous parlé|de quoi on a parlé|"
    # Italian, Portuguese, Dutch
    "dove eravamo|dove eravamo rimasti|a cosa stavamo lavorando|"
    "onde estávamos|onde paramos|no que estávamos trabalhando|o que fizemos|"
    "waar waren we|waar waren we gebleven|waar werkten we aan"
)
# These ask for nothing in particular only with a time: alone, they may be about what is on screen.
_ONLY_WITH_TIME = (
    "what happened|what has happened|what was done|what got done|what changed|recap|summarize|"
    "summarise|give me a recap|give me a summary of|was ist passiert|was war los|was wurde gemacht|"
    "qué pasó|que pasó|quest ce qui sest passé|que sest il passé"
)
# Times as people name them, by the words that `plait.times` knows.
_TIMES = {
    "today": "today|this morning|heute|heute morgen|hoy|aujourdhui|oggi|hoje|vandaag",
    "yesterday": "yesterday|gestern|ayer|hier soir|ieri|ontem|gisteren",
    "this week": "this week|diese woche|esta semana|cette semaine|questa settimana|deze week",
    "last week": (
        "last week|the last week|letzte woche|la semana pasada|la semaine dernière|"
        "la settimana scorsa|na semana passada|vorige week"
    ),
    "this month": "this month|diesen monat|este mes|ce mois ci|questo mese|este mês|deze maand",
    "last month": (
        "last month|letzten monat|el mes pasado|le mois dernier|il mese scorso|mês passado|"
        "no mês passado|vorige maand"
    ),
    "this year": "this year|dieses jahr|este año|cette année|questanno|este ano|dit jaar",
    "last year": (
        "last year|letztes jahr|el año pasado|lannée dernière|lanno scorso|ano passado|"
        "no ano passado|vorig jaar"
    ),
    **{day: f"{day}|on {day}|last {day}" for day in WEEKDAYS},
}
# Words of the longest of them, and of a date with one of these words before it.
_LONGEST_TIME = 6
_BEFORE_DATES = ("on", "from", "of", "am", "vom", "el", "le", "il", "em", "op", "the")
_BEFORE_MONTHS = ("in", "during", "im", "en", "em", "a", "op")
_DAYS_AGO = re.compile(
    r"(?:vor |hace |il y a |há )?(\d{1,4}) "
    r"(?:days ago|tagen|días|jours|giorni fa|dias|dagen geleden)"
)
_QUESTIONS = (
    # What to know
    "what should i know|what do i need to know|what should we know|what must i know|"
    "what should you know|what do you need to know|what is important to know|"
    "what do you know|what do you remember|what can you remember|do you remember me|"
    "do you remember us|who am i|what have you remembered|"
    "what have you learned|whats in your memory|what is in your memory|what is in memory|"
    "what do we know|what is there to know|anything i should know|"
    "is there anything i should know|what have you stored|what are my preferences|"
    "recall everything|load your memory|load my memory|read your memory|"
    "check your memory|load the context|load context|"
    # Where it stopped
    "where are we|where have we got to|"
    "where do things stand|where do we stand|whats the state of things|"
    "whats the state of {place}|what is the state of {place}|whats the status of {place}|"
    "whats the current state of {place}|what is the current state of {place}|"
    "what is the status of {place}|whats the status|what is the status|"
    "continue where we left off|continue where i left off|continue from where we left off|"
    "continue from where i left off|continue from last time|continue from yesterday|"
    "continue our last session|continue the last session|continue our last conversation|"
    "continue our work|continue the previous session|resume the last session|"
    "resume our last session|resume where we left off|resume where i left off|"
    "resume from where we left off|pick up where we left off|pick up where i left off|"
    "pick up from where we left off|pick it up where we left off|"
    "carry on where we left off|keep going where we left off|start where we left off|"
    # What was done
    "what are we working on|what am i working on|"
    "whats the latest|what is the latest|whats been going on|"
    # Bring me up to date
    "catch me up|catch us up|catch up|bring me up to speed|get me up to speed|"
    "bring me up to date|get up to speed|get yourself up to speed|fill me in|brief me|"
    "give me an overview|give me the context|give an overview|"
    "summarize where we are|summarise where we are|where we left off|"
    "summarize our last session|summarise our last session|summarize the last session|"
    "summarise the last session|"
    "where i left off|what you know|what you remember|what i should know|"
    # What is open
    "what is still open|whats still open|what is left to do|whats left to do|"
    "what are the open ends|what is unfinished|whats unfinished|"
    "what are the open tasks|what is still to do|what remains to be done|"
    "what are the open todos|any open tasks|any open todos|are there any open tasks|"
    "any open questions|are there any open questions|what are the open questions|"
    "whats on the agenda|what should i work on|what should we work on|"
    "what should i work on next|what should we work on next|what should i do next|"
    "what should we do next|whats next|what is next|"
    # German
    "was sollte ich über {ort} wissen|was muss ich über {ort} wissen|"
    "was sollte ich wissen|was muss ich wissen|was soll ich wissen|was solltest du wissen|"
    "was weißt du|was weisst du|was weiß du|woran erinnerst du dich|erinnerst du dich|"
    "wo sind wir|wo stehen wir|wo sind wir stehengeblieben|wo sind wir stehen geblieben|"
    "weiter wo wir aufgehört haben|"
    "mach weiter wo wir aufgehört haben|mach da weiter wo wir aufgehört haben|"
    "weitermachen wo wir aufgehört haben|dort weitermachen wo wir aufgehört haben|"
    "da weitermachen wo wir aufgehört haben|machen wir weiter wo wir aufgehört haben|"
    "woran arbeiten wir|was ist noch offen|was ist offen|was bleibt zu tun|was steht noch an|"
    "bring mich auf den stand|bring mich auf den neuesten stand|bring mich auf den aktuellen stand|"
    "gib mir einen überblick|"
    # Spanish
    "qué debería saber|qué debo saber|que debo saber|que debería saber|qué necesito saber|"
    "qué sabes|que sabes|qué recuerdas|que recuerdas|"
    "continúa donde lo dejamos|continua donde lo dejamos|continuar donde lo dejamos|"
    "continuemos donde lo dejamos|sigamos donde lo dejamos|sigue donde lo dejamos|"
    "retomemos donde lo dejamos|qué queda por hacer|"
    "que queda por hacer|qué queda pendiente|qué está pendiente|ponme al día|ponme al dia|"
    # French
    "que dois je savoir|que devrais je savoir|quest ce que je dois savoir|"
    "quest ce que je devrais savoir|que sais tu|que savez vous|quest ce que tu sais|"
    "de quoi te souviens tu|où en est on|on en est où|où en sommes nous|"
    "où nous sommes nous arrêtés|où sest on arrêté|"
    "reprends où on sest arrêté|reprends là où on sest arrêté|reprenons où on sest arrêté|"
    "reprenons là où nous nous étions arrêtés|reprenons là où on sest arrêté|"
    "reprenons là où nous nous sommes arrêtés|"
    "reprendre là où on sest arrêté|continue là où on sest arrêté|continuons où on sest arrêté|"
    "continuons là où on sest arrêté|que reste t il à faire|quest ce quil reste à faire|"
    "mets moi à jour|fais le point|"
    # Italian, Portuguese, Dutch
    "cosa dovrei sapere|cosa devo sapere|cosa sai|cosa ricordi|"
    "continua da dove eravamo rimasti|riprendiamo da dove eravamo rimasti|"
    "cosa resta da fare|aggiornami|"
    "o que devo saber|o que eu devo saber|o que preciso saber|o que você sabe|o que sabes|"
    "o que você lembra|continue de onde paramos|continua de onde paramos|"
    "vamos continuar de onde paramos|o que falta fazer|"
    "wat moet ik weten|wat weet je|wat herinner je je|ga verder waar we gebleven waren|"
    # Russian, Turkish, Japanese, Chinese, Korean
    "что мне нужно знать|что я должен знать|что ты знаешь|что ты знаешь обо мне|"  # noqa: RUF001
    "что ты помнишь|на чём мы остановились|на чем мы остановились|где мы остановились|"
    "над чем мы работали|продолжим с того места где остановились|"  # noqa: RUF001
    "ne bilmem gerekiyor|ne bilmeliyim|nerede kalmıştık|nerede kaldık|"  # noqa: RUF001
    "kaldığımız yerden devam et|kaldığımız yerden devam edelim|"  # noqa: RUF001
    "知っておくべきことは|何を知っておくべきですか|どこまでやりましたか|どこまでやったっけ|"
    "前回の続きから始めましょう|前回の続き|前回の続きをお願いします|続きから始めましょう|私について何を知っていますか|"
    "我应该知道什么|我需要知道什么|你知道什么|你记得什么|我们上次说到哪里了|我们上次做到哪里了|"
    "我们说到哪了|继续上次的工作|继续我们上次的工作|从上次的地方继续|你对我了解多少|你知道我什么|"
    "내가 알아야 할 것은|무엇을 알아야 하나요|어디까지 했지|어디까지 했죠|"
    "지난번에 이어서 계속해줘|나에 대해 뭘 알아"
)


def is_opening(query: str) -> bool:
    """Tell whether a question asks for the overview, and for nothing in particular.

    >>> is_opening("Hi! What should I know about this repo?"), is_opening("Where were we")
    (True, True)
    >>> is_opening("what should I know about OAuth tokens"), is_opening("")
    (False, False)
    """
    questions = _phrases()[0]
    return _asks_only(_words(query), questions) or bool(time_asked(query))


def time_asked(query: str, now: int | None = None) -> str:
    """Return the time that an opening question about the past names; empty if there is none.

    A day or a month without a year is the latest one up to ``now``.

    >>> time_asked("What did we do yesterday?"), time_asked("was haben wir letzte Woche gemacht")
    ('yesterday', 'last week')
    >>> time_asked("What happened on 2026-03-01?"), time_asked("What should I do today?")
    ('2026-03-01', '')
    >>> time_asked("what did we do on March 1st, 2026"), time_asked("recap of March 2026")
    ('2026-03-01', '2026-03')
    """
    words = _words(query)
    past = _past()
    # Whatever no question about the past has must be part of the time.
    told = [place for place, word in enumerate(words) if word not in _words_around_times()]
    first, last = (told[0], told[-1]) if told else (len(words), -1)
    for length in range(_LONGEST_TIME, max(0, last - first), -1):
        for start in range(max(0, last + 1 - length), min(first, len(words) - length) + 1):
            time = _time_of(words[start : start + length], now)
            if time and _asks_only(words[:start] + words[start + length :], past):
                return time
    return ""


def at_its_time(
    where: Filter | Where | None, query: str, now: int | None = None
) -> Filter | Where | None:
    """Return the filter for an opening question: if it names a time, for what happened then.

    A filter that has a time of its own stays as it is.
    """
    span = _span_of(time_asked(query, now), now)
    fields = given_fields(where) if span else {}
    if span is None or not fields.keys().isdisjoint(("since", "until")):
        return where
    since, until = map(show_time, span)
    return {**fields, "since": since, "until": until}


def _words(query: str) -> tuple[str, ...]:
    if len(query) > LONGEST_OPENING:
        return ()
    return tuple(_NO_WORDS.sub(" ", query.translate(_APOSTROPHES).lower()).split())


def _asks_only(words: tuple[str, ...], questions: Phrases) -> bool:
    """Tell whether words are one of the questions, with what may stand before and behind it."""
    _, before, behind = _phrases()
    starts, ends = {0}, {len(words)}
    for start in range(len(words)):
        if start in starts:
            starts.update(end for end in range(len(words)) if words[start:end] in before)
    for end in range(len(words), 0, -1):
        if end in ends:
            ends.update(start for start in range(end) if words[start:end] in behind)
    return any(words[start:end] in questions for start in starts for end in ends)


def _span_of(time: str, now: int | None) -> tuple[int, int] | None:
    """Return the first moment of a time, as `time_asked` names it, and that of the next one."""
    if len(time) != len("2026-03"):
        return span_of(time, now)
    year, month = map(int, time.split("-"))
    following = f"{year + month // 12:04}-{month % 12 + 1:02}-01"
    first, after = span_of(f"{time}-01"), span_of(following)
    return (first[0], after[0]) if first and after else None


def _time_of(words: tuple[str, ...], now: int | None) -> str:
    """Return the time that a phrase is: as `span_of` takes it, or a month."""
    if phrase := _times().get(words):
        return phrase
    if words[0] in _BEFORE_MONTHS:
        return _month_of(words[1:], now)
    while words and words[0] in _BEFORE_DATES:
        words = words[1:]
    if len(words) == 3 and [len(word) for word in words] == [4, 2, 2]:
        date = "-".join(words)
        return date if date.replace("-", "").isdecimal() and date.isascii() else ""
    if not any(map(str.isdecimal, "".join(words))):
        return _times().get(words, "")  # "on the last monday"
    if ago := _DAYS_AGO.fullmatch(" ".join(words)):
        return _days_before(int(ago[1]), now)
    return _date_of(words, now)


def _date_of(words: tuple[str, ...], now: int | None) -> str:
    """Return the day or the month that words are, and nothing else: ``nov 10th``."""
    from plait.text.dates import dates_in

    dates = dates_in(" ".join(words))
    if len(dates) != 1 or dates[0].words != words:
        return ""
    numbers = dates[0].phrases[0]
    if not all(map(str.isdecimal, numbers)):
        return ""
    if len(numbers[0]) == len("2026"):
        return "-".join(numbers)
    return _latest("-".join(numbers), now)


def _month_of(words: tuple[str, ...], now: int | None) -> str:
    """Return the month that words are, with a year or without."""
    from plait.text.dates import month_of

    if len(words) == 1:
        month = month_of(words[0])
        return _latest(f"{month:02}", now) if month else ""
    time = _date_of(words, now) if words else ""
    return time if len(time) == len("2026-03") else ""


def _latest(time: str, now: int | None) -> str:
    """Return a month or a day of any year with the year in which it was the last time."""
    today = _days_before(0, now)
    year = int(today[:4])
    return f"{year if time <= today[5 : 5 + len(time)] else year - 1:04}-{time}"


def _days_before(days: int, now: int | None) -> str:
    from datetime import datetime, timedelta

    moment = clock.time() if now is None else now / 1000
    today = datetime.fromtimestamp(moment)  # noqa: DTZ006 - local, as people mean it
    return str((today - timedelta(days=days)).date())


@cache
def _phrases() -> tuple[Phrases, Phrases, Phrases]:
    """Return the questions, and what may stand before and behind one, each as its words."""
    return _split(f"{_QUESTIONS}|{_PAST}"), _split(_BEFORE), _split(_BEHIND)


@cache
def _past() -> Phrases:
    """Return the questions that may name a time."""
    return _split(f"{_PAST}|{_ONLY_WITH_TIME}")


@cache
def _words_around_times() -> frozenset[str]:
    _, before, behind = _phrases()
    return frozenset(word for phrase in (*_past(), *before, *behind) for word in phrase)


@cache
def _times() -> dict[tuple[str, ...], str]:
    """Return what each phrase of a time means."""
    return {phrase: time for time, phrases in _TIMES.items() for phrase in _split(phrases)}


def _split(phrases: str) -> Phrases:
    """Return phrases as words, each with every place that its slot may stand for."""
    texts = []
    for phrase in phrases.split("|"):
        slot = next((name for name in _PLACES if name in phrase), None)
        places = _PLACES[slot].split("|") if slot else [""]
        texts += [phrase.replace(slot, place) if slot else phrase for place in places]
    return frozenset(tuple(text.split()) for text in texts)
