"""Notices worded for a model, which calls tools and cannot type commands."""

from collections.abc import Collection, Mapping, Sequence

from plait.errors import Notice, PlaitError, StoreDamaged, advise, flattened, quoted
from plait.present.commands import chosen_options, with_command
from plait.present.text import NAMES_SHOWN
from plait.settings.loading import Config

# The next step for a model, by act. The keys are those of `plait.errors.IN_PYTHON`. A step that a
# model cannot take quotes the user's command, so that the model can pass it on.
FOR_MODELS: dict[str, str] = {
    "search": "Search for it with memory_search.",
    "search_not": 'To search for all its words, write "not" in small letters.',
    "give_query": "Give a query.",
    "give_topic": "Give a query.",
    "use_id": "Use an id.",
    "use_id_of_file": "Use an id.",
    "give_text": "Call it again with text.",
    "give_key": "",
    "give_session": "Give the same session for all messages of a conversation.",
    "give_source": "",
    "allow_removal": "Only the user can do that: plait ingest {path:shell} --allow-removal",
    "allow_snapshot_removal": "Only the user can do that: plait export --allow-removal",
    "import_edits": "Only the user can do that: plait import {path:shell}",
    "hydrate": "Only the user can do that: plait import {path:shell}",
    "insist_on_secret": (
        "Store it without the secret and say where the secret is kept. If the user wants the "
        "secret itself stored, call again with allow_secret=true."
    ),
    "purge_secrets": "Only the user can do that: plait delete ID --purge",
    "finish_move": (
        "Only the user can do that: plait migrate --from {source:shell} --to {target:shell}"
    ),
    "stop_writers": "",
    "make_folder": "Only the user can do that: mkdir -p {folder:shell}",
    "key_of_id": "Use its key.",
    "supersede_id": "To replace what it says, use supersedes.",
    "name_scope": "Choose another name.",
    "choose_documents": "Give ids.",
    "store_first": "Store something first, with memory_store.",
    "ingest": "Only the user can do that: plait ingest {path:shell}",
    "reindex": "Only the user can do that: plait reindex",
    "reindex_embeddings": "Only the user can do that: plait reindex --embeddings",
    "reindex_with": "Only the user can do that: plait reindex --embedder {embedder:shell}",
    "salvage": "Only the user can do that: plait doctor --salvage NEW.db",
    "salvage_backup": (
        "Only the user can do that: plait --db {path:shell} doctor --salvage NEW.db"
    ),
    "doctor_fix": "Only the user can do that: plait doctor --fix",
    "give_backup": "",
    "restore": (
        "Only the user can do that: put it back (is its disk mounted?), or plait restore FILE"
    ),
    "set_journal_aside": "Only the user can do that: plait restore",
    "export": "Only the user can do that: plait export",
    "dump": "Only the user can do that: pg_dump, or plait migrate --from {source:shell} --to FILE",
    "restore_dump": "Only the user can do that: pg_restore, or plait import",
    "add_vectors": (
        "Only the user can do that: CREATE EXTENSION vector in the database, then plait reindex"
    ),
    "hide_password": ("Only the user can do that: leave the password to ~/.pgpass or PGPASSWORD."),
    "import_history": "Only the user can do that: plait import {agent:shell} FILE",
    "store_messages": "Only the user can do that: plait store --session NAME --messages FILE",
    "export_other": "Only the user can do that: plait --db {path:shell} export FILE.jsonl",
    "add_member": "Only an owner of the memory can add a member.",
    "change_role": "Only an owner of the memory can change that.",
    "give_project": "Only an owner of the memory can give a project.",
    "create_role": "Only the administrator of the database can create it.",
    "ask_administrator": "Only the administrator of the database can do that.",
    "add_first_member": "Only the user can do that: plait team add NAME",
    "create_entity": "Create it first: call memory_store with entity.",
    "list_entities": "Search for its name with memory_search.",
    "show_facts": "Find them with memory_search and entity.",
    "delete_first": "Delete that one first, if the user agrees: {id}.",
    "delete_document": "To delete all of it, call again with {id}.",
    "in_project": "Find its id with memory_search and all_projects=true.",
    "act_in_project": "Only the user can do that: change another project.",
    "in_scope": "Only the program of that user can reach it.",
    "all_projects": "Call it again with all_projects=true.",
    "store_in_project": "Store it without supersedes.",
    "raise_limit": "Store it in parts.",
    "choose_file": "Only the user can do that: choose another file with --db.",
    "derive_embedder": "",
    "choose_embedder": "Only the user can do that: plait config set embedding_provider NAME",
    "choose": "Choose one of: {choices}.",
    "did_you_mean": "Did you mean '{name}'?",
    "list_settings": "Only the user can do that: plait config show lists the settings.",
    "connect": "Only the user can do that: plait connect {agent:shell}",
    "install": "Only the user can do that: pip install '.[{extra}]' in a clone of plait",
    "install_or_variable": (
        "Only the user can do that: pip install '.[{extra}]' in a clone of plait"
    ),
    "reinstall": "Only the user can do that: pip install --force-reinstall . in a clone of plait",
    "upgrade": "Only the user can do that: git pull && pip install . in a clone of plait",
    "upgrade_package": "Only the user can do that: pip install --upgrade {package}",
    "pull_model": "Only the user can do that: plait models pull {model:shell}",
    "choose_chat_model": "Only the user can do that: plait config set chat_model NAME",
    "retry_later": "Try again later.",
    "pull_ollama_model": "Only the user can do that: ollama pull {model:shell}",
    "start_ollama": "Only the user can do that: ollama serve",
    "log_in": "Only the user can do that: change the address or the password.",
    "ask_for_grant": "Only the user can do that: ask the owner of the tables for that right.",
    "reach_server": "Only the user can do that: start the server, or check the network.",
    "check_options": "Only the user can do that: change the options of the address.",
    "wait_longer": "Try again later.",
    "set_address": "Only the user can do that: set the address that it redirects to.",
    "set_key": "Only the user can do that: plait config set-key {provider}",
    "set_server_key": (
        "Only the user can do that: plait config set-key {provider} --url {url:shell}"
    ),
    "set_keys": "Only the user can do that: plait config set-key PROVIDER",
    "remove_and_set_keys": "Only the user can do that: plait config set-key PROVIDER",
    "restore_or_set_keys": "Only the user can do that: plait config set-key PROVIDER",
    "make_private": "Only the user can do that: chmod 600 {path:shell}",
    "hide_key": "Only the user can do that: chmod 600 {path:shell}",
    "protect_folder": "Only the user can do that: chmod go-w {folder:shell}",
    "open_read_only": "Only the user can do that: plait mcp --read-only",
    "not_superseded": (
        "Only the user can do that: plait mark ID --not-superseded lets a replaced fact hold again."
    ),
    "allow_writing": "The user has made this memory read-only.",
    "write_time": "Write 2026-03-01, 2026-03-01T09:30, 7d or last week.",
    "set_keep_days": "Only the user can do that: plait config set keep_days message=90",
    "unset": "Only the user can do that: plait config unset {setting}",
    "set_provider": "Only the user can do that: set embedding_provider in that file.",
    "trust_project": "Only the user can do that: plait config trust",
}
# The same for a server without the tools of ``core``: with those of mcb, or of the graph alone.
_IN_LAYERS = {
    "search": "Search for it with search_memories.",
    "list_entities": "Search for its name with search_memories.",
    "in_project": "Find its id with search_memories and all_projects=true.",
    "show_facts": "Find them with search_memories.",
    "store_first": "Only the user can do that: plait store TEXT",
    "create_entity": "Only the user can do that: plait entity add NAME",
}
_IN_GRAPH = {
    "search": "Search for it with search_semantic.",
    "list_entities": "read_graph lists the entities.",
    "in_project": "Only the user can do that: plait mcp --project {project:shell}",
    "show_facts": "Read them with open_nodes.",
    "store_first": "Store something first, with create_entities.",
    "create_entity": "Create it first, with create_entities.",
}

