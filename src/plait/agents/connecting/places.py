"""Which agents there are, where each looks for MCP servers, hooks and skills, and in which form."""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal

from plait.types.records import NamedTuple

AgentScope = Literal["user", "project"]
SCOPES: tuple[AgentScope, ...] = ("user", "project")
FileForm = Literal["json", "json5", "toml", "yaml"]
ENTRY_NAME = "plait"
# Seconds that an agent may wait for a hook. The hook itself gives up after one.
HOOK_TIMEOUT_S = 10
# Codex allows SessionEnd three seconds, Claude Code one and a half unless its settings say more.
END_TIMEOUT_S = 3
SAVE_TIMEOUT_S = 60
# The tools before and after which there may be something to say, in the words of each agent.
CLAUDE_TOOLS = "Edit|MultiEdit|Write|NotebookEdit|Bash"
CODEX_TOOLS = "Bash|apply_patch"


class Launch(NamedTuple):
    """The command that starts this plait, with the options that choose the memory."""

    words: tuple[str, ...]
    windows: bool = sys.platform == "win32"

    @property
    def program(self) -> str:
        """The program."""
        return self.words[0]

    @property
    def server(self) -> list[str]:
        """The arguments that make it an MCP server."""
        return [*self.words[1:], "mcp"]

    def hook(self, agent: str, event: str) -> str:
        """Return the command of a hook as one line for a shell."""
        words = [*self.words, "hook", agent, event]
        if not self.windows:
            from shlex import join

            return join(words)
        # Forward slashes mean the same to cmd, PowerShell and the bash of Git for Windows.
        program = words[0].replace("\\", "/")
        rest = [f'"{word}"' if " " in word else word for word in words[1:]]
        return " ".join([f'"{program}"', *rest])


class ServerEntry(NamedTuple):
    """The entry of an MCP server: its file, the form of that, and the names that lead to it."""

    path: str
    form: FileForm
    keys: tuple[str, ...]
    value: Callable[[Launch], dict[str, Any]]


class Hooks(NamedTuple):
    """Hooks in a JSON file, by event; ``version`` is what the file must say at its top."""

    path: str
    groups: Callable[[Launch, bool], dict[str, dict[str, Any]]]
    version: int | None = None


class OwnFile(NamedTuple):
    """A file that is plait's alone: a skill, a plugin, a file of hooks."""

    path: str
    part: Literal["hooks", "skill"]
    content: Callable[[Launch, bool], str]


Piece = ServerEntry | Hooks | OwnFile


class Machine(NamedTuple):
    """Where the folders of agents are: the user's home, the project, the variables."""

    home: str
    project: str
    environ: Mapping[str, str]
    platform: str = sys.platform

    def folder(self, variable: str, *default: str) -> str:
        """Return the folder that a variable names, or the default below the home folder."""
        return self.environ.get(variable) or os.path.join(self.home, *default)

    @property
    def scopes(self) -> tuple[AgentScope, ...]:
        """The scopes that there are here: the home folder is no project."""
        is_home = os.path.realpath(self.project) == os.path.realpath(self.home)
        return SCOPES[:1] if is_home else SCOPES

    @property
    def config(self) -> str:
        """The folder of settings that follows XDG, on every system."""
        return self.folder("XDG_CONFIG_HOME", ".config")

    @property
    def applications(self) -> str:
        """The folder in which desktop programs keep their settings."""
        if self.platform == "darwin":
            return os.path.join(self.home, "Library", "Application Support")
        if self.platform == "win32":
            return self.folder("APPDATA", "AppData", "Roaming")
        return self.config

    def in_project(self, *parts: str) -> str:
        """Return a path in the project."""
        return os.path.join(self.project, *parts)

    def skill(self, scope: AgentScope, *folder: str) -> OwnFile:
        """Return the skill, in a folder of the home or the project."""
        base = self.project if scope == "project" else self.home
        return self.skill_in(os.path.join(base, *(folder or (".agents", "skills"))))

    def skill_in(self, folder: str) -> OwnFile:
        """Return the skill in a folder of skills."""
        from plait.agents.connecting.texts import skill_text

        path = os.path.join(folder, ENTRY_NAME, "SKILL.md")
        return OwnFile(path, "skill", lambda *_: skill_text())


class Agent(NamedTuple):
    """An agent: its name on the command line and on its box, and where it looks.

    ``hints`` are paths that show that it is installed, ``programs`` commands that start it.
    """

    name: str
    title: str
    programs: tuple[str, ...]
    hints: Callable[[Machine], list[str]]
    pieces: Callable[[Machine, AgentScope], list[Piece]]
    note: str = ""


