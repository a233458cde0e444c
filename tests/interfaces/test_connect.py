"""connect and disconnect: every agent, real files in a home folder, a real handshake."""

import contextlib
import json
import os
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plait.agents.connecting import handshake
from plait.agents.connecting.files import BACKUP_ENDING, MAX_BACKUPS, back_up, read_records
from plait.agents.connecting.handshake import Proof, launch_of, prove
from plait.agents.connecting.places import AGENTS, Hooks, Launch, Machine, OwnFile, ServerEntry
from plait.agents.connecting.planning import FileChange
from plait.agents.hooks.answering import TOOL_MOMENTS
from plait.agents.hooks.forms import HOOK_EVENTS, event_named
from plait.cli import connect
from plait.errors import PlaitError
from plait.settings.private import cannot
from tests.codes import has_code
from tests.interfaces.command import PATIENCE_S, Ran, environment, spawn

Plait = Callable[..., Ran]
IN_PROJECTS = [name for name in AGENTS if name not in ("openclaw", "hermes")]
# Agents whose hooks are handlers in a JSON file.


@pytest.fixture
def proved(monkeypatch: pytest.MonkeyPatch) -> list[Launch]:
    """Take the command for proved: a server starts once, in the tests of the handshake."""
    launches: list[Launch] = []

    def accept(launch: Launch, *_: Any) -> Proof:
        launches.append(launch)
        return Proof("1", 6)

    monkeypatch.setattr(connect, "prove", accept)
    return launches


@pytest.fixture
def project(work: Path) -> Path:
    (work / ".git").mkdir()
    return work


def files_in(*folders: Path) -> dict[Path, bytes]:
    """The files of folders, without backups and plait's own settings."""
    return {
        path: path.read_bytes()
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file() and BACKUP_ENDING not in path.name and path.parent.name != "plait"
    }


def folders_in(*folders: Path) -> set[Path]:
    """The folders in folders, without those of plait's own settings."""
    kept = ("plait", ".config", ".git")
    inside = {path for folder in folders for path in folder.rglob("*") if path.is_dir()}
    return {path for path in inside if path.name not in kept}


# -- every agent ---------------------------------------------------------------------------


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("scope", ["user", "project"])
def test_an_agent_is_connected_and_disconnected_without_a_trace(
    plait, proved, home, project, agent, scope
):
    if scope == "project" and agent not in IN_PROJECTS:
        ran = plait("connect", agent, "--scope", scope)
        assert (ran.code, files_in(home, project)) == (2, {})
        assert "has no settings of a project" in ran.err
        return
    machine = Machine(str(home), str(project), {})
    pieces = AGENTS[agent].pieces(machine, scope)
    folders = folders_in(home, project)
    ran = plait("connect", agent, "--scope", scope)
    assert ran.code == 0
    assert {row["path"] for row in ran.json["files"]} == {piece.path for piece in pieces}
    assert {row["change"] for row in ran.json["files"]} == {"created"}
    for piece in pieces:
        mode = stat.S_IMODE(Path(piece.path).stat().st_mode)
        assert scope == "project" or mode == 0o600, piece.path
    again = plait("connect", agent, "--scope", scope)
    assert (again.code, again.json["files"], again.json["backups"]) == (0, [], [])
    ran = plait("disconnect", agent, "--scope", scope)
    assert {row["change"] for row in ran.json["files"]} == {"removed"}
    assert files_in(home, project) == {}
    assert folders_in(home, project) == folders
    assert plait("disconnect", agent, "--scope", scope).code == 3


@pytest.mark.parametrize("own", ["folder", "file", "file in a new one"])
def test_a_disconnect_leaves_folders_that_are_somebody_elses(plait, proved, home, own):
    """Those that were there before, though they are empty, and those in which there is more."""
    skills = home / ".claude" / "skills"
    if own == "folder":
        skills.mkdir(parents=True)
    plait("connect", "claude-code")
    if own == "file":
        (skills / "mine.md").write_bytes(b"mine")
    if own == "file in a new one":
        (skills / "mine").mkdir()
        (skills / "mine" / "SKILL.md").write_bytes(b"mine")
    before = {path: data for path, data in files_in(home).items() if data == b"mine"}
    plait("disconnect", "claude-code")
    assert files_in(home) == before
    assert skills.is_dir()
    assert not (skills / "plait").exists()
    assert not read_records(str(home / ".config" / "plait"))


def test_a_connect_that_fails_leaves_no_folder(plait, proved, home, monkeypatch):
    from plait.agents.connecting import files

    honest = files._write_aside

    def refuse(target: str, data: bytes) -> str:
        aside = honest(target, data)
        if target.endswith("SKILL.md"):
            Path(aside).unlink()
            raise cannot("write", target, PermissionError(13, "no"))
        return aside

    folders = folders_in(home)
    monkeypatch.setattr(files, "_write_aside", refuse)
    assert plait("connect", "claude-code").code != 0
    assert (files_in(home), folders_in(home)) == ({}, folders)


def entry_of(agent: str, home: Path) -> Any:
    """What an agent has under plait's name, read by a parser that is not ours."""
    [piece] = [
        piece
        for piece in AGENTS[agent].pieces(Machine(str(home), "/p", {}), "user")
        if isinstance(piece, ServerEntry)
    ]
    text = Path(piece.path).read_text(encoding="utf-8")
    if piece.form == "yaml":
        return json.loads(text.partition("plait: ")[2])
    values = tomllib.loads(text) if piece.form == "toml" else json.loads(text)
    for key in piece.keys:
        values = values[key]
    return values


SCRIPT = launch_of().program


