"""The advice of errors as commands for a shell, and the command for the next page."""

from collections.abc import Iterable, Sequence

from plait.errors import Notice, shell_word
from plait.facts.names import PERSONAL

# Options that are not named like their parameter.
_OPTION_OF = {"budget_tokens": "--budget"}
# Same keys as `errors.IN_PYTHON`; tests/interfaces/test_wording.py compares them.
SHELL: dict[str, str] = {
    "search": "Search for it: plait search WORDS",
    "search_not": 'To search for all its words, write "not" in small letters.',
    "give_query": "Give words to search for; for the newest documents: plait search '*'",
    "give_topic": "Give words to search for; without any, run: plait overview",
    "use_id": "Use an id.",
    "use_id_of_file": "Use an id: {files}.",
    "give_text": 'For example: plait store "a fact"',
    "give_key": "For example: --doc-id TOOLS",
    "give_session": "For example: --session s1",
    "insist_on_secret": "Leave it out, or add: --allow-secret",
    "purge_secrets": "To remove one for good: plait delete ID --purge",
    "give_source": "Name one, for example: plait ingest ~/notes",
    "allow_removal": "To remove what is missing, run: plait ingest {path:shell} --allow-removal",
    "allow_snapshot_removal": (
        "To remove them, run: plait export --format markdown {path:shell} --allow-removal"
    ),
    "import_edits": "Import them first: plait import {path:shell} (or export with --overwrite)",
    "hydrate": "To fill the memory from it: plait import {path:shell}",
    "make_folder": "Make it first: mkdir -p {folder:shell}",
    "key_of_id": "Use its key: --key {key:shell}",
    "supersede_id": "To replace what it says: --supersedes {name:shell}",
    "name_scope": "Choose another name.",
    "choose_documents": "Use ids or keys, or filters such as --path and --tag.",
    "finish_move": (
        "Finish it: plait migrate --from {source:shell} --to {target:shell} (or remove it: "
        "plait migrate --to {target:shell} --drop)"
    ),
    "stop_writers": "Stop what writes to it, and run the same command again.",
    "store_first": "Start with: plait ingest FOLDER",
    "ingest": "Index it with: plait ingest {path:shell}",
    "reindex": "Run: plait reindex",
    "reindex_embeddings": "Run: plait reindex --embeddings",
    "reindex_with": "Run: plait reindex --embedder {embedder:shell}",
    "salvage": "Copy what can still be read: plait doctor --salvage NEW.db",
    "salvage_backup": (
        "Copy what can still be read of it: plait --db {path:shell} doctor --salvage NEW.db"
    ),
    "doctor_fix": "Run: plait doctor --fix",
    "give_backup": "For example: plait restore backup.db",
    "restore": "Put it back (is its disk mounted?), or restore a backup: plait restore FILE",
    "set_journal_aside": (
        "To use the file without it, run: plait restore "
        "(it renames the journal and deletes nothing)"
    ),
    "export": "Export it instead: plait export",
    "dump": "Copy the database with pg_dump, or this memory into a file: "
    "plait migrate --from {source:shell} --to FILE",
    "restore_dump": "Use pg_restore, or import what plait export wrote: plait import FILE",
    "add_vectors": "Have it added there (CREATE EXTENSION vector), then run: plait reindex",
    "hide_password": "Leave the password to ~/.pgpass or PGPASSWORD, or keep the address in "
    "plait's own settings: plait config set db_path ADDRESS",
    "import_history": "Import it as such: plait import {agent:shell} FILE",
    "store_messages": "Add it to a session: plait store --session NAME --messages FILE",
    "export_other": "Or export it first: plait --db {path:shell} export FILE.jsonl",
    "add_member": "An owner can run: plait team add {member:shell}",
    "change_role": "An owner can run: plait team role {member:shell} writer",
    "give_project": "An owner can run: plait team add {member:shell} --project {project:shell}",
    "create_role": "Create it first, in SQL: CREATE ROLE {member:sql} LOGIN PASSWORD 'PASSWORD';",
    "ask_administrator": (
        "Let whoever administers the database run: plait team add {member:shell}"
    ),
    "add_first_member": "Add one: plait team add NAME",
    "create_entity": "Create it with: plait entity add {name:shell}",
    "list_entities": "See: plait entity list",
    "show_facts": "Run: plait entity show {name:shell}",
    "delete_first": "Delete that one first: plait delete {id}",
    "delete_document": "To delete all of it: plait delete {id}",
    "in_project": "Add: --project {project:shell}",
    "act_in_project": "To do it there, add: --project {project:shell}",
    "in_scope": "Only a program opens it: memory.scope({scope!r}) in Python.",
    "all_projects": "Add: --all-projects",
    "store_in_project": "Store it there: --project {project:shell}",
    "raise_limit": "Raise the limit with: plait config set max_file_mb 50",
    "choose_file": "Choose another file with --db PATH.",
    "derive_embedder": "",
    "choose_embedder": "If it is yours, name it: plait config set embedding_provider NAME",
    "choose": "Choose one of: {choices}.",
    "did_you_mean": "Did you mean '{name}'?",
    "list_settings": "See: plait config show",
    "connect": "Run: plait connect {agent:shell}",
    "install": "Run in a clone of plait: pip install '.[{extra}]'",
    "install_or_variable": (
        "Run in a clone of plait: pip install '.[{extra}]' (or set the variable {variable})"
    ),
    "reinstall": "Run in a clone of plait: pip install --force-reinstall .",
    "upgrade": "Run in a clone of plait: git pull && pip install .",
    "upgrade_package": "Run: pip install --upgrade {package}",
    "pull_model": "Run: plait models pull {model:shell}",
    "choose_chat_model": (
        "Name one: --model ollama:llama3.2 (or set it: plait config set chat_model ollama:llama3.2)"
    ),
    "retry_later": "Try again later.",
    "pull_ollama_model": "Run: ollama pull {model:shell}",
    "start_ollama": "Start it with: ollama serve",
    "log_in": "Check the user's name in the address, and the password in ~/.pgpass or PGPASSWORD.",
    "ask_for_grant": "Ask the owner of the tables for the right to do so.",
    "reach_server": "Check that it runs and that the network reaches it.",
    "check_options": "Check the options of the address, such as sslmode, and the files they name.",
    "wait_longer": "To wait longer, add: --timeout SECONDS",
    "set_address": "Set the address that it redirects to.",
    "set_key": "Run: plait config set-key {provider}",
    "set_server_key": "Run: plait config set-key {provider} --url {url:shell}",
    "set_keys": "Run: plait config set-key PROVIDER",
    "remove_and_set_keys": "Remove it and set your keys again: plait config set-key PROVIDER",
    "restore_or_set_keys": "Restore it, or set your keys again: plait config set-key PROVIDER",
    "make_private": "Run: chmod 600 {path:shell}",
    "hide_key": (
        "Run: chmod 600 {path:shell} (or keep the key elsewhere: plait config set-key PROVIDER)"
    ),
    "protect_folder": "Run: chmod go-w {folder:shell}",
    "write_time": "Write 2026-03-01, 2026-03-01T09:30, 7d or 'last week'.",
    "set_keep_days": "For example: plait config set keep_days message=90,observation=365",
    "open_read_only": "To read it, add: --read-only",
    "not_superseded": "To let a fact that was replaced hold again: plait mark ID --not-superseded",
    "allow_writing": "Leave out --read-only, or run: plait config set read_only off",
    "unset": "Remove it first: plait config unset {setting}",
    "set_provider": "Set embedding_provider in that file.",
    "trust_project": "To see and accept them: plait config trust",
}


