"""The table of verbs: data only."""

from plait.types.records import NamedTuple


class Verb(NamedTuple):
    """A command.

    ``module`` is the module of `plait.cli` with its ``VERB_options`` and ``VERB_run``; then what
    follows the verb on the command line, what it does, and an example.
    """

    module: str
    arguments: str
    summary: str
    example: str


VERBS: dict[str, Verb] = {
    "store": Verb(
        "store", "TEXT | - | --file PATH", "store a text", 'plait store "Deploy on Fridays"'
    ),
    "ingest": Verb("ingest", "[PATH …]", "index files and folders", "plait ingest ~/notes"),
    "search": Verb(
        "search",
        "WORDS …",
        "find passages by keyword and by meaning",
        "plait search rotate ssh keys",
    ),
    "recall": Verb(
        "recall",
        "[WORDS …]",
        "pack the best passages into one text for a prompt; without a query, the overview",
        'plait recall "ssh keys" --budget 800',
    ),
    "overview": Verb(
        "recall",
        "",
        "show what to know at the beginning of a session, one line each",
        "plait overview --budget 600",
    ),
    "get": Verb(
        "get", "NAME …", "print documents, passages or sessions", "plait get 3f9c2a7b TOOLS.md"
    ),
    "open": Verb(
        "editor", "NAME", "open the file of a hit at its line in $EDITOR", "plait open 3f9c2a7b"
    ),
    "timeline": Verb(
        "timeline", "", "list documents by date, newest first", "plait timeline --since 7d"
    ),
    "about": Verb(
        "work",
        "PATH",
        "which agents' sessions changed, read or mentioned a file, and why",
        "plait about src/cart.py",
    ),
    "how": Verb(
        "work", "COMMAND …", "the command that worked here, with its flags", "plait how pytest"
    ),
    "fixed": Verb(
        "work",
        "ERROR …",
        "what was run and edited after an error that did not come back",
        "plait fixed \"KeyError: 'total'\"",
    ),
    "entity": Verb(
        "entity",
        "show | list | add | observe | relate | unrelate | delete [NAME …]",
        "show and edit entities, their observations and relations",
        'plait entity add Deploy "Fridays only" --type process',
    ),
    "delete": Verb(
        "delete", "[NAME …]", "delete documents; undo within 30 days", "plait delete TOOLS.md"
    ),
    "mark": Verb(
        "mark",
        "NAME …",
        "set the status of documents, end them in favour of another, or move facts",
        "plait mark TODO.md --status done",
    ),
    "feedback": Verb(
        "mark",
        "ID good|wrong|none",
        "say that a hit was good or wrong, which counts in ranking",
        "plait feedback 3f9c2a7b good",
    ),
    "review": Verb(
        "review",
        "",
        "find repeats, contradictions, secrets and what is out of date; settle each with one key",
        "plait review --kind duplicate,contradiction",
    ),
    "prune": Verb(
        "prune",
        "",
        "delete what your rules do not keep, archive what is unused; lists it first",
        "plait prune --keep-days message=90",
    ),
    "maintain": Verb(
        "maintain",
        "[PATH …]",
        "do what is due: changed files, your retention rules, missing vectors; for a schedule",
        "plait maintain ~/notes",
    ),
    "reindex": Verb(
        "reindex",
        "",
        "rebuild the indexes and compute missing vectors",
        "plait reindex --embeddings",
    ),
    "stats": Verb("stats", "", "show what is in the memory", "plait stats --json"),
    "doctor": Verb("doctor", "", "check and repair the memory", "plait doctor --fix"),
    "backup": Verb("backup", "FILE", "copy the memory while it is in use", "plait backup copy.db"),
    "restore": Verb(
        "backup",
        "[FILE | --undo]",
        "replace the memory by a backup; keep the present one aside",
        "plait restore copy.db",
    ),
    "migrate": Verb(
        "migrate",
        "--to PLACE",
        "move the memory into a PostgreSQL database, or back; goes on where it was stopped",
        "plait migrate --to 'postgresql://db.example/team?namespace=shop'",
    ),
    "export": Verb(
        "export",
        "[FILE | --format markdown FOLDER]",
        "export documents as JSON lines, or as a folder of Markdown files",
        "plait export all.jsonl",
    ),
    "import": Verb(
        "export",
        "FILE | FOLDER | - | AGENT [FILE]",
        "import an export, another system's database or the sessions of agents",
        "plait import auto",
    ),
    "watch": Verb(
        "ingest",
        "[PATH …]",
        "index files when they change (needs, in a clone of plait: pip install '.[watch]')",
        "plait watch ~/notes",
    ),
    "mcp": Verb(
        "mcp",
        "[--http]",
        "serve agents over the Model Context Protocol",
        "plait mcp --tools core,graph",
    ),
    "chat": Verb(
        "chat",
        "[QUESTION …]",
        "talk to a model that searches the memory "
        "(needs, in a clone of plait: pip install '.[chat]')",
        'plait chat "what do you know about me?" --model ollama:llama3.2',
    ),
    "digest": Verb(
        "chat",
        "SESSION",
        "let a chat model propose facts from a conversation; you accept each one",
        "plait digest s1 --model ollama:llama3.2",
    ),
    "tools": Verb(
        "tools",
        "--format anthropic | openai | openai-responses | ollama | mcp",
        "print the definitions of the tools for any model, as its API takes them",
        "plait tools --format anthropic",
    ),
    "connect": Verb(
        "connect",
        "[AGENT]",
        "put plait into an agent's settings: its tools, hooks and a skill",
        "plait connect claude-code",
    ),
    "disconnect": Verb(
        "connect",
        "AGENT",
        "take plait out of an agent's settings",
        "plait disconnect claude-code",
    ),
    "hook": Verb(
        "hook",
        "AGENT EVENT | --try PROMPT",
        "answer a hook of an agent; --try shows what it would answer",
        'plait hook --try "when do we deploy?"',
    ),
    "log": Verb(
        "log",
        "",
        "list who changed what, what hooks did and what agents were shown",
        "plait log --door mcp --since 7d",
    ),
    "mute": Verb(
        "log",
        "[ID …]",
        "never show these to agents by hooks; without ids, list what is muted",
        "plait mute 3f9c2a7b",
    ),
    "unmute": Verb("log", "ID …", "let hooks show these again", "plait unmute 3f9c2a7b"),
    "eval": Verb(
        "eval",
        "FOLDER … | --make N",
        "measure search quality on questions with known answers",
        "plait eval --make 50",
    ),
    "models": Verb(
        "models", "[list | pull MODEL]", "list embedders, or download a model", "plait models"
    ),
    "postgres": Verb(
        "postgres",
        "list|drop|distribute [ADDRESS]",
        "the memories of a PostgreSQL database: list or drop them, or spread them over servers",
        "plait postgres list postgresql://db.example/team",
    ),
    "team": Verb(
        "team",
        "list | add NAME | role NAME ROLE | remove NAME",
        "say who the members of a memory in PostgreSQL are, and what they may do",
        "plait team add ana --role writer",
    ),
    "config": Verb(
        "config",
        "[show | get NAME | set NAME VALUE | unset NAME | path | trust | untrust | "
        "set-key PROVIDER | remove-key PROVIDER | keys]",
        "show and change settings and API keys",
        "plait config show --origin",
    ),
    "completion": Verb(
        "completion",
        "bash | zsh | fish",
        "print a script for tab completion",
        'eval "$(plait completion bash)"',
    ),
}