@pytest.mark.parametrize(
    ("agent", "entry"),
    [
        ("claude-code", {"type": "stdio", "command": SCRIPT, "args": ["mcp"]}),
        ("codex", {"command": SCRIPT, "args": ["mcp"]}),
        ("cursor", {"command": SCRIPT, "args": ["mcp"]}),
        ("gemini", {"command": SCRIPT, "args": ["mcp"]}),
        ("vscode", {"type": "stdio", "command": SCRIPT, "args": ["mcp"]}),
        ("opencode", {"type": "local", "command": [SCRIPT, "mcp"], "enabled": True}),
        ("zed", {"source": "custom", "command": SCRIPT, "args": ["mcp"], "env": {}}),
        ("copilot", {"type": "stdio", "command": SCRIPT, "args": ["mcp"], "tools": ["*"]}),
        ("openclaw", {"command": SCRIPT, "args": ["mcp"]}),
        ("hermes", {"command": SCRIPT, "args": ["mcp"]}),
    ],
)
def test_the_entry_has_the_form_of_its_agent(plait, proved, home, agent, entry):
    plait("connect", agent)
    assert entry_of(agent, home) == entry


def hooks_of(home: Path, *parts: str) -> Any:
    return json.loads(home.joinpath(*parts).read_text(encoding="utf-8"))["hooks"]


def test_what_was_done_before_is_the_next_step(plait, proved):
    assert "plait import auto" in plait("connect", "codex", "--format", "text").err
    assert "plait import auto" not in plait("connect", "codex", "--format", "text").err


def test_claude_code_gets_the_hooks_that_it_knows(plait, proved, home):
    plait("connect", "claude-code")
    hooks = hooks_of(home, ".claude", "settings.json")
    assert list(hooks) == [
        *("SessionStart", "UserPromptSubmit", "PreCompact", "Stop", "SessionEnd"),
        *("PreToolUse", "PostToolUseFailure"),
    ]
    assert hooks["SessionStart"][0]["matcher"] == "startup|resume|clear|compact|fork"
    # A hook that runs beside the session is killed if the session ends first.
    assert not any("async" in group["hooks"][0] for [group] in hooks.values())
    assert hooks["SessionEnd"][0]["hooks"][0]["timeout"] == 3
    for event, [group] in hooks.items():
        [handler] = group["hooks"]
        assert handler["command"] == f"{SCRIPT} hook claude-code {event}"
    plait("connect", "claude-code", "--no-work")
    assert list(hooks_of(home, ".claude", "settings.json")) == list(hooks)[:5]
    plait("connect", "claude-code")
    assert hooks_of(home, ".claude", "settings.json") == hooks
    plait("connect", "claude-code", "--no-hooks")
    assert not (home / ".claude" / "settings.json").exists()
    assert entry_of("claude-code", home)


def test_the_other_agents_get_hooks_in_their_own_words(plait, proved, home):
    for agent in ("codex", "cursor", "gemini", "copilot"):
        plait("connect", agent)
    codex = hooks_of(home, ".codex", "hooks.json")
    assert list(codex) == [
        *("SessionStart", "UserPromptSubmit", "PreCompact", "Stop", "SessionEnd", "PreToolUse"),
    ]
    assert codex["PreToolUse"][0]["matcher"] == "Bash|apply_patch"
    assert all("hooks" in group for [group] in codex.values())  # a flat handler is never run
    gemini = hooks_of(home, ".gemini", "settings.json")
    assert list(gemini) == [
        "SessionStart",
        "BeforeAgent",
        "PreCompress",
        "AfterAgent",
        "SessionEnd",
        "AfterTool",
    ]
    assert gemini["AfterTool"][0]["matcher"] == "run_shell_command"
    assert gemini["BeforeAgent"][0]["hooks"][0]["timeout"] == 10_000  # milliseconds
    cursor = hooks_of(home, ".cursor", "hooks.json")
    assert cursor["sessionStart"] == [{"command": f"{SCRIPT} hook cursor sessionStart"}]
    assert json.loads((home / ".cursor/hooks.json").read_text(encoding="utf-8"))["version"] == 1
    copilot = hooks_of(home, ".copilot", "hooks", "plait.json")
    assert copilot["agentStop"][0]["bash"] == f"{SCRIPT} hook copilot agentStop"
    assert "userPromptSubmitted" not in copilot and "beforeSubmitPrompt" not in cursor


@pytest.mark.parametrize("work", [True, False])
def test_every_hook_that_is_written_is_one_that_is_answered(work):
    launch = Launch(("plait",), windows=False)
    machine = Machine("/h", "/p", {})
    for name, agent in AGENTS.items():
        words: list[str] = []
        for piece in agent.pieces(machine, "user"):
            if isinstance(piece, Hooks):
                words += piece.groups(launch, work)
            elif name == "copilot" and isinstance(piece, OwnFile) and piece.part == "hooks":
                words += json.loads(piece.content(launch, work))["hooks"]
        for word in words:
            event = event_named(name, word)
            assert event is not None and event.word == word
            # A text that is dropped is not worth the time.
            assert event.moment == "save" or event.form is not None
            assert work or event.moment not in TOOL_MOMENTS
        around = {event.word for event in HOOK_EVENTS.get(name, ()) if event.moment in TOOL_MOMENTS}
        if work and name not in ("vscode", "opencode"):  # a plugin, and no hooks of its own
            assert around <= set(words)


def test_a_command_with_spaces_is_quoted_and_windows_has_its_own_form():
    launch = Launch(("/my tools/plait", "--project", "it's"), windows=False)
    line = launch.hook("codex", "Stop")
    ran = subprocess.run(
        ["sh", "-c", f"printf '%s|' {line}"], capture_output=True, encoding="utf-8", check=True
    )
    assert ran.stdout == "/my tools/plait|--project|it's|hook|codex|Stop|"
    windows = Launch(("C:\\My Tools\\plait.exe",), windows=True)
    machine = Machine("C:\\u", "C:\\p", {}, "win32")
    assert windows.hook("codex", "Stop") == '"C:/My Tools/plait.exe" hook codex Stop'
    [codex] = [
        piece for piece in AGENTS["codex"].pieces(machine, "user") if isinstance(piece, Hooks)
    ]
    handler = codex.groups(windows, False)["Stop"]["hooks"][0]
    assert handler["commandWindows"] == handler["command"]
    [copilot] = [
        piece
        for piece in AGENTS["copilot"].pieces(machine, "user")
        if isinstance(piece, OwnFile) and piece.part == "hooks"
    ]
    [stop] = json.loads(copilot.content(windows, False))["hooks"]["agentStop"]
    assert stop["powershell"] == '& "C:/My Tools/plait.exe" hook copilot agentStop'
    assert "bash" not in stop


