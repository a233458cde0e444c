"""What a line for a shell runs: its program, less what only prepares or wraps it. Pure."""

from collections.abc import Iterator

# Characters that are looked at; a command may hold a whole script.
_MOST_CHARS = 600
_SEPARATORS = frozenset({"&&", "||", ";", "|", "&"})
# Programs that only prepare the one that is meant.
_PREPARE = frozenset(
    (
        *("cd", "pushd", "popd", "export", "set", "source", ".", "echo", "mkdir", "sleep", "true"),
        *("unset", "alias", "ulimit", "if", "for", "while"),
    )
)
# Programs and words before the one that is meant.
_WRAP = frozenset(
    (
        *("sudo", "time", "nohup", "exec", "env", "command", "npx", "bunx", "uvx", "nice"),
        *("xargs", "then", "do", "!"),
    )
)
# Programs that run another one by a word of theirs.
_RUNNERS = {"uv": "run", "poetry": "run", "pipenv": "run", "pnpm": "exec", "bundle": "exec"}
_PYTHONS = ("python", "py")
# Options with which a shell runs the words that follow.
_SHELLS, _OF_SHELLS = ("bash", "sh", "zsh"), ("-c", "-lc", "-ic")
# First arguments that only say what kind of thing the next one is.
_GROUPS = frozenset(
    (
        *("run", "run-script", "exec", "compose", "pip", "pr", "issue", "repo", "workflow"),
        *("stash", "worktree", "remote", "submodule", "s3", "db", "migrate"),
    )
)
_LONGEST_NAME = 40


def program_of(command: str) -> str | None:
    r"""Return the name of the program that a command is about.

    >>> program_of("cd src && FOO=1 uv run pytest -q | tail"), program_of("bin/python -m mypy")
    ('pytest', 'mypy')
    >>> program_of("timeout -s KILL 300 make test"), program_of("cd /srv"), program_of("  ")
    ('make', 'cd', None)
    >>> program_of("# all of it\n(cd src;make)"), program_of("bash -lc 'npm test'")
    ('make', 'npm')
    """
    first = None
    for words in _parts(command[:_MOST_CHARS]):
        name = _program(words)
        first = first or name
        if name is not None and name not in _PREPARE:
            return name
    return first


def _parts(command: str) -> Iterator[list[str]]:
    """Yield the words of each simple command; comments and brackets around it are none."""
    words: list[str] = []
    for line in command.replace("\\\n", " ").splitlines():
        if line.lstrip().startswith("#"):
            continue
        for word in line.replace("&&", " && ").replace(";", " ; ").split():
            if word in _SEPARATORS:
                yield words
                words = []
            elif word.strip("()"):
                words.append(word.lstrip("(") if not words else word)
        yield words
        words = []


def _program(words: list[str]) -> str | None:
    place = 0
    while place < len(words):
        name = _name(words[place])
        following = words[place + 1] if place + 1 < len(words) else ""
        if _is_assignment(words[place]) or name in _WRAP or (place and name.startswith("-")):
            place += 1
        elif name == "timeout":
            place = _after_duration(words, place + 1)
        elif place + 2 < len(words) and _runs_another(name, following):
            place += 2
        else:
            return name if 0 < len(name) <= _LONGEST_NAME else None
    return None


def _name(word: str) -> str:
    """Return the name of a program without its folder, its quotes and what Windows adds."""
    name = word.replace("\\", "/").rpartition("/")[2].strip("\"'`)")
    return name.removesuffix(".exe")


def _runs_another(name: str, following: str) -> bool:
    """Tell whether a program only runs the one after the word that follows it."""
    by_option = name in _SHELLS and following in _OF_SHELLS
    by_module = name.startswith(_PYTHONS) and following == "-m"
    return by_option or by_module or _RUNNERS.get(name) == following


def _after_duration(words: list[str], place: int) -> int:
    """Return the place behind the options and the time of ``timeout``."""
    while place < len(words) and not words[place][:1].isdigit():
        place += 1
    return place + 1


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def words_of(command: str) -> set[str]:
    """Return the words of a command without their quotes.

    >>> sorted(words_of("git commit -m 'fix'"))
    ['-m', 'commit', 'fix', 'git']
    """
    return {word.strip("\"'`;()") for word in command[:_MOST_CHARS].split()} - {""}


def is_alike(one: str, other: str) -> bool:
    """Tell whether two commands run the same thing: one program, with the same first argument.

    Behind a word such as "run", the next argument counts.

    An argument that only narrows the run, such as a path, may be missing in one of them.

    >>> is_alike("uv run pytest -q", "pytest tests/a.py"), is_alike("git push", "git status")
    (True, False)
    >>> is_alike("npm run test", "npm run build"), is_alike("npm run test", "npm run test -- a")
    (False, True)
    """
    program = program_of(one)
    if program is None or program != program_of(other):
        return False
    mine, theirs = _argument(one, program), _argument(other, program)
    if mine == theirs:
        return True
    given = mine or theirs
    return not (mine and theirs) and ("/" in given or "." in given)


def _argument(command: str, program: str) -> str:
    """Return the first argument of a program that is not an option; empty if there is none."""
    for words in _parts(command[:_MOST_CHARS]):
        names = [_name(word) for word in words]
        if program in names:
            rest = words[names.index(program) + 1 :]
            plain = [word for word in rest if not word.startswith(("-", ">", "2>", "<"))]
            count = 2 if plain and plain[0] in _GROUPS else 1
            return " ".join(word.strip("\"'`)") for word in plain[:count])
    return ""