# -- entries ---------------------------------------------------------------------------------


def _stdio(launch: Launch) -> dict[str, Any]:
    return {"type": "stdio", "command": launch.program, "args": launch.server}


def _plain(launch: Launch) -> dict[str, Any]:
    return {"command": launch.program, "args": launch.server}


def _opencode(launch: Launch) -> dict[str, Any]:
    return {"type": "local", "command": [launch.program, *launch.server], "enabled": True}


def _zed(launch: Launch) -> dict[str, Any]:
    return {"source": "custom", "command": launch.program, "args": launch.server, "env": {}}


def _copilot(launch: Launch) -> dict[str, Any]:
    # Without "tools", Copilot offers none of them.
    return {**_stdio(launch), "tools": ["*"]}


# -- hooks -----------------------------------------------------------------------------------


def _command(launch: Launch, agent: str, event: str, **more: Any) -> dict[str, Any]:
    return {"type": "command", "command": launch.hook(agent, event), **more}


def _claude_hooks(launch: Launch, work: bool) -> dict[str, dict[str, Any]]:
    def group(event: str, matcher: str = "", *, timeout: int = HOOK_TIMEOUT_S) -> dict[str, Any]:
        handler = _command(launch, "claude-code", event, timeout=timeout)
        return {**({"matcher": matcher} if matcher else {}), "hooks": [handler]}

    groups = {
        "SessionStart": group("SessionStart", "startup|resume|clear|compact|fork"),
        "UserPromptSubmit": group("UserPromptSubmit"),
        "PreCompact": group("PreCompact", timeout=SAVE_TIMEOUT_S),
        # Not "async": such a hook is killed if Claude Code ends before it does.
        "Stop": group("Stop", timeout=SAVE_TIMEOUT_S),
        "SessionEnd": group("SessionEnd", timeout=END_TIMEOUT_S),
    }
    if work:
        groups["PreToolUse"] = group("PreToolUse", CLAUDE_TOOLS)
        # PostToolUse comes only after what went well.
        groups["PostToolUseFailure"] = group("PostToolUseFailure", "Bash")
    return groups


def _codex_hooks(launch: Launch, work: bool) -> dict[str, dict[str, Any]]:
    def group(event: str, timeout: int = HOOK_TIMEOUT_S, matcher: str = "") -> dict[str, Any]:
        handler = _command(launch, "codex", event, timeout=timeout)
        if launch.windows:
            handler["commandWindows"] = handler["command"]
        return {**({"matcher": matcher} if matcher else {}), "hooks": [handler]}

    groups = {
        "SessionStart": group("SessionStart"),
        "UserPromptSubmit": group("UserPromptSubmit"),
        "PreCompact": group("PreCompact", SAVE_TIMEOUT_S),
        "Stop": group("Stop", SAVE_TIMEOUT_S),
        "SessionEnd": group("SessionEnd", END_TIMEOUT_S),
    }
    if work:
        # No PostToolUse: what Codex tells there does not say how a command ended.
        groups["PreToolUse"] = group("PreToolUse", matcher=CODEX_TOOLS)
    return groups


def _gemini_hooks(launch: Launch, work: bool) -> dict[str, dict[str, Any]]:
    def group(event: str, seconds: int = HOOK_TIMEOUT_S, matcher: str = "") -> dict[str, Any]:
        handler = _command(launch, "gemini", event, name=ENTRY_NAME, timeout=seconds * 1000)
        return {**({"matcher": matcher} if matcher else {}), "hooks": [handler]}

    groups = {
        "SessionStart": group("SessionStart"),
        "BeforeAgent": group("BeforeAgent"),
        "PreCompress": group("PreCompress", SAVE_TIMEOUT_S),
        "AfterAgent": group("AfterAgent"),
        "SessionEnd": group("SessionEnd"),
    }
    if work:
        # No BeforeTool: Gemini CLI takes no text from it.
        groups["AfterTool"] = group("AfterTool", matcher="run_shell_command")
    return groups


def _cursor_hooks(launch: Launch, work: bool) -> dict[str, dict[str, Any]]:
    # No beforeSubmitPrompt, preToolUse and postToolUse: their texts do not reach the model. No stop
    # and sessionEnd: the transcript that they name cannot be saved.
    return {"sessionStart": {"command": launch.hook("cursor", "sessionStart")}}