def test_variables_of_an_agent_move_its_files(plait, proved, home, tmp_path, monkeypatch):
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "OPENCLAW_STATE_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    for agent in ("claude-code", "codex", "copilot", "openclaw"):
        plait("connect", agent)
    assert (tmp_path / "CLAUDE_CONFIG_DIR" / ".claude.json").exists()
    assert (tmp_path / "CODEX_HOME" / "config.toml").exists()
    assert (tmp_path / "COPILOT_HOME" / "mcp-config.json").exists()
    assert (tmp_path / "OPENCLAW_STATE_DIR" / "openclaw.json").exists()
    assert [path.name for path in files_in(home)] == []


def test_an_empty_variable_moves_nothing(plait, proved, home, monkeypatch):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "")
    plait("connect", "claude-code")
    assert (home / ".claude.json").exists()
    assert not (home / ".claude" / ".claude.json").exists()


def test_typed_options_that_choose_the_memory_are_part_of_the_command(plait, proved, home, work):
    plait("--db", "mine.db", "connect", "codex", "--project", "atlas")
    words = ["--db", str(work / "mine.db"), "--project", "atlas"]
    assert entry_of("codex", home)["args"] == [*words, "mcp"]
    assert proved[0].words == (SCRIPT, *words)
    [group] = hooks_of(home, ".codex", "hooks.json")["Stop"]
    assert group["hooks"][0]["command"].endswith(" --project atlas hook codex Stop")
    plait("connect", "codex")  # without them: the plain command again
    assert entry_of("codex", home)["args"] == ["mcp"]


def test_a_variable_that_chooses_the_memory_is_part_of_the_command(
    plait, proved, home, work, monkeypatch
):
    """An agent may be started where it is not set."""
    monkeypatch.setenv("PLAIT_DB", "mine.db")
    plait("connect", "codex")
    assert entry_of("codex", home)["args"] == ["--db", str(work / "mine.db"), "mcp"]
    plait("--db", "other.db", "connect", "codex")
    assert entry_of("codex", home)["args"] == ["--db", str(work / "other.db"), "mcp"]
    monkeypatch.setenv("PLAIT_DB", "~/mine.db")
    plait("connect", "codex")
    assert entry_of("codex", home)["args"] == ["--db", str(home / "mine.db"), "mcp"]


@pytest.mark.parametrize("start", ["postgresql", " POSTGRESQL", "Postgres"])
def test_a_password_in_a_variable_is_written_nowhere(plait, proved, home, monkeypatch, start):
    monkeypatch.setenv("PLAIT_DB", f"{start}://ana:geheim@db.example/team")
    ran = plait("connect", "codex")
    assert ran.code == 2
    assert "geheim" not in ran.out + ran.err
    assert not files_in(home)
    plait("disconnect", "codex")
    assert files_in(home) == {}


# -- what others have there ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [("[]", "(it is no object)"), ('{"mcpServers": null}', "('mcpServers' is no object)")],
)
def test_what_is_no_object_is_named(plait, proved, home, content, words):
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(content, encoding="utf-8")
    assert words in plait("connect", "cursor").err


def test_a_byte_order_mark_before_the_settings_of_codex_stays(plait, proved, home):
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_bytes(b'\xef\xbb\xbfmodel = "x"\r\n')
    assert plait("connect", "codex").code == 0
    assert b"[mcp_servers.plait]" in path.read_bytes()
    plait("disconnect", "codex")
    assert path.read_bytes() == b'\xef\xbb\xbfmodel = "x"\r\n'


def test_what_the_user_has_in_a_file_stays_and_what_he_adds_later_too(plait, proved, home):
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    text = (
        '{\n  // mine\n  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]},\n}'
    )
    path.write_text(text, encoding="utf-8")
    plait("connect", "claude-code")
    added = path.read_text(encoding="utf-8").replace("// mine", '"theme": "dark", // mine')
    path.write_text(added, encoding="utf-8")
    plait("disconnect", "claude-code")
    after = path.read_text(encoding="utf-8")
    assert after == text.replace("// mine", '"theme": "dark", // mine')


def test_a_handler_that_the_user_put_beside_ours_stays(plait, proved, home):
    plait("connect", "claude-code")
    path = home / ".claude" / "settings.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "say done"})
    path.write_text(json.dumps(settings), encoding="utf-8")
    assert plait("connect", "claude-code").json["files"] == []
    plait("disconnect", "claude-code")
    left = json.loads(path.read_text(encoding="utf-8"))["hooks"]
    assert left == {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}


def test_what_the_user_changed_in_our_entry_stays_when_it_is_renewed(plait, proved, home):
    old = {"command": "/gone/plait", "args": ["mcp", "--tools", "core,graph"], "env": {"A": "b"}}
    (home / ".cursor").mkdir()
    path = home / ".cursor" / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"plait": old}}), encoding="utf-8")
    plait("connect", "cursor")
    assert entry_of("cursor", home) == {
        "command": SCRIPT,
        "args": ["mcp", "--tools", "core,graph"],
        "env": {"A": "b"},
    }


def test_an_upgrade_renews_entry_hooks_and_skill_in_their_places(plait, proved, home, monkeypatch):
    monkeypatch.setattr(connect, "launch_of", lambda words: Launch(("/old/plait", *words)))
    for agent in AGENTS:
        plait("connect", agent)
    skill = home / ".claude" / "skills" / "plait" / "SKILL.md"
    skill.write_text(skill.read_text(encoding="utf-8") + "\nold\n", encoding="utf-8")
    monkeypatch.undo()
    monkeypatch.setattr(connect, "prove", lambda *_: Proof("1", 6))
    monkeypatch.setenv("HOME", str(home))
    for agent in AGENTS:
        assert plait("connect", agent).json["files"], agent
        assert plait("connect", agent).json["files"] == [], agent
    assert b"/old/plait" not in b"".join(files_in(home).values())
    assert not skill.read_text(encoding="utf-8").endswith("old\n")
    for agent in AGENTS:
        plait("disconnect", agent)
    assert files_in(home) == {}


