"""Stderr goes into logs: no message repeats a secret out of a stored text."""

TEXT = "The password of the staging server is password={secret} today"


def test_no_message_repeats_a_stored_secret(plait, work):
    secret, other = "Hunter-4711-xyzzy", "Hunter-4712-xyzzy"
    text = TEXT.format(secret=secret)
    (work / "notes").mkdir()
    (work / "notes" / "a.md").write_text(text, encoding="utf-8")
    (work / "bad.jsonl").write_text(f'{{"text": "{text}"', encoding="utf-8")
    agent = ("--origin", "agent")
    commands: list[tuple[str, ...]] = [
        ("store", text),
        ("store", text),
        ("store", TEXT.format(secret=other)),
        ("store", text, *agent),
        ("store", text, *agent, "--allow-secret"),
        ("store", text, "--doc-id", "k"),
        ("entity", "add", "Ana", text),
        ("entity", "observe", "Ana", text),
        ("entity", "observe", "Ana", text, *agent),
        ("entity", "observe", "Ana", text, *agent, "--allow-secret"),
        ("entity", "observe", "Ana", "--delete-observation", text),
        ("entity", "observe", "Ana", "--delete-observation", text),
        ("ingest", "notes"),
        ("import", "bad.jsonl"),
        ("search", "staging password"),
        ("recall", "staging password"),
        ("overview",),
        ("timeline",),
        ("get", "k"),
        ("doctor",),
        ("delete", "k"),
        ("delete", "--undo"),
        ("delete", "k", "--purge"),
        ("stats",),
    ]
    for command in commands:
        for form in (("--format", "text"), ("--json",)):
            if command[0] in ("search", "recall", "overview", "timeline", "get", "entity", "store"):
                told = plait(*command, *form).err
            else:
                told = plait(*command).err
            for part in ("Hunter", "4711", "4712", "xyzzy"):
                assert part not in told, (command, told)
