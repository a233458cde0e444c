"""Which prompts need no memory: "yes", "fix it", pasted traces. Rules on texts only.

A memory has something near to any word, and "run it again" has words that many notes have. So a
prompt is asked with only if it has words of its own: neither grammar, nor talk between a person and
an agent, nor names for the work that is on the screen anyway.
"""

import re
from functools import cache

from plait.text import is_unspaced
from plait.text.english import empty_words
from plait.types.queries import QUESTION_MARKS

# How prompts of Claude Code begin that nobody typed: reports of tasks, messages of other agents.
MESSAGES_OF_AGENTS = (
    *("<task-notification>", "<teammate-message", "<agent-message", "<cross-session-message"),
)
# Behind these words Codex's app puts what was typed; before them, what is open and attached.
REQUESTS = ("## My request for Codex:", "## My request:")
# How a block opens that a program put before it, or that was pasted.
OPENING_TAG = re.compile(r"<([A-Za-z][\w-]{0,60}+)[^<>]{0,200}+>")
_MOST_BLOCKS = 10
# Characters. A question is short; what is longer was pasted, and search reads 64 words of it.
MOST_ASKED = 4_000
# Words. "What changed?" is about the last answer.
SHORT_QUESTION = 3
LONGEST_ORDER = 9
# Words of its own that an order must have: one, as in "swap them", is about what is on the screen.
ORDERS_NEED = 2
WORK_WEIGHT = 0.5  # of a word such as "version" beside one of its own
LONG_UNSPACED = 4  # characters
SHORT_UNSPACED = 6

_WORD = re.compile(r"\w+")
_OPTION = re.compile(r"--?[A-Za-z][\w=-]*+|&&|\|")
# What a sentence has in no word: a path, a pattern, a variable.
_ARGUMENT = re.compile(r"[./~*$=\\]")
# What stands around a word of a sentence.
_MARKS = ".,;:!?()[]\"'`"
# Lines that a program wrote.
_PRINTED = re.compile(
    r"""\s++at\ [\w.$<>/\[\]\ ]{1,200}+\( | \s*+(?:
        Traceback\ \(most\ recent | File\ "[^"\n]{0,500}+",\ line\ \d | Caused\ by:
        | (?:Uncaught\ )?(?:[\w$]{1,80}+\.){0,20}+\w{0,80}(?:Error|Exception|Warning)(?::|$)
        | Exception\ in\ thread | thread\ '[^'\n]{0,80}+'\ panicked | (?:ba|z|fi)?sh:\ \S
        | \[(?:ERROR|WARN|INFO)\] | test\ result: | \w{1,20}+:\ \(\d++\)
        | (?:error|warning|note|fatal|panic)[:\[]
        | (?:ERROR|FATAL|PANIC|WARN|WARNING|INFO|FAILED|PASSED)[\ :\[] | LINE\ \d++:
        | error\ Command\ failed | undefined\ reference\ to\ | \d++\ (?:failing|passing|pending)$
        | [\w.+-]{1,40}:\ [^\n]{0,500}?\bexit\ (?:status|code)\ \d | \$\ \S | \w++\ run\ v\d
        | npm\ ERR! | CONFLICT\ \( | Automatic\ merge\ failed | Segmentation\ fault
        | E\ \ \  | -->\  | ={3} | (?:\d++\ ++)?\|(?:\s|$) | \^[\^~]*+ | goroutine\ \d
        | exit\ status\ \d | make(?:\[\d++\])?:\ \*\*\*
        | [\w+-]{1,40}+:\ (?:[Ee]rror|fatal|warning|command\ not\ found)[:\ ]
        | \d{4}-\d\d-\d\d[T\ ]\d\d:\d\d | \[\d\d?+:\d\d | [{\[]"
        | (?:[\w-]{0,80}+[/.\\]){1,40}+[\w-]{0,80}+(?:\(\d++,\d++\)|:\d++)
    )""",
    re.X,
)
# What an agent is to do with what it finds: no passage has these words because of the prompt.
_SUMMING_UP = re.compile(
    r"""(?:please\s+)?+(?:summari[sz]e|recap|sum\s+up)\s++(?!what\b)
    (?P<talk>(?:(?:the|our|their|your)\s+)?+(?:whole\s+)?+
    (?:discussions?|conversations?|meetings?|talks?)\s+(?:about|on|of|with)\s++)?+(?=\w)""",
    re.X | re.I,
)
# That is what the agent has before it anyway, unless more is said of it.
_HERE = re.compile(r"\s?\b(?:so\s+far|above|(?:un)?till?\s+now|up\s+to\s+now)\b", re.I)
_WHAT_IS_HERE = """
    discussion discussions conversation conversations meeting meetings talk talks chat thread
    session dialogue findings finding progress conclusion conclusions decision decisions situation
    status state bullet bullets paragraph paragraphs
"""
# A command of the agent. The path of a file has a second slash.
_COMMAND = re.compile(r"[/!][a-z][\w:-]*+(?![/\w])")