FOREIGN = {"mcpServers": {"plait": {"url": "http://127.0.0.1:8765/mcp"}}}


@pytest.mark.parametrize(
    ("agent", "path", "content", "code"),
    [
        ("claude-code", ".claude.json", b"{nope", "cannot_edit"),
        ("claude-code", ".claude.json", b"\xff{}", "cannot_edit"),
        ("claude-code", ".claude.json", b"[]", "cannot_edit"),
        ("claude-code", ".claude.json", json.dumps(FOREIGN).encode(), "foreign_entry"),
        ("claude-code", ".claude/settings.json", b'{"hooks": []}', "cannot_edit"),
        ("claude-code", ".claude/settings.json", b'{"hooks": {"Stop": {}}}', "cannot_edit"),
        ("claude-code", ".claude/skills/plait/SKILL.md", b"my own", "foreign_file"),
        ("codex", ".codex/config.toml", b"a = ", "cannot_edit"),
        ("codex", ".codex/config.toml", b"mcp_servers = {}", "cannot_edit"),
        ("codex", ".codex/hooks.json", b"null", "cannot_edit"),
        ("gemini", ".gemini/settings.json", b'{"mcpServers": 1}', "cannot_edit"),
        ("hermes", ".hermes/config.yaml", b"mcp_servers: [a]\n", "cannot_edit"),
        ("openclaw", ".openclaw/openclaw.json", b"{mcp: {servers: }}", "cannot_edit"),
        ("copilot", ".copilot/hooks/plait.json", b"{}", "foreign_file"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_refused_and_nothing_is_written(
    plait, proved, home, agent, path, content, code
):
    target = home / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    before = {file: file.read_bytes() for file in home.rglob("*") if file.is_file()}
    ran = plait("connect", agent)
    assert (ran.code, ran.out, proved) == (2, "", [])
    assert ran.err.count("\n") == 1 and str(target) in ran.err
    assert "othing was changed" in ran.err
    after = {file: file.read_bytes() for file in home.rglob("*") if file.is_file()}
    assert {file: data for file, data in after.items() if file.name != "connect.lock"} == before


def test_copilots_hooks_are_known_however_they_are_written_and_others_stay(plait, proved, home):
    plait("connect", "copilot")
    path = home / ".copilot" / "hooks" / "plait.json"
    hooks = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(hooks), encoding="utf-8")  # as a formatter might
    assert plait("connect", "copilot").code == 0
    hooks["hooks"]["agentStop"].append({"type": "command", "bash": "say done"})
    mixed = json.dumps(hooks)
    path.write_text(mixed, encoding="utf-8")
    for verb in ("connect", "disconnect"):
        ran = plait(verb, "copilot")
        assert ran.code == 2 and str(path) in ran.err and "othing was changed" in ran.err
        assert path.read_text(encoding="utf-8") == mixed
    del hooks["hooks"]["agentStop"][1]
    path.write_text("\ufeff" + json.dumps(hooks, indent=4).replace("\n", "\r\n"), encoding="utf-8")
    plait("disconnect", "copilot")
    assert files_in(home) == {}


def test_what_is_no_file_is_refused(plait, proved, home):
    (home / ".claude.json").mkdir()
    ran = plait("connect", "claude-code")
    assert ran.code == 2 and "no file of settings" in ran.err


def test_what_a_killed_connect_left_beside_a_file_goes_with_the_next(plait, proved, home):
    settings = home / ".claude.json"
    settings.write_text('{"key": "k"}', encoding="utf-8")
    left = [home / f".{settings.name}{end}.plait-x1y2z3w4" for end in ("", BACKUP_ENDING)]
    for file in left:
        file.write_text('{"key": "k"}', encoding="utf-8")
    folder = home / f".{settings.name}.plait-folder"
    folder.mkdir()
    assert plait("connect", "claude-code").code == 0
    assert not any(file.exists() for file in left)
    assert folder.is_dir() and Path(f"{settings}{BACKUP_ENDING}").exists()


def test_the_skill_that_several_agents_share_stays_until_the_last_has_gone(plait, proved, home):
    skill = home / ".agents" / "skills" / "plait" / "SKILL.md"
    for agent in ("codex", "gemini", "cursor"):
        plait("connect", agent)
    plait("disconnect", "codex")
    plait("disconnect", "cursor")
    assert skill.exists()
    plait("disconnect", "gemini")
    assert not skill.exists() and files_in(home) == {}


def test_two_agents_that_share_an_entry_are_disconnected_one_after_the_other(
    plait, proved, project
):
    for agent in ("claude-code", "copilot"):
        assert plait("connect", agent, "--scope", "project").code == 0
    plait("disconnect", "claude-code", "--scope", "project")
    assert "plait" in (project / ".mcp.json").read_text(encoding="utf-8")
    plait("disconnect", "copilot", "--scope", "project")
    assert files_in(project) == {}


def test_a_shared_entry_is_of_the_agent_that_was_connected(plait, proved, home, project):
    plait("connect", "claude-code", "--scope", "project")
    rows = {row["agent"]: row["connected"] for row in plait("connect").json["agents"]}
    assert (rows["claude-code"], rows["copilot"]) == (["project"], [])
    assert set(agent_findings(plait)) == {"agent claude-code (project)"}
    assert plait("connect", "copilot", "--scope", "project").json["files"]
    rows = {row["agent"]: row["connected"] for row in plait("connect").json["agents"]}
    assert rows["claude-code"] == rows["copilot"] == ["project"]


# What may come with a clone: an entry that starts plait with another's memory.
PLANTED = {
    "claude-code": (
        ".mcp.json",
        '{"mcpServers": {"plait": {"command": "plait", "args": ["mcp", "--db", "evil.db"],'
        ' "env": {"PLAIT_DB": "evil.db"}, "cwd": "evil"}}, "mine": 1}',
    ),
    "codex": (
        ".codex/config.toml",
        'mine = 1\n\n[mcp_servers.plait]\ncommand = "plait"\nargs = ["mcp", "--db", "evil.db"]\n'
        '\n[mcp_servers.plait.env]\nPLAIT_DB = "evil.db"\n',
    ),
    "opencode": (
        "opencode.json",
        '{"mcp": {"plait": {"type": "local", "command": ["plait", "--config", "evil.toml", "mcp"],'
        ' "environment": {"PLAIT_DB": "evil.db"}}}, "mine": 1}',
    ),
}


@pytest.mark.parametrize("agent", PLANTED)
def test_nothing_of_an_entry_in_a_clone_is_adopted(plait, proved, home, project, agent):
    name, text = PLANTED[agent]
    path = project / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    plait("connect", agent, "--scope", "project")
    after = path.read_text(encoding="utf-8")
    assert "evil" not in after and "mine" in after and SCRIPT in after
    assert plait("connect", agent, "--scope", "project").json["files"] == []
    plait("disconnect", agent, "--scope", "project")
    assert "plait" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("agent", PLANTED)
def test_doctor_warns_of_an_entry_in_a_clone_that_chooses_the_memory(
    plait, proved, home, project, agent, monkeypatch
):
    monkeypatch.setenv("PATH", str(Path(SCRIPT).parent))
    name, text = PLANTED[agent]
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_text(text, encoding="utf-8")
    level, message = agent_findings(plait)[f"agent {agent} (project)"]
    assert level == "warning" and "chooses the memory" in message and "env" in message
    assert "--config" in message if agent == "opencode" else "--db" in message


# -- writing -------------------------------------------------------------------------------


def test_a_link_stays_a_link_and_a_file_keeps_its_mode(plait, proved, home, tmp_path):
    real = tmp_path / "dotfiles" / "config.toml"
    real.parent.mkdir()
    real.write_text("model = 'x'\n", encoding="utf-8")
    real.chmod(0o640)
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").symlink_to(real)
    plait("connect", "codex")
    assert (home / ".codex" / "config.toml").is_symlink()
    assert "[mcp_servers.plait]" in real.read_text(encoding="utf-8")
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    plait("disconnect", "codex")
    assert real.read_text(encoding="utf-8") == "model = 'x'\n"


def test_a_link_out_of_a_project_is_not_followed(plait, proved, home, project):
    outside = home / "victim.json"
    outside.write_text("{}", encoding="utf-8")
    (project / ".mcp.json").symlink_to(outside)
    ran = plait("connect", "claude-code", "--scope", "project")
    assert ran.code == 2 and "leads out of the project" in ran.err
    assert outside.read_text(encoding="utf-8") == "{}"
    (project / ".mcp.json").unlink()
    (project / ".claude").symlink_to(home)
    assert plait("connect", "claude-code", "--scope", "project").code == 2
    assert not (home / "settings.local.json").exists()


def test_a_backup_is_private_and_there_are_never_more_than_a_few(plait, proved, home):
    path = home / ".claude.json"
    path.write_text('{"a": 1}', encoding="utf-8")
    path.chmod(0o644)
    backup = plait("connect", "claude-code").json["backups"]
    assert backup == [f"{path}{BACKUP_ENDING}"]
    assert Path(backup[0]).read_text(encoding="utf-8") == '{"a": 1}'
    assert stat.S_IMODE(Path(backup[0]).stat().st_mode) == 0o600
    for number in range(6):
        back_up(str(path), str(number).encode())
    kept = sorted(home.glob(f".claude.json{BACKUP_ENDING}*"))
    assert [file.read_bytes() for file in kept] == [b"5", b"4", b"3"]
    assert len(kept) == MAX_BACKUPS


def test_a_folder_that_cannot_be_written_is_named_and_no_file_is_changed(
    plait, proved, home, monkeypatch
):
    from plait.agents.connecting import files

    (home / ".claude.json").write_text("{}", encoding="utf-8")
    write = files.replace_settings
    written: list[str] = []

    def fail(path: str, *data: Any, **more: Any) -> None:
        if path.endswith("settings.json"):
            raise cannot("write", path, OSError(28, "No space left on device"))
        written.append(path)
        write(path, *data, **more)

    monkeypatch.setattr(files, "replace_settings", fail)
    ran = plait("connect", "claude-code")
    assert ran.code == 2 and "No space left" in ran.err and len(written) >= 2
    assert files_in(home) == {home / ".claude.json": b"{}"}


@pytest.mark.parametrize("verb", ["connect", "disconnect"])
@pytest.mark.parametrize("ending", ["", "-3"])
def test_a_backup_that_cannot_be_made_is_named_and_no_file_is_changed(
    plait, proved, home, verb, ending
):
    """Not the files before it either: a server without its hooks is half a connection."""
    (home / ".claude").mkdir()
    (home / ".claude.json").write_text('{"b": 1}', encoding="utf-8")
    settings = home / ".claude" / "settings.json"
    settings.write_text('{"a": 1}', encoding="utf-8")
    if verb == "disconnect":
        plait("connect", "claude-code")
    backup = Path(f"{settings}{BACKUP_ENDING}")
    backup.unlink(missing_ok=True)
    if ending:
        for name in (backup, f"{backup}-2"):
            Path(name).write_text("older", encoding="utf-8")
    Path(f"{backup}{ending}", "mine").mkdir(parents=True)
    before = files_in(home)
    ran = plait(verb, "claude-code")
    assert ran.code == 2 and f"{backup}{ending}" in ran.err, ran
    assert files_in(home) == before


@pytest.mark.parametrize("verb", ["connect", "disconnect"])
@pytest.mark.parametrize("name", [".claude/settings.json", ".claude/skills/plait/SKILL.md"])
def test_a_file_that_nobody_may_write_is_named_and_no_file_is_changed(
    plait, proved, home, verb, name
):
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text("{}", encoding="utf-8")
    plait("connect", "claude-code")
    if verb == "connect":  # there must be something to renew
        for path in (home / ".claude/settings.json", home / ".claude/skills/plait/SKILL.md"):
            text = path.read_text(encoding="utf-8")
            text = text.replace('"timeout": 60', '"timeout": 61') + "\n"
            path.write_text(text, encoding="utf-8")
    (home / name).chmod(0o444)
    before = {path: path.read_bytes() for path in sorted(home.rglob("*.json"))}
    ran = plait(verb, "claude-code")
    assert ran.code == 2 and f"{name}: It is read-only" in ran.err
    assert {path: path.read_bytes() for path in before} == before
    (home / name).chmod(0o644)
    plait("disconnect", "claude-code")
    assert not read_records(str(home / ".config" / "plait"))


def test_what_an_agent_writes_meanwhile_is_not_lost(plait, proved, home, monkeypatch):
    from plait.agents.connecting import files

    path = home / ".claude.json"
    path.write_text('{"n": 0}', encoding="utf-8")
    read = files.read_settings
    turns: list[str] = []

    def read_late(name: str) -> bytes | None:
        data = read(name)
        # The agent writes right after we have read, the first two times.
        if name.endswith(".claude.json") and len(turns) < 2:
            turns.append(name)
            path.write_text(f'{{"n": {len(turns)}}}', encoding="utf-8")
        return data

    monkeypatch.setattr(files, "read_settings", read_late)
    assert plait("connect", "claude-code").code == 0
    assert len(turns) == 2
    settings = json.loads(path.read_text(encoding="utf-8"))
    assert settings["n"] == 2 and "plait" in settings["mcpServers"]


def test_many_processes_that_connect_at_once_leave_whole_files(home):
    act = (
        "import sys\nfrom plait.cli import connect, main\n"
        "from plait.agents.connecting.handshake import Proof\n"
        "connect.prove = lambda *_: Proof('1', 6)\n"
        "sys.exit(main(['connect', sys.argv[1]]))"
    )
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text('{"a": [1]}', encoding="utf-8")
    agents = ["gemini", "codex", "gemini", "cursor"]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", act, agent],
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for agent in agents
    ]
    for process in running:
        assert process.communicate(timeout=PATIENCE_S)[1].count(b"Traceback") == 0
        assert process.returncode == 0
    settings = json.loads((home / ".gemini" / "settings.json").read_text(encoding="utf-8"))
    assert settings["a"] == [1] and len(settings["hooks"]["BeforeAgent"]) == 1
    assert entry_of("codex", home) and entry_of("cursor", home)
    assert [path for path in home.rglob(".plait-*")] == []


@pytest.mark.parametrize("content", ['{"a": 1}', " \n", None])
@pytest.mark.parametrize("verb", ["connect", "disconnect"])
@pytest.mark.parametrize("writes", range(9))
def test_a_kill_at_any_time_loses_no_record(
    plait, proved, home, monkeypatch, content, verb, writes
):
    """Whatever was written when the process died, connecting and disconnecting leave no trace."""
    from plait.agents.connecting import files

    before: dict[Path, bytes] = {}
    if content is not None:
        (home / ".claude.json").write_text(content, encoding="utf-8")
        before = files_in(home)
    folders = folders_in(home)
    if verb == "disconnect":
        plait("connect", "claude-code")

    class Killed(BaseException):
        """The process ends: nothing is tidied up."""

    done: list[str] = []

    def killed_later(act: Callable[..., Any]) -> Callable[..., Any]:
        def write(*arguments: Any, **more: Any) -> Any:
            if len(done) == writes:
                raise Killed
            done.append(act.__name__)
            return act(*arguments, **more)

        return write

    with monkeypatch.context() as patch:
        for name in ("replace_settings", "replace_private", "_remove_folders"):
            patch.setattr(files, name, killed_later(getattr(files, name)))
        with contextlib.suppress(Killed):
            plait(verb, "claude-code")
    if verb == "disconnect":
        plait("connect", "claude-code")
    plait("disconnect", "claude-code")
    assert (files_in(home), folders_in(home)) == (before, folders)
    assert not read_records(str(home / ".config" / "plait"))


def test_unreadable_records_leave_empty_objects_and_lose_nothing(plait, proved, home):
    (home / ".claude.json").write_text('{"a": 1}', encoding="utf-8")
    plait("connect", "claude-code")
    records = home / ".config" / "plait" / "connections.json"
    assert read_records(str(records.parent))
    records.write_text("{", encoding="utf-8")
    assert plait("disconnect", "claude-code").code == 0
    left = json.loads((home / ".claude.json").read_text(encoding="utf-8"))
    assert left == {"mcpServers": {}, "a": 1}


# -- dry runs ------------------------------------------------------------------------------


def test_a_dry_run_shows_the_settings_before_the_texts(plait, proved, home):
    shown = plait("connect", "claude-code", "--dry-run", "--format", "text").out
    named = [line.removeprefix("+++ ").strip() for line in shown.splitlines() if "+++ " in line]
    texts = [name.endswith(".md") for name in named]
    assert any(texts) and texts == sorted(texts)


def test_a_dry_run_shows_only_our_lines_and_writes_nothing(plait, proved, home):
    (home / ".claude.json").write_text(
        '{\n  "mcpServers": {\n    "x": {"env": {"KEY": "sk-hidden"}}\n  }\n}', encoding="utf-8"
    )
    before = files_in(home)
    ran = plait("connect", "claude-code", "--dry-run", "--format", "text")
    assert '+    "plait": {' in ran.out and "sk-hidden" not in ran.out
    assert "would be connected" in ran.out
    assert plait("connect", "claude-code", "--dry-run").json["dry_run"] is True
    assert (files_in(home), proved) == (before, [])
    plait("connect", "claude-code")
    connected = files_in(home)
    assert '-    "plait": {' in plait("disconnect", "claude-code", "--dry-run").json["diff"]
    assert files_in(home) == connected


def test_a_long_line_of_a_diff_is_cut():
    line = b'{"token": "' + b"x" * 5_000 + b'"}'
    for row in connect.diff_lines(FileChange("/f", line, line[:-1] + b', "plait": 1}', None)):  # type: ignore[arg-type]
        assert len(row) <= connect.MAX_DIFF_LINE


def test_read_only_writes_nothing(plait, proved, home):
    for words in (["connect", "codex"], ["disconnect", "codex"]):
        ran = plait("--read-only", *words)
        assert ran.code == 2 and "--read-only" in ran.err
    assert plait("--read-only", "connect", "codex", "--dry-run").code == 0
    assert files_in(home) == {}


# -- the handshake -------------------------------------------------------------------------


def test_the_command_is_proved_by_a_real_handshake(home):
    pytest.importorskip("mcp")
    ran = spawn("connect", "codex")
    assert (ran.code, ran.json["tools"]) == (0, 6)
    assert ran.json["command"] == [SCRIPT, "mcp"]
    assert Path(SCRIPT).is_absolute() and os.access(SCRIPT, os.X_OK)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'plait: it needs the SDK. Run: pip' >&2; exit 1", "it needs the SDK. Run: pip"),
        ("exit 0", "it answered something else"),
        ('cat > /dev/null; echo \'{"id": 1, "result": {}}\'; echo nonsense', "something else"),
        ("exec sleep 60", "did not answer within"),
    ],
)
def test_a_command_that_is_no_server_is_not_written(home, tmp_path, monkeypatch, script, why):
    program = tmp_path / "plait"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(handshake, "HANDSHAKE_PATIENCE_S", 0.3 if "sleep" in script else 30)
    with pytest.raises(PlaitError, match=why, check=has_code("no_handshake", str(program))):
        prove(Launch((str(program),)), os.environ, str(home))