def as_typed(notice: Notice, words: Sequence[str]) -> Notice:
    """Return a notice about a parameter with the name of its option, if that was typed.

    >>> as_typed(Notice("as_of is 'x', which is not a time.", subject="as_of"), ["--as-of"]).text
    "--as-of is 'x', which is not a time."
    """
    name = notice.subject
    flag = _OPTION_OF.get(name, f"--{name.replace('_', '-')}")
    typed = {word.partition("=")[0] for word in words}
    if not name or flag not in typed or not notice.text.startswith(f"{name} is "):
        return notice
    return notice._replace(text=flag + notice.text[len(name) :])


def next_page(words: Sequence[str], cursor: str) -> str:
    """Return a command line as it was typed, but from a cursor on.

    >>> next_page(["timeline", "--cursor", "old", "--path", "my notes"], "new")
    "plait timeline --path 'my notes' --cursor new"
    """
    kept = []
    left = iter(words)
    for word in left:
        name, equals, _ = word.partition("=")
        if name != "--cursor":
            kept.append(word)
        elif not equals:
            next(left, None)
    return f"{typed_again(kept)} --cursor {shell_word(cursor, 'TEXT')}"


def in_all_projects(words: Sequence[str]) -> str:
    """Return a command line as it was typed, but for what is found in every project.

    >>> in_all_projects(["ingest", "my notes", "--include=pdf"])
    "plait --project personal ingest 'my notes' --include=pdf"
    """
    return typed_again(["--project", PERSONAL, *words])


def typed_again(words: Iterable[str]) -> str:
    """Return words of a command line as a command for a shell, without the passwords in them.

    >>> typed_again(["--db", "postgresql://ana:geheim@db/team", "timeline"])
    'plait --db postgresql://ana@db/team timeline'
    """
    return " ".join(["plait", *map(_typed_word, words)])


def _typed_word(word: str) -> str:
    """Return a word of a command line as a shell takes it."""
    if "://" in word:
        from plait.settings.databases import without_passwords

        word = without_passwords(word)
    if not word.startswith("-"):
        return shell_word(word, "VALUE")
    name, equals, value = word.partition("=")
    return f"{name}={shell_word(value, 'VALUE')}" if equals else name