_STORING = ("store_first", "create_entity", "list_entities", "show_facts")


def wording_for(tools: Collection[str]) -> Mapping[str, str]:
    """Return the next steps for a model that has only these tools."""
    if "memory_search" in tools:
        return FOR_MODELS
    if "create_entities" not in tools:
        return {**FOR_MODELS, **_IN_LAYERS}
    if "search_memories" not in tools:
        return {**FOR_MODELS, **_IN_GRAPH}
    # Of the two, only the graph can store, and only the layers find what is no entity.
    return {**FOR_MODELS, **_IN_LAYERS, **{act: _IN_GRAPH[act] for act in _STORING}}


# Characters of a message to a model.
MOST_CHARS = 1_000


def worded(
    message: PlaitError | Notice | str,
    config: Config | None = None,
    wording: Mapping[str, str] = FOR_MODELS,
) -> str:
    """Return a message with its advice worded for a model.

    A command for the user acts on the memory of these settings, wherever it is pasted. A plain
    string has no advice and stays as it is.

    >>> from plait.errors import advise
    >>> worded(Notice("Nothing is named 'x'.", advice=advise("search")))
    "Nothing is named 'x'. Search for it with memory_search."
    """
    if isinstance(message, PlaitError):
        message = message.notice
    options = {} if config is None else chosen_options(config)
    sentence = with_command(message, wording, options) if isinstance(message, Notice) else message
    # It is outside of the fence. Names in it are quoted where they come from the memory's file;
    # nothing in it may look like another line of the reply, or be a page of its own.
    flat = flattened(sentence)
    return flat if len(flat) <= MOST_CHARS else f"{flat[: MOST_CHARS - 1]}…"


def damaged_remark(ids: Sequence[str], config: Config) -> str:
    """Say which documents are missing in an answer because they cannot be read, if any are."""
    if not ids:
        return ""
    names = ", ".join(map(quoted, ids[:NAMES_SHOWN])) + (", …" if len(ids) > NAMES_SHOWN else "")
    text = f"Left out, because damaged: {names}."
    return worded(Notice(text, StoreDamaged.code, advice=advise("doctor_fix")), config)