def test_what_plait_says_itself_is_not_said_to_be_no_plait(home, tmp_path):
    program = tmp_path / "plait"
    program.write_text("#!/bin/sh\necho 'plait: it needs the SDK.' >&2; exit 1\n", "utf-8")
    program.chmod(0o755)
    with pytest.raises(PlaitError, match=r"^it needs the SDK\. Nothing was changed\.$"):
        prove(Launch((str(program),)), os.environ, str(home))


def test_a_failed_handshake_changes_nothing(plait, home, monkeypatch):
    monkeypatch.setattr(connect, "launch_of", lambda words: Launch(("/no/such/plait",)))
    ran = plait("connect", "claude-code")
    assert ran.code == 1 and "/no/such/plait" in ran.err and "Nothing was changed" in ran.err
    assert files_in(home) == {}


def test_a_temporary_environment_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/c/uv/archive-v0/abc/bin/python")
    with pytest.raises(PlaitError, check=has_code("temporary_install")):
        launch_of()


def test_without_a_script_the_interpreter_starts_the_package(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert launch_of().words == (str(tmp_path / "python"), "-P", "-m", "plait")


# -- looking for agents, and questions -----------------------------------------------------


def test_connect_alone_lists_the_agents_and_writes_nothing(plait, proved, home):
    (home / ".codex").mkdir()
    rows = {row["agent"]: row for row in plait("connect").json["agents"]}
    assert list(rows) == list(AGENTS)
    assert rows["codex"] == {
        "agent": "codex",
        "title": "Codex",
        "installed": True,
        "connected": [],
    }
    assert rows["hermes"]["installed"] is False
    assert "plait connect codex" in plait("connect", "--format", "text").err
    plait("connect", "codex")
    rows = {row["agent"]: row for row in plait("connect").json["agents"]}
    assert rows["codex"]["connected"] == ["user"]


def test_an_agent_is_known_by_its_command_too(plait, home, tmp_path, monkeypatch):
    (tmp_path / "gemini").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "gemini").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    rows = {row["agent"]: row["installed"] for row in plait("connect").json["agents"]}
    assert rows["gemini"] is True and sum(rows.values()) == 1