def _copilot_hooks(launch: Launch, work: bool) -> str:
    import json

    # No userPromptSubmitted and preToolUse: Copilot takes no text from them.
    events = ["sessionStart", "preCompact", "agentStop", "sessionEnd"]
    events += ["postToolUse"] if work else []
    hooks = {}
    for event in events:
        line = launch.hook("copilot", event)
        shell = {"powershell": f"& {line}"} if launch.windows else {"bash": line}
        hooks[event] = [{"type": "command", **shell, "timeoutSec": HOOK_TIMEOUT_S}]
    return json.dumps({"version": 1, "hooks": hooks}, ensure_ascii=False, indent=2) + "\n"


def _opencode_plugin(launch: Launch, work: bool) -> str:
    from plait.agents.connecting.texts import opencode_plugin

    return opencode_plugin(launch.words, work=work)


# -- agents ----------------------------------------------------------------------------------


def _claude_code(machine: Machine, scope: AgentScope) -> list[Piece]:
    folder = machine.folder("CLAUDE_CONFIG_DIR", ".claude")
    if scope == "project":
        return [
            ServerEntry(
                machine.in_project(".mcp.json"), "json", ("mcpServers", ENTRY_NAME), _stdio
            ),
            # The local file: the command is one of this machine and not for everybody.
            Hooks(machine.in_project(".claude", "settings.local.json"), _claude_hooks),
            machine.skill(scope, ".claude", "skills"),
        ]
    moved = bool(machine.environ.get("CLAUDE_CONFIG_DIR"))
    return [
        ServerEntry(
            os.path.join(folder if moved else machine.home, ".claude.json"),
            "json",
            ("mcpServers", ENTRY_NAME),
            _stdio,
        ),
        Hooks(os.path.join(folder, "settings.json"), _claude_hooks),
        machine.skill_in(os.path.join(folder, "skills")),
    ]


def _codex(machine: Machine, scope: AgentScope) -> list[Piece]:
    folder = machine.folder("CODEX_HOME", ".codex")
    folder = machine.in_project(".codex") if scope == "project" else folder
    keys = ("mcp_servers", ENTRY_NAME)
    return [
        ServerEntry(os.path.join(folder, "config.toml"), "toml", keys, _plain),
        Hooks(os.path.join(folder, "hooks.json"), _codex_hooks),
        machine.skill(scope),
    ]


def _cursor(machine: Machine, scope: AgentScope) -> list[Piece]:
    base = machine.project if scope == "project" else machine.home
    return [
        ServerEntry(
            os.path.join(base, ".cursor", "mcp.json"), "json", ("mcpServers", ENTRY_NAME), _plain
        ),
        Hooks(os.path.join(base, ".cursor", "hooks.json"), _cursor_hooks, version=1),
        machine.skill(scope),
    ]


def _gemini(machine: Machine, scope: AgentScope) -> list[Piece]:
    base = machine.folder("GEMINI_CLI_HOME")
    base = machine.project if scope == "project" else base
    path = os.path.join(base, ".gemini", "settings.json")
    return [
        ServerEntry(path, "json", ("mcpServers", ENTRY_NAME), _plain),
        Hooks(path, _gemini_hooks),
        machine.skill(scope),
    ]


VSCODE_FOLDERS = ("Code", "Code - Insiders", "VSCodium")


def _vscode_folders(machine: Machine) -> list[str]:
    return [os.path.join(machine.applications, name, "User") for name in VSCODE_FOLDERS]


def _vscode(machine: Machine, scope: AgentScope) -> list[Piece]:
    if scope == "project":
        files = [machine.in_project(".vscode", "mcp.json")]
    else:
        folders = _vscode_folders(machine)
        files = [
            os.path.join(folder, "mcp.json")
            for folder in [path for path in folders if os.path.isdir(path)] or folders[:1]
        ]
    entries = [ServerEntry(file, "json", ("servers", ENTRY_NAME), _stdio) for file in files]
    return [*entries, machine.skill(scope)]


def _opencode_pieces(machine: Machine, scope: AgentScope) -> list[Piece]:
    folder = os.path.join(machine.config, "opencode")
    files, plugins = folder, os.path.join(folder, "plugins")
    if scope == "project":
        files, plugins = machine.project, machine.in_project(".opencode", "plugins")
    names = ("opencode.jsonc", "opencode.json")
    paths = [os.path.join(files, name) for name in names]
    path = next((path for path in paths if os.path.exists(path)), paths[-1])
    return [
        ServerEntry(path, "json", ("mcp", ENTRY_NAME), _opencode),
        OwnFile(os.path.join(plugins, "plait.ts"), "hooks", _opencode_plugin),
        machine.skill(scope),
    ]