_TALK = """
    yep nope ahead thank great perfect nice cool go going keep continue carry next proceed first
    third last other option one two three both neither either all none wait hold stop never mind
    nvm forget hmm really sure mean understand understood explain again more simple simply say tell
    shorter short long summarize sentence lgtm look looks good sounds right exactly correct wrong
    asked ask misunderstood try tried something anything everything nothing else another once same
    rest others like see above below before after said sorry oops hello hi hey there morning evening
    bye better best bit lot way thing things think guess maybe actually ready works worked work
    working help helped don doesn didn won isn aren wasn can couldn ll ve re get got still let lets
    only already yeah yup alright fine awesome amazing pls thx ty left part later tomorrow today
    yesterday tonight soon moment minute second time job small smaller big bigger large larger old
    older new newer safe quite much many bad worse happened happen happens happening went gone over
    hm uh um oh ah wow lol haha well anyway almost enough few each every most least less instead
    want wanted need needs needed like love hate know knew idea question questions answer answers
    reply love honestly probably possible impossible stuff someone somebody everyone come came take
    took give gave given makes making done doing seems seem wonder wondering believe agree agreed
    disagree nevermind nah absolutely definitely certainly totally indeed true false excellent
    brilliant fantastic wonderful bravo congrats welcome cheers kind regards friend buddy mate
    clearer clear detail details example examples step steps point points word words quick quickly
    slow slower slowly careful carefully different similar different easy easier hard harder start
    end ends top pick choose choice choices go-ahead
    ja nein danke weiter mach noch einmal bitte gut genau das nochmal machen warum
    sí si no gracias sigue hazlo vale bien por favor otra vez
    oui non merci vas continuer plaît te il encore bon
    да нет спасибо продолжай хорошо ещё раз
    好的 继续 谢谢 是 不 はい いいえ ありがとう 続けて 네 아니요
"""
_WORK = """
    fix fixed fixes broken break breaks fail fails failing failed failure error errors bug bugs
    issue issues problem problems undo revert reverted put back run running rerun ran test tests
    testing tested check checks double build builds compile commit commits push pushed ship merge
    open pr pull request make made write message add added comment comments remove delete line lines
    rename renamed move top bottom faster simpler simplify clean cleanup up refactor format reformat
    inline extract function functions use using approach loop instead change changes changed file
    files show diff code whole typo typos lint warning warnings type types update updated create
    finish finished start started implement variable variables method methods class classes review
    compact install command commands output outputs print log logs trace stack rebase squash bump
    version versions branch split broke hint hints doc docs read retry tab tabs space spaces killed
    return returns returned argument arguments parameter parameters name names import imports module
    modules folder folders directory script scripts edit edits edited save saved copy paste replace
    replaced rewrite rewrote reuse wrap unwrap sort indent indentation whitespace blank empty null
    none crash crashes crashed hang hangs hung stuck loops condition statement block docstring
    readme todo todos apply applied patch stash amend cherry pick squashed unused dead imports debug
    debugger profile optimize optimise verify validate confirm double-check lines linter formatter
    mypy ruff eslint prettier pytest jest cargo npm yarn pnpm pip make result results value values
    string strings number numbers list lists dict array arrays object objects page pages button
    comma semicolon bracket brackets parenthesis syntax compiler compiled runs passes pass passed
    passing green red flaky skip skipped
"""
_ASKING = ("how", "where", "when", "which", "who", "what", "why", "whose")
# Programs that are run without an option, too. With words behind them that may be a sentence, only
# one: "tail latency budget" is none to be run.
_PROGRAMS = frozenset(
    ("ls", "cd", "cat", "grep", "rm", "cp", "mv", "tail", "chmod", "mkdir", "sudo", "curl")
)