def test_the_home_folder_is_no_project(plait, proved, home, monkeypatch):
    monkeypatch.chdir(home)
    ran = plait("connect", "codex", "--scope", "project")
    assert ran.code == 2 and "no project" in ran.err
    plait("connect", "codex")
    rows = {row["agent"]: row["connected"] for row in plait("connect").json["agents"]}
    assert rows["codex"] == ["user"]


def on_terminal(words: list[str], answers: str) -> str:
    """Run plait on a terminal, type the answers, and return what it printed."""
    pty = pytest.importorskip("pty")
    act = (
        "import sys\nfrom plait.cli import connect, main\n"
        "from plait.agents.connecting.handshake import Proof\n"
        "connect.prove = lambda *_: Proof('1', 6)\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", act, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(),
    )
    os.close(theirs)
    # Behind the answers, as many ends of the input: a question too many must not wait for ever.
    os.write(ours, answers.encode() + b"\x04" * 8)
    printed = b""
    try:
        while more := os.read(ours, 65_536):
            printed += more
    except OSError:  # Linux says so when the other side is closed
        pass
    process.wait(timeout=PATIENCE_S)
    os.close(ours)
    return printed.decode()


def test_on_a_terminal_each_agent_is_offered_and_auto_save_is_asked_once(plait, home):
    (home / ".codex").mkdir()
    (home / ".gemini").mkdir()
    (home / ".cursor").mkdir()
    printed = on_terminal(["connect"], "y\ny\nn\ny\n")  # codex, auto_save, cursor, gemini
    assert "Connect Codex? [y/N]" in printed and "Connect Gemini CLI? [y/N]" in printed
    assert printed.count("Off by default") == 1
    assert entry_of("codex", home) and entry_of("gemini", home)
    assert not (home / ".cursor" / "mcp.json").exists()
    assert plait("config", "get", "auto_save").json == {"auto_save": True}
    assert "Off by default" not in on_terminal(["connect", "cursor"], "")