# Names of our verbs in other programs. They are not aliases, because one act has one name; an error
# names the verb to use instead.
OTHER_VERBS = {
    "add": "store",
    "agents": "connect",
    "archive": "mark",
    "ask": "search",
    "audit": "log",
    "blame": "about",
    "cat": "get",
    "check": "doctor",
    "clear": "delete",
    "consolidate": "maintain",
    "count": "stats",
    "create": "store",
    "dedupe": "review",
    "dump": "export",
    "edit": "open",
    "entities": "entity list",
    "erase": "delete --purge",
    "expire": "prune",
    "find": "search",
    "fix": "fixed",
    "forget": "delete",
    "fsck": "doctor",
    "graph": "entity list",
    "grep": "search",
    "history": "timeline",
    "index": "ingest",
    "info": "stats",
    "install": "connect",
    "list": "timeline",
    "load": "import",
    "ls": "timeline",
    "members": "team list",
    "move": "migrate",
    "new": "store",
    "note": "store",
    "purge": "delete --purge",
    "query": "search",
    "read": "get",
    "recover": "delete --undo",
    "relate": "entity relate",
    "remember": "store",
    "remove": "delete",
    "repair": "doctor --fix",
    "rm": "delete",
    "save": "store",
    "serve": "mcp",
    "server": "mcp",
    "sessions": "timeline",
    "settings": "config",
    "setup": "connect",
    "show": "get",
    "snapshot": "export --format markdown",
    "status": "stats",
    "summary": "overview",
    "sync": "ingest",
    "tidy": "maintain",
    "undelete": "delete --undo",
    "undo": "delete --undo",
    "uninstall": "disconnect",
    "update": "store",
    "vacuum": "reindex --compact",
    "verify": "doctor",
    "wipe": "delete",
}
