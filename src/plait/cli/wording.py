"""The advice of errors, as shell commands."""

from plait.errors import Advice, is_plain_name

# Values that stand bare in these commands.
BARE = ("embedder", "folder", "model", "package", "path", "project", "provider", "setting", "url")
# Same keys as `errors.IN_PYTHON`; tests/interfaces/test_wording.py compares them.
SHELL: dict[str, str] = {
    "search": "Search for it: plait search WORDS",
    "give_query": 'Give a query, for example: plait search "ssh keys"',
    "give_text": 'For example: plait store "a fact"',
    "give_key": "For example: --doc-id TOOLS",
    "insist_on_secret": "Leave it out, or add: --allow-secret",
    "purge_secrets": "To remove one for good: plait delete ID --purge",
    "give_source": "Name one, for example: plait ingest ~/notes",
    "allow_removal": "To remove them, run: plait ingest {path} --allow-removal",
    "choose_documents": "Use ids or keys, or filters such as --path and --tag.",
    "store_first": "Start with: plait store TEXT",
    "ingest": "Index it with: plait ingest {path}",
    "reindex": "Run: plait reindex",
    "reindex_embeddings": "Run: plait reindex --embeddings",
    "reindex_with": "Run: plait reindex --embedder {embedder}",
    "salvage": "Copy what can still be read: plait doctor --salvage NEW.db",
    "doctor_fix": "Run: plait doctor --fix",
    "give_backup": "For example: plait restore backup.db",
    "restore": "Restore a backup: plait restore FILE",
    "set_journal_aside": (
        "To use the file without it, run: plait restore "
        "(it renames the journal and deletes nothing)"
    ),
    "export": "Save what is still readable: plait export",
    "create_entity": "Create it with: plait entity add '{name}'",
    "list_entities": "See: plait entity list",
    "in_project": "Add: --project {project}",
    "act_in_project": "To do it there, add: --project {project}",
    "all_projects": "Add: --all-projects",
    "store_in_project": "Store it there: --project {project}",
    "raise_limit": "Raise the limit with: plait config set max_file_mb 50",
    "choose_file": "Choose another file with --db PATH.",
    "derive_embedder": "",
    "choose_embedder": "If it is yours, name it: plait config set embedding_provider NAME",
    "choose": "Choose one of: {choices}.",
    "did_you_mean": "Did you mean '{name}'?",
    "install": "Run: pip install 'plait[{extra}]'",
    "install_or_variable": "Run: pip install 'plait[{extra}]' (or set the variable {variable})",
    "reinstall": "Run: pip install --force-reinstall plait",
    "upgrade": "Run: pip install --upgrade plait",
    "upgrade_package": "Run: pip install --upgrade {package}",
    "pull_model": "Run: plait models pull {model}",
    "pull_ollama_model": "Run: ollama pull {model}",
    "start_ollama": "Start it with: ollama serve",
    "set_address": "Set the address that it redirects to.",
    "set_key": "Run: plait config set-key {provider}",
    "set_server_key": "Run: plait config set-key {provider} --url {url}",
    "set_keys": "Run: plait config set-key PROVIDER",
    "remove_and_set_keys": "Remove it and set your keys again: plait config set-key PROVIDER",
    "restore_or_set_keys": "Restore it, or set your keys again: plait config set-key PROVIDER",
    "make_private": "Run: chmod 600 {path}",
    "hide_key": (
        "Run: chmod 600 {path} (or keep the key elsewhere: plait config set-key PROVIDER)"
    ),
    "protect_folder": "Run: chmod go-w {folder}",
    "unset": "Remove it first: plait config unset {setting}",
    "set_provider": "Set embedding_provider in that file.",
    "trust_project": "To see and accept them: plait config trust",
}


def _is_safe(value: str) -> bool:
    """Tell whether a shell takes a value as one word: a plain name, or one in quotes."""
    return is_plain_name(value) or (
        len(value) > 1 and value[0] == value[-1] == "'" and "'" not in value[1:-1]
    )


def shell_quoted(advice: Advice | None) -> Advice | None:
    """Quote values for the shell: a name out of a file may hold a space, or another command.

    >>> from plait.errors import advise
    >>> shell_quoted(advise("in_project", project="acme; rm -r ~"))
    Advice(act='in_project', values=(('project', "'acme; rm -r ~'"),))
    """
    if advice is None or all(_is_safe(value) for _, value in advice.values):
        return advice
    from shlex import quote

    values = (
        (name, quote(value) if name in BARE and not _is_safe(value) else value)
        for name, value in advice.values
    )
    return advice._replace(values=tuple(values))