def _zed_folder(machine: Machine) -> str:
    if machine.platform == "win32":
        return os.path.join(machine.applications, "Zed")
    return os.path.join(machine.config, "zed")


def _zed_pieces(machine: Machine, scope: AgentScope) -> list[Piece]:
    folder = machine.in_project(".zed") if scope == "project" else _zed_folder(machine)
    keys = ("context_servers", ENTRY_NAME)
    return [ServerEntry(os.path.join(folder, "settings.json"), "json", keys, _zed)]


def _copilot_pieces(machine: Machine, scope: AgentScope) -> list[Piece]:
    keys = ("mcpServers", ENTRY_NAME)
    if scope == "project":
        return [
            # The file that Claude Code reads too: the entry is the same.
            ServerEntry(machine.in_project(".mcp.json"), "json", keys, _stdio),
            OwnFile(machine.in_project(".github", "hooks", "plait.json"), "hooks", _copilot_hooks),
            machine.skill(scope),
        ]
    folder = machine.folder("COPILOT_HOME", ".copilot")
    return [
        ServerEntry(os.path.join(folder, "mcp-config.json"), "json", keys, _copilot),
        OwnFile(os.path.join(folder, "hooks", "plait.json"), "hooks", _copilot_hooks),
        machine.skill(scope),
    ]


def _openclaw(machine: Machine, scope: AgentScope) -> list[Piece]:
    if scope == "project":
        return []
    folder = machine.folder("OPENCLAW_STATE_DIR", ".openclaw")
    return [
        ServerEntry(
            os.path.join(folder, "openclaw.json"), "json5", ("mcp", "servers", ENTRY_NAME), _plain
        ),
        machine.skill_in(os.path.join(folder, "skills")),
    ]


def _hermes(machine: Machine, scope: AgentScope) -> list[Piece]:
    if scope == "project":
        return []
    folder = machine.folder("HERMES_HOME", ".hermes")
    return [
        ServerEntry(
            os.path.join(folder, "config.yaml"), "yaml", ("mcp_servers", ENTRY_NAME), _plain
        ),
        machine.skill_in(os.path.join(folder, "skills")),
    ]


def _below_home(variable: str, folder: str) -> Callable[[Machine], list[str]]:
    return lambda machine: [machine.folder(variable, folder)]


AGENTS: dict[str, Agent] = {
    agent.name: agent
    for agent in (
        Agent(
            "claude-code",
            "Claude Code",
            ("claude",),
            _below_home("CLAUDE_CONFIG_DIR", ".claude"),
            _claude_code,
        ),
        Agent(
            "codex",
            "Codex",
            ("codex",),
            _below_home("CODEX_HOME", ".codex"),
            _codex,
            note="Codex runs new hooks only after you trust them: start codex and type /hooks.",
        ),
        Agent(
            "cursor",
            "Cursor",
            ("cursor", "cursor-agent"),
            lambda machine: [os.path.join(machine.home, ".cursor")],
            _cursor,
            note="Cursor's editor may drop what the hook at the start of a session answers; "
            "its tools and the skill work.",
        ),
        Agent(
            "gemini",
            "Gemini CLI",
            ("gemini",),
            lambda machine: [os.path.join(machine.folder("GEMINI_CLI_HOME"), ".gemini")],
            _gemini,
        ),
        Agent(
            "vscode",
            "VS Code",
            ("code", "code-insiders", "codium"),
            _vscode_folders,
            _vscode,
            note="VS Code runs the hooks of Claude Code or Copilot: connect one of them for hooks.",
        ),
        Agent(
            "opencode",
            "opencode",
            ("opencode",),
            lambda machine: [os.path.join(machine.config, "opencode")],
            _opencode_pieces,
        ),
        Agent("zed", "Zed", ("zed", "zeditor"), lambda m: [_zed_folder(m)], _zed_pieces),
        Agent(
            "copilot",
            "Copilot CLI",
            ("copilot",),
            _below_home("COPILOT_HOME", ".copilot"),
            _copilot_pieces,
        ),
        Agent(
            "openclaw",
            "OpenClaw",
            ("openclaw",),
            _below_home("OPENCLAW_STATE_DIR", ".openclaw"),
            _openclaw,
            note="OpenClaw starts no hooks of other programs: add the lines of "
            "`plait connect --print agents` and `--print heartbeat` to its workspace.",
        ),
        Agent(
            "hermes",
            "Hermes",
            ("hermes",),
            _below_home("HERMES_HOME", ".hermes"),
            _hermes,
        ),
    )
}