def test_a_no_is_kept_too_and_an_option_answers(plait, proved, home):
    assert plait("connect", "codex").json["auto_save"] is False
    assert plait("config", "show", "--origin").json["auto_save"]["origin"] == "default"
    assert "Off by default" in on_terminal(["connect", "codex"], "\n")
    config = plait("config", "show", "--origin").json["auto_save"]
    assert (config["value"], config["origin"] != "default") == (False, True)
    assert plait("connect", "codex", "--auto-save", "on").json["auto_save"] is True
    assert plait("config", "get", "auto_save").json == {"auto_save": True}


def test_broken_settings_of_plait_stop_it_before_an_agents_file_is_written(plait, proved, home):
    config = home / ".config" / "plait" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[memory]\nlimit = 'x'\n", encoding="utf-8")
    assert plait("connect", "codex", "--auto-save", "on").code == 2
    assert not (home / ".codex").exists() and not (home / ".agents").exists()


# -- doctor --------------------------------------------------------------------------------


def agent_findings(plait: Plait) -> dict[str, tuple[str, str]]:
    rows = plait("doctor").json["findings"]
    return {
        row["check"]: (row["level"], row["message"])
        for row in rows
        if row["check"].startswith("agent ")
    }


def test_doctor_checks_every_connection(plait, proved, home, project):
    assert agent_findings(plait) == {}
    for agent in AGENTS:
        plait("connect", agent)
    for agent in IN_PROJECTS:
        plait("connect", agent, "--scope", "project")
    findings = agent_findings(plait)
    assert {name for name, (level, _) in findings.items() if level != "ok"} == {
        "agent codex",
        "agent codex (project)",
    }
    assert set(findings) == {f"agent {name}" for name in AGENTS} | {
        f"agent {name} (project)" for name in IN_PROJECTS
    }