def query_of(prompt: str) -> str:
    r"""Return the part of a prompt to ask the memory with; empty if it needs no memory.

    >>> query_of("fix it"), query_of("yes, do that"), query_of("/compact")
    ('', '', '')
    >>> query_of("why this? We use Postgres.\nTypeError: x is not a function")
    'why this? We use Postgres.'
    >>> query_of("Summarize the discussion about the childcare offer.")
    'the childcare offer.'

    What stands in ``<private>`` is not asked with: the embedder may be a server.
    """
    text = prompt.strip()
    if "<private" in prompt.lower():
        from plait.agents.private import without_private

        text = without_private(prompt).strip()
    if _COMMAND.match(text) or text.startswith(MESSAGES_OF_AGENTS):
        return ""
    typed = _typed_lines(_request(text))
    if _is_to_be_run(typed):
        return ""
    frame, needed = _SUMMING_UP.match(typed), ORDERS_NEED
    nothing = empty_words() | _listed(_TALK)
    if frame:
        # A talk with a subject was another one: there one word names it.
        needed = 1 if frame["talk"] else ORDERS_NEED
        typed, is_here = _HERE.subn("", typed[frame.end() :])
        typed = typed.strip()
        if is_here:
            nothing |= _listed(_WHAT_IS_HERE) | _listed(_WORK)
    words = _WORD.findall(typed.lower())
    telling = {word for word in words if _has_meaning(word)} - nothing
    own = telling - _listed(_WORK)
    if is_question(typed) and "you" not in words:
        return typed if (telling if len(words) > SHORT_QUESTION else own) else ""
    if len(words) > LONGEST_ORDER:
        return typed if telling else ""
    weight = sum(map(_weight, own)) + WORK_WEIGHT * len(telling - own)
    return typed if own and weight >= needed else ""


def _request(text: str) -> str:
    """Return a prompt without what stands in a frame before it."""
    for _ in range(_MOST_BLOCKS):
        tag = OPENING_TAG.match(text)
        _, closed, rest = text.partition(f"</{tag[1]}>") if tag is not None else (text, "", "")
        if not closed:
            break
        text = rest.lstrip()
    for words in REQUESTS:
        text = text.rpartition(words)[2]
    return text.strip()


def is_question(prompt: str) -> bool:
    """Tell whether a prompt asks, by its first word or its last mark.

    >>> is_question("how do we deploy"), is_question("deploy it")
    (True, False)
    """
    first = _WORD.search(prompt.lower())
    return bool(first and first.group() in _ASKING) or prompt.endswith(QUESTION_MARKS)


def is_order(prompt: str) -> bool:
    """Tell whether a prompt may be an order: short, no question, and not begun like a noun.

    >>> is_order("align the columns"), is_order("the clock change problem")
    (True, False)
    """
    words = _WORD.findall(prompt.lower())
    if not words or len(words) > LONGEST_ORDER or is_question(prompt):
        return False
    if is_unspaced(words[0]):
        return len(prompt) <= SHORT_UNSPACED
    from plait.text.function_words import function_words_of

    return words[0] not in empty_words() | function_words_of(words)


def _is_to_be_run(line: str) -> bool:
    """Tell whether a prompt is a command for a shell, not a sentence about one.

    >>> _is_to_be_run("git log --oneline"), _is_to_be_run("why does git log --oneline hang")
    (True, False)
    >>> _is_to_be_run("cp a.txt b.txt"), _is_to_be_run("tail latency budget")
    (True, False)
    """
    program, *arguments = line.split() or [""]
    if not (arguments and program.isascii() and program.islower()):
        return False
    is_shell = any(map(_OPTION.fullmatch, arguments))
    if program in _PROGRAMS:
        is_shell |= len(arguments) == 1 or any(map(_ARGUMENT.search, arguments))
    return is_shell and not _grammar_of(line)


def _weight(word: str) -> int:
    """Return how much a word tells: a name of code, or a sentence without spaces, tells enough."""
    is_name = "_" in word or (any(map(str.isdecimal, word)) and not word.isdecimal())
    if is_name or (len(word) >= LONG_UNSPACED and is_unspaced(word)):
        return ORDERS_NEED
    return 1


@cache
def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _typed_lines(text: str) -> str:
    """Return the lines that a person wrote, without what a program printed."""
    kept: list[str] = []
    printed = False
    for line in text[:MOST_ASKED].split("\n"):
        if _PRINTED.match(line):
            printed = True
        elif not (printed and _goes_on(line)):
            kept.append(line)
    return "\n".join(kept).strip()


def _goes_on(line: str) -> bool:
    """Tell whether a line goes on with what a program printed: people use words of grammar."""
    if line[:1] in (" ", "\t") or len(line.split()) == 1:
        return True
    return line.isascii() and not _grammar_of(line) and not line.rstrip().endswith("?")


def _grammar_of(line: str) -> frozenset[str]:
    """Return the function words that stand alone in a line, not as part of a path or a name.

    >>> sorted(_grammar_of("is it in a.txt?"))
    ['in', 'is', 'it']
    """
    return empty_words().intersection(word.strip(_MARKS) for word in line.lower().split())


def _has_meaning(word: str) -> bool:
    return len(word) > 1 and not (word.isdecimal() and len(word) < 3)
