"""What plait ships for agents: the skill, two snippets, a plugin, manifests. All of it is tried."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plait import __version__
from plait.agents.connecting.places import AGENTS, SCOPES, Hooks, Launch, Machine
from plait.agents.connecting.texts import SNIPPETS, opencode_plugin, snippet
from plait.agents.hooks.tools import ToolCall, call_of
from plait.cli import arguments_for
from plait.text.front_matter import front_matter
from tests.interfaces.command import PATIENCE_S, ROOT, SAMPLE, Ran

DATA = ROOT / "src" / "plait" / "agents" / "connecting" / "data"
PLUGIN = ROOT / "plugin"
TEXTS = tuple(SNIPPETS)
COMMAND = re.compile(r"`(plait [^`]+)`")


def read_json(*parts: str) -> Any:
    return json.loads(ROOT.joinpath(*parts).read_text(encoding="utf-8"))


def bash_lines(text: str) -> list[str]:
    """The commands of the bash blocks, in order."""
    blocks = re.findall(r"^```bash\n(.*?)^```$", text, re.M | re.S)
    return [line for block in blocks for line in block.splitlines() if line]


# -- the skill -----------------------------------------------------------------------------


def fields_of(skill: str) -> dict[str, str]:
    """The front matter of a skill: plain ``name: value`` lines, as every agent can read them."""
    head = skill.split("---\n")[1]
    return dict(re.findall(r"^([a-z-]+): ?(.*)$", head, re.M))


def test_the_skill_keeps_the_limits_of_the_specification():
    skill = snippet("skill")
    fields = fields_of(skill)
    assert set(fields) == {"name", "description", "license", "compatibility", "metadata"}
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fields["name"]) and len(fields["name"]) <= 64
    assert fields["name"] == Path(SNIPPETS["skill"]).parent.name
    assert 1 <= len(fields["description"]) <= 1024
    assert not re.search(r": |#|^[\"'\[{>|]", fields["description"])  # plain in YAML
    assert len(fields["compatibility"]) <= 500
    assert f'  plait-version: "{__version__}"\n' in skill
    assert skill.count("\n") < 500 and len(skill) / 4 < 5_000  # tokens
    front_matter(skill)


def test_the_skill_says_what_it_should():
    titles = re.findall(r"^## (.+)$", snippet("skill"), re.M)
    assert titles == ["What it does", "Usage", "When hybrid, when tiered", "Configuration"]
    assert max(map(len, snippet("skill").split("---\n", 2)[2].splitlines())) <= 120


@pytest.fixture
def in_notes(plait: Callable[..., Ran], work: Path) -> Callable[[str], Ran]:
    """Run a command line in a folder with notes."""
    shutil.copytree(SAMPLE, work / "notes")
    shutil.copytree(SAMPLE / "runbooks", work / "memory")

    def run(line: str) -> Ran:
        program, *words = shlex.split(line)
        assert program == "plait"
        return plait(*words)

    return run


def test_every_command_of_the_skill_works(in_notes):
    lines = bash_lines(snippet("skill"))
    assert len(lines) >= 18
    assert in_notes("plait ingest notes").code == 0
    assert in_notes("plait store 'Heron it is' --type decision").code == 0
    for line in lines:
        ran = in_notes(line)
        assert (ran.code, "unknown" in ran.err) == (0, False), (line, ran.err)


@pytest.mark.parametrize("verb", ["about PATH", "how COMMAND", 'fixed "ERROR"'])
def test_the_skill_names_the_commands_for_what_was_done(plait, verb):
    assert f"`plait {verb}`" in " ".join(snippet("skill").split())
    assert plait(verb.partition(" ")[0], "--help").code == 0


def test_the_heartbeat_indexes_what_changed_and_nothing_else(in_notes, work):
    text = snippet("heartbeat")
    assert "every 6h" in text
    [line, doctor] = COMMAND.findall(text)
    assert "--incremental" in line
    count = in_notes(line).json["added"]
    assert count > 0
    (work / "memory" / "new.md").write_text("# New\n\nA note.\n", encoding="utf-8")
    report = in_notes(line).json
    assert (report["added"], report["unchanged"]) == (1, count)
    assert in_notes(doctor).code == 0


@pytest.mark.parametrize("name", TEXTS)
def test_every_command_that_a_text_names_can_be_typed(name):
    commands = [*COMMAND.findall(snippet(name)), *bash_lines(snippet(name))]
    assert len(commands) >= 2
    for command in commands:
        verb, _ = arguments_for(shlex.split(command)[1:])
        assert verb is not None, command


def test_the_snippet_for_agents_goes_from_hybrid_to_tiered():
    text = snippet("agents")
    assert text.index("plait search") < text.index("plait timeline") < text.index("plait recall")
    assert text.index("Hybrid") < text.index("tiered")


@pytest.mark.parametrize("name", TEXTS)
def test_connect_prints_each_text(plait, name):
    assert (
        plait("connect", "--print", name, "--format", "text").out.strip() == snippet(name).strip()
    )


# -- opencode's plugin ---------------------------------------------------------------------

DRIVER = """
import { PlaitMemory } from "./plait.mjs"
const hooks = await PlaitMemory({ directory: process.cwd() })
const rounds = []
for (const text of ["first", "second"]) {
  const output = { message: { id: "m1" }, parts: [{ type: "text", text }] }
  await hooks["chat.message"]({ sessionID: "s1" }, output)
  rounds.push(output.parts)
}
const ran = [["bash", 0], ["bash", 2], ["read", 2], ["bash", undefined]].map(([tool, exit]) => ({
  input: { sessionID: "s1", tool, args: { command: "make" } },
  output: { title: "", output: "no rule", metadata: { exit } },
}))
for (const { input, output } of ran) await hooks["tool.execute.after"](input, output)
console.log(JSON.stringify([...rounds, ran.map(({ output }) => output.output)]))
"""


def run_plugin(folder: Path, words: list[str], *, work: bool = True) -> Any:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    (folder / "plait.mjs").write_text(opencode_plugin(words, work=work), encoding="utf-8")
    (folder / "driver.mjs").write_text(DRIVER, encoding="utf-8")
    ran = subprocess.run(
        [node, "driver.mjs"],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=True,
    )
    return json.loads(ran.stdout)


def test_opencodes_plugin_adds_what_plait_answers_beside_the_message(tmp_path):
    program = tmp_path / "my plait"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "payload = json.load(sys.stdin)\n"
        "open('calls', 'a').write(json.dumps([sys.argv[1:], payload]) + '\\n')\n"
        "text = f'{sys.argv[-1]}: {payload.get(\"prompt\")}'\n"
        "print(json.dumps({'hookSpecificOutput': {'additionalContext': text}}))\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    first, second, outputs = run_plugin(tmp_path, [str(program), "--db", "x.db"])
    assert first[1]["text"] == "session.created: undefined\n\nchat.message: first".replace(
        "undefined", "None"
    )
    assert first[1]["synthetic"] is True and first[1]["messageID"] == "m1"
    assert second[1]["text"] == "chat.message: second"  # the session has begun already
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text("utf-8").splitlines()]
    assert [words[-1] for words, _ in calls] == [
        *("session.created", "chat.message", "chat.message", "tool.execute.after"),
    ]
    assert all(words[:4] == ["--db", "x.db", "hook", "opencode"] for words, _ in calls)
    assert all(payload["session_id"] == "s1" for _, payload in calls)
    # Only below a command that failed.
    assert outputs == ["no rule", "no rule\n\ntool.execute.after: None", "no rule", "no rule"]
    payload = calls[-1][1]
    assert call_of(payload) == ToolCall("bash", None, "make", "no rule", has_failed=True)


def test_opencodes_plugin_asks_nothing_after_tools_without_the_hooks_of_the_work(tmp_path):
    program = tmp_path / "plait"
    program.write_text('#!/bin/sh\necho "$@" >> calls\n', encoding="utf-8")
    program.chmod(0o755)
    run_plugin(tmp_path, [str(program)], work=False)
    assert "tool.execute" not in (tmp_path / "calls").read_text("utf-8")


@pytest.mark.parametrize("answer", ["exit 1", "echo nonsense", "echo '{}'", "exec cat"])
def test_opencodes_plugin_lets_the_message_go_on_whatever_happens(tmp_path, answer):
    program = tmp_path / "plait"
    program.write_text(f"#!/bin/sh\n{answer}\n", encoding="utf-8")
    program.chmod(0o755)
    for command in (str(program), "/no/such/plait"):
        *rounds, outputs = run_plugin(tmp_path, [command])
        assert [len(parts) for parts in rounds] == [1, 1]
        assert outputs == ["no rule"] * 4


# -- manifests -----------------------------------------------------------------------------


def test_the_plugin_of_claude_code_has_the_same_hooks_tools_and_skill():
    manifest = read_json("plugin", ".claude-plugin", "plugin.json")
    assert (manifest["name"], manifest["version"]) == ("plait", __version__)
    [hooks] = [
        piece
        for piece in AGENTS["claude-code"].pieces(Machine("/h", "/p", {}), "user")
        if isinstance(piece, Hooks)
    ]
    groups = hooks.groups(Launch(("plait",), windows=False), True)
    written = read_json("plugin", "hooks", "hooks.json")["hooks"]
    assert written == {event: [group] for event, group in groups.items()}
    servers = read_json("plugin", ".mcp.json")["mcpServers"]
    assert servers == {"plait": {"command": "plait", "args": ["mcp"]}}
    skill = (PLUGIN / "skills" / "plait" / "SKILL.md").read_text(encoding="utf-8")
    assert skill == snippet("skill")
    market = read_json(".claude-plugin", "marketplace.json")
    [plugin] = market["plugins"]
    assert (ROOT / plugin["source"] / ".claude-plugin" / "plugin.json").is_file()


def test_the_manifest_for_the_registry_describes_this_version():
    manifest = read_json("server.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", manifest["name"])
    assert len(manifest["description"]) <= 100 and len(manifest["title"]) <= 100
    [package] = manifest["packages"]
    assert manifest["version"] == package["version"] == __version__
    assert (package["registryType"], package["identifier"]) == ("pypi", "plait")
    assert package["transport"] == {"type": "stdio"}
    from plait.settings.schema import ENVIRONMENT

    assert {row["name"] for row in package["environmentVariables"]} <= set(ENVIRONMENT)
    arguments_for([row["value"] for row in package["packageArguments"]])


def test_what_connect_needs_is_inside_the_package():
    files = {path.relative_to(DATA).as_posix() for path in DATA.rglob("*") if path.is_file()}
    assert files == {"plait/SKILL.md", "AGENTS.md", "HEARTBEAT.md", "opencode.ts"}


@pytest.mark.parametrize("agent", AGENTS)
def test_the_page_names_every_file_of_an_agent(agent):
    page = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
    [row] = re.findall(rf"^\| `{agent}` \|.*$", page, re.M)
    machine = Machine("~", "", {}, "linux")
    paths = [piece.path for scope in SCOPES for piece in AGENTS[agent].pieces(machine, scope)]
    assert re.findall(r"`([^`]+)`", row)[1:] == list(dict.fromkeys(paths))
    limits = page.partition("## What each agent cannot do")[2]
    assert f"| {AGENTS[agent].title} |" in limits