def test_doctor_says_which_hooks_codex_was_not_told_to_trust(plait, proved, home):
    (home / ".codex").mkdir()
    hooks = home / ".codex" / "hooks.json"
    mine = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}}
    hooks.write_text(json.dumps(mine), encoding="utf-8")
    plait("connect", "codex")
    level, message = agent_findings(plait)["agent codex"]
    assert level == "warning" and "6 of 6 hooks" in message and "/hooks" in message
    # The user's own hook keeps its number, by which Codex trusts it.
    assert hooks_of(home, ".codex", "hooks.json")["Stop"][0] == mine["hooks"]["Stop"][0]
    places = ["session_start:0:0", "user_prompt_submit:0:0", "pre_compact:0:0", "stop:1:0"]
    places.append("pre_tool_use:0:0")
    config = home / ".codex" / "config.toml"
    for place in places:
        state = f'[hooks.state."{hooks}:{place}"]\ntrusted_hash = "sha256:x"\n'
        config.write_text(config.read_text(encoding="utf-8") + state, encoding="utf-8")
    assert "1 of 6 hooks" in agent_findings(plait)["agent codex"][1]
    state = f'[hooks.state."{hooks}:session_end:0:0"]\ntrusted_hash = "sha256:x"\n'
    config.write_text(config.read_text(encoding="utf-8") + state, encoding="utf-8")
    assert agent_findings(plait)["agent codex"][0] == "ok"
    plait("disconnect", "codex")
    assert json.loads(hooks.read_text(encoding="utf-8")) == mine


def test_doctor_says_which_hooks_are_missing(plait, proved, home):
    plait("connect", "claude-code")
    path = home / ".claude" / "settings.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    del settings["hooks"]["Stop"], settings["hooks"]["SessionEnd"]
    path.write_text(json.dumps(settings), encoding="utf-8")
    level, message = agent_findings(plait)["agent claude-code"]
    assert level == "warning" and "no hook of plait at Stop, SessionEnd" in message
    plait("connect", "claude-code", "--no-hooks")  # as the user wants it
    assert agent_findings(plait)["agent claude-code"][0] == "ok"


def test_doctor_names_a_command_that_is_gone_and_another_plait(
    plait, proved, home, tmp_path, monkeypatch
):
    other = tmp_path / "plait"
    other.write_text("#!/bin/sh\n", encoding="utf-8")
    launches = {"codex": str(other), "gemini": "/gone/plait"}
    for agent, program in launches.items():
        monkeypatch.setattr(connect, "launch_of", lambda _, program=program: Launch((program,)))
        plait("connect", agent)
    monkeypatch.setattr(connect, "launch_of", launch_of)
    findings = agent_findings(plait)
    assert findings["agent codex"][0] == findings["agent gemini"][0] == "warning"
    assert "another plait" in findings["agent codex"][1]
    assert "does not exist" in findings["agent gemini"][1]
    assert "plait connect gemini" in findings["agent gemini"][1]
    plait("connect", "codex")
    (home / ".codex" / "config.toml").write_text("", encoding="utf-8")
    assert "no entry" in agent_findings(plait)["agent codex"][1]
    (home / ".codex" / "config.toml").write_text("a = ", encoding="utf-8")
    assert "cannot be read" in agent_findings(plait)["agent codex"][1]
    plait("store", "a fact")
    assert plait("doctor").code == 0


def test_doctor_knows_an_entry_that_was_written_by_hand(plait, home, monkeypatch):
    monkeypatch.setenv("PATH", str(Path(SCRIPT).parent))
    entry = {"mcpServers": {"plait": {"command": "plait", "args": ["mcp"]}}}
    (home / ".claude.json").write_text(json.dumps(entry), encoding="utf-8")
    assert agent_findings(plait)["agent claude-code"][0] == "ok"


@pytest.mark.parametrize(
    "text",
    [
        '{"hooks": {"Stop": [{"hooks": [{"command": "\'x/plait hook codex Stop"}]}]}}',
        '{"hooks": {"Stop": [7, {"hooks": 7}, {"command": {"plait": 1}}]}}',
        '{"hooks": 7}',
        " " * 2_000_000,
        "[" * 100_000,
    ],
    ids=["quote", "types", "number", "large", "deep"],
)
def test_doctor_reads_the_files_of_a_clone_as_data(plait, project, text):
    for folder in (".codex", ".cursor"):
        (project / folder).mkdir()
        (project / folder / "hooks.json").write_text(text, encoding="utf-8")
        (project / folder / "mcp.json").write_text(text, encoding="utf-8")
    (project / ".codex" / "config.toml").write_text("[[mcp_servers]]\n", encoding="utf-8")
    plait("store", "a fact")
    ran = plait("doctor")
    assert (ran.code, ran.err) == (0, "")
    assert all(level != "ok" for level, _ in agent_findings(plait).values())
