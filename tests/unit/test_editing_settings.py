"""Editors of settings files change plait's entry and no other byte, whatever the file has."""

import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from plait.agents.connecting import jsonc, toml, yaml
from plait.agents.connecting.jsonc import Bare, NotEditable
from plait.agents.connecting.places import AGENTS, AgentScope, Hooks, Launch, Machine, ServerEntry
from plait.agents.connecting.planning import (
    FileRecord,
    WantedConnection,
    plan_connect,
    plan_disconnect,
)

LAUNCH = Launch(("/opt/my tools/plait",), windows=False)
NEW = {"type": "stdio", "command": "/opt/plait", "args": ["mcp"]}

# -- texts ---------------------------------------------------------------------------------

NAMES = st.sampled_from(["mcpServers", "hooks", "Stop", "plait ", "a", "é", "// no", "/* x", ""])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.text(alphabet='ab"\\/{}[],:\n\u2028é', max_size=6),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)
BLANKS = st.sampled_from(
    ["", "", " ", "\n", "\n  ", "\t", "\r\n", " // c, }\n", '/* [ " */', " /* a\nb */ "]
)


@st.composite
def json_text(draw: st.DrawFn, value: Any, *, comments: bool = True) -> str:
    """A text of this value, with blanks, comments and trailing commas where they may be."""

    def blank() -> str:
        drawn = draw(BLANKS)
        return drawn if comments or "/" not in drawn else " "

    def comma(is_last: bool) -> str:
        return "," if not is_last or (comments and draw(st.booleans())) else ""

    def write(part: Any) -> str:
        if isinstance(part, dict):
            rows = [
                f"{blank()}{json.dumps(key, ensure_ascii=draw(st.booleans()))}{blank()}:{blank()}"
                f"{write(item)}{blank()}{comma(at == len(part) - 1)}"
                for at, (key, item) in enumerate(part.items())
            ]
            return "{" + "".join(rows) + blank() + "}"
        if isinstance(part, list):
            rows = [
                f"{blank()}{write(item)}{blank()}{comma(at == len(part) - 1)}"
                for at, item in enumerate(part)
            ]
            return "[" + "".join(rows) + blank() + "]"
        return json.dumps(part, ensure_ascii=draw(st.booleans()))

    start = draw(st.sampled_from(["", "", "\ufeff"]))
    return start + blank() + write(value) + blank()


OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)
JSON_TEXTS = OBJECTS.flatmap(json_text)


def is_insertion(before: str, after: str) -> bool:
    """Whether ``after`` is ``before`` with something put in at one place."""
    head = 0
    while head < len(before) and before[head] == after[head]:
        head += 1
    return after.endswith(before[head:])


# -- JSON ----------------------------------------------------------------------------------


@given(JSON_TEXTS)
def test_a_json_text_is_read_as_its_value(text):
    plain = jsonc.parse(text).value
    assert isinstance(plain, dict)
    if "/" not in text and ",]" not in "".join(text.split()) and ",}" not in "".join(text.split()):
        assert json.loads(text.lstrip("\ufeff")) == plain


@given(
    JSON_TEXTS, st.sampled_from([["new"], ["new", "plait"], ["mcpServers", "plait"], ["a", "p"]])
)
def test_adding_a_value_inserts_at_one_place_and_removing_it_gives_the_bytes_back(text, path):
    value = jsonc.parse(text).value
    try:
        added, made = jsonc.add(text, path, NEW)
    except NotEditable:
        part = value.get(path[0])
        assert not isinstance(part, dict) or path[-1] in part or path == ["a"]
        return
    assert is_insertion(text, added)
    wanted = {**value}
    inner = wanted if len(path) == 1 else wanted.setdefault(path[0], {})
    if len(path) == 2:
        wanted[path[0]] = {**inner, path[1]: NEW}
    else:
        wanted[path[0]] = NEW
    assert jsonc.parse(added).value == wanted
    removed = jsonc.remove(added, path)
    assert (jsonc.remove(removed, made) if made else removed) == text


@given(
    st.tuples(OBJECTS, st.lists(VALUES, max_size=3)).flatmap(
        lambda drawn: json_text({**drawn[0], "hooks": drawn[1]})
    )
)
def test_adding_an_element_inserts_at_one_place_and_removing_it_gives_the_bytes_back(text):
    value = jsonc.parse(text).value
    added = jsonc.add_element(text, ["hooks"], NEW)
    assert is_insertion(text, added)
    assert jsonc.parse(added).value == {**value, "hooks": [*value["hooks"], NEW]}
    assert jsonc.remove(added, ["hooks", len(value["hooks"])]) == text


@given(JSON_TEXTS, st.data())
def test_removing_any_value_keeps_the_others_and_every_comment(text, data):
    value = jsonc.parse(text).value
    assume(value)
    name = data.draw(st.sampled_from(sorted(value)))
    removed = jsonc.remove(text, [name])
    assert jsonc.parse(removed).value == {key: value[key] for key in value if key != name}
    [member] = [row for row in jsonc.parse(text).members if row.key == name]
    outside = text[: member.start] + text[member.node.end :]
    assert squashed(removed) == squashed(outside)


def squashed(text: str) -> str:
    """A text without what may go with a value: commas and blanks."""
    return "".join(text.replace(",", "").split())


@given(JSON_TEXTS, st.data())
def test_replacing_a_value_changes_nothing_before_and_behind_it(text, data):
    value = jsonc.parse(text).value
    assume(value)
    name = data.draw(st.sampled_from(sorted(value)))
    node = jsonc.find(jsonc.parse(text), [name])
    assert node is not None
    replaced = jsonc.replace(text, [name], NEW)
    assert replaced.startswith(text[: node.start]) and replaced.endswith(text[node.end :])
    assert jsonc.parse(replaced).value == {**value, name: NEW}


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", '{"a"}', '{"a": }', '{"a": 1 "b": 2}', "{a: 1}", "[1,,2]", '{"a": tru}'),
        *('{"a": 01}', '{"a": "\\x"}', "{} {}", '{"a": "b', "{/* x }", "{'a': 1}", '{"a": NaN}'),
        "[" * 300 + "]" * 300,
    ],
)
def test_what_is_no_json_is_refused(text):
    with pytest.raises(NotEditable):
        jsonc.parse(text)


def test_a_name_that_is_there_twice_is_refused():
    with pytest.raises(NotEditable, match="twice"):
        jsonc.add('{"mcpServers": {}, "mcpServers": {}}', ["mcpServers", "plait"], NEW)


def test_json5_is_read_where_it_is_used_and_keeps_its_form():
    text = "{mcp: {'servers': {x: {command: 'y', port: 0x1F, n: .5, s: 'it\\'s'}}}, // mine\n}"
    added, made = jsonc.add(text, ["mcp", "servers", "plait"], NEW, json5=True)
    assert made is None and is_insertion(text, added)
    servers = jsonc.parse(added, json5=True).value["mcp"]["servers"]
    assert servers["plait"] == NEW and servers["x"]["port"] == Bare("0x1F")
    assert jsonc.remove(added, ["mcp", "servers", "plait"], json5=True) == text


def test_an_entry_looks_like_its_neighbours():
    text = '{\r\n\t"mcpServers": {\r\n\t\t"other": {}\r\n\t}\r\n}\r\n'
    added, _ = jsonc.add(text, ["mcpServers", "plait"], {"command": "p"})
    assert added == text.replace(
        '{\r\n\t\t"other"', '{\r\n\t\t"plait": {\r\n\t\t\t"command": "p"\r\n\t\t},\r\n\t\t"other"'
    )
    added, _ = jsonc.add('{"mcpServers": {"other": {}}}', ["mcpServers", "plait"], {"command": "p"})
    assert added == '{"mcpServers": {"plait": {"command": "p"},"other": {}}}'


# -- TOML ----------------------------------------------------------------------------------

TOML_LINES = st.sampled_from(
    [
        "",
        "# a comment [mcp_servers.plait]",
        "{n} = 1",
        '{n} = "[x] # no"',
        "{n} = '''\n[mcp_servers.plait]\ncommand = 1\n'''",
        '{n} = """a ""\n[b]"""""',
        "{n} = [\n  1, # [c]\n  2,\n]",
        "{n} = {{ x = [1] }}",
        "  {n}.y = 2",
        "[t{n}]",
        "[[a{n}]]",
        "[ mcp_servers . s{n} ]",
        "[mcp_servers.s{n}.env]",
        '["mcp_servers"."q{n}"] # c',
    ]
)


@st.composite
def toml_text(draw: st.DrawFn) -> str:
    rows = [row.format(n=f"k{at}") for at, row in enumerate(draw(st.lists(TOML_LINES, max_size=8)))]
    line = draw(st.sampled_from(["\n", "\r\n"]))
    text = "\n".join(rows).replace("\n", line)
    return text + draw(st.sampled_from(["", line, line * 2]))


@given(toml_text())
def test_adding_a_table_appends_and_removing_it_gives_the_bytes_back(text):
    before = toml.parse_toml(text)
    added = toml.add_table(text, ["mcp_servers", "plait"], {"command": "a\x7f\\", "args": ["mcp"]})
    assert added.startswith(text)
    after = toml.parse_toml(added)
    assert after["mcp_servers"].pop("plait") == {"command": "a\x7f\\", "args": ["mcp"]}
    assert {**before, "mcp_servers": before.get("mcp_servers", {})} == after
    assert toml.remove_table(added, ["mcp_servers", "plait"]) == text


@given(toml_text(), toml_text())
def test_a_table_between_others_is_removed_alone(text, more):
    table = toml.add_table(text, ["mcp_servers", "plait"], {"command": "p", "args": []})
    behind = "[behind]\n" + more.replace("k", "z").replace("[mcp_servers", "[other")
    behind = behind.replace('["mcp_servers"', '["other"')
    whole = table + behind
    try:
        values = toml.parse_toml(whole)
    except NotEditable:
        assume(False)
    del values["mcp_servers"]["plait"]
    removed = toml.remove_table(whole, ["mcp_servers", "plait"])
    assert removed.startswith(text) and removed.endswith(behind)
    left = toml.parse_toml(removed)
    assert {**left, "mcp_servers": left.get("mcp_servers", {})} == values


@given(toml_text())
def test_new_values_of_a_table_leave_its_others_alone(text):
    path = ["mcp_servers", "plait"]
    old = toml.add_table(text, path, {"command": "old", "args": ["mcp"]})
    old += 'tool_timeout_sec = 60 # mine\n[mcp_servers.plait.env]\nA = "b"\n'
    new = toml.set_in_table(old, path, {"command": "new", "args": ["mcp"], "cwd": "/"})
    undone = new.replace('command = "new"', 'command = "old"').replace('cwd = "/"\r\n', "")
    assert undone.replace('cwd = "/"\n', "") == old
    table = toml.parse_toml(new)["mcp_servers"]["plait"]
    assert table["command"] == "new" and table["env"] == {"A": "b"}
    assert table["tool_timeout_sec"] == 60
    assert toml.remove_table(new, path) == text


@pytest.mark.parametrize(
    "text",
    ["a = ", "mcp_servers = 1", "mcp_servers = { x = {} }", "[mcp_servers]\nplait.command = 'x'\n"],
)
def test_a_table_that_cannot_be_added_is_refused(text):
    with pytest.raises(NotEditable):
        toml.add_table(text, ["mcp_servers", "plait"], {"command": "p"})


# -- YAML ----------------------------------------------------------------------------------

YAML_BLOCKS = st.sampled_from(
    [
        "# mcp_servers: no",
        "",
        "k{n}: 1 # c",
        "k{n}:\n  - a\n  - b: c",
        "k{n}:\n- a\n- b",
        "k{n}: |\n  mcp_servers:\n    plait: 1",
        'k{n}: "x: y"',
        "k{n}:\n    mcp_servers:\n        a: 1",
    ]
)
YAML_SERVERS = st.sampled_from(
    [
        None,
        "mcp_servers:",
        "mcp_servers: # mine",
        "mcp_servers:\n    time:\n        command: uvx # c\n\n    # last\n    b: {x: 1}",
        "'mcp_servers':\n  x:\n    - 1",
    ]
)


@st.composite
def yaml_text(draw: st.DrawFn) -> str:
    rows = [row.format(n=at) for at, row in enumerate(draw(st.lists(YAML_BLOCKS, max_size=4)))]
    servers = draw(YAML_SERVERS)
    if servers is not None:
        rows.insert(draw(st.integers(0, len(rows))), servers)
    line = draw(st.sampled_from(["\n", "\r\n"]))
    text = "\n".join(rows).replace("\n", line)
    return text + draw(st.sampled_from(["", line, line * 2]))


@given(yaml_text())
def test_adding_an_entry_inserts_at_one_place_and_removing_it_gives_the_bytes_back(text):
    keys = ["mcp_servers", "plait"]
    added, is_new = yaml.set_entry(text, keys, NEW)
    assert is_insertion(text, added)
    assert yaml.entry_of(added, keys) == NEW
    changed, _ = yaml.set_entry(added, keys, {"command": "other"})
    assert yaml.entry_of(changed, keys) == {"command": "other"}
    assert yaml.remove_entry(changed, keys, with_top=is_new) == text


@pytest.mark.parametrize(
    "text",
    [
        *("mcp_servers: {}\n", "mcp_servers: {a: 1}\n", "mcp_servers:\n\ta: 1\n", "[1, 2]\n"),
        *("mcp_servers:\n- a\n", "mcp_servers:\n  a: 1\nmcp_servers:\n", "a: 1\n---\nb: 2\n"),
        *("mcp_servers: &x\n  a: 1\n", "mcp_servers:\n  plait:\n    command: p\n"),
        *("mcp_servers:\n    a: 1\n  b: 2\n", "mcp_servers:\n  ? a\n"),
    ],
)
def test_yaml_of_another_form_is_refused(text):
    with pytest.raises(NotEditable):
        yaml.set_entry(text, ["mcp_servers", "plait"], NEW)


# -- whole connections ---------------------------------------------------------------------


class Files(dict[str, bytes]):
    """Files by their path, and what connecting made in them."""

    def __init__(self) -> None:
        super().__init__()
        self.records: dict[str, FileRecord] = {}

    def connect(self, machine: Machine, agent: str, scope: AgentScope, **more: bool) -> int:
        plan = plan_connect(
            AGENTS[agent], machine, scope, WantedConnection(LAUNCH, **more), self.get, self.records
        )
        return self._apply(plan)

    def disconnect(self, machine: Machine, agent: str, scope: AgentScope) -> int:
        return self._apply(plan_disconnect(AGENTS[agent], machine, scope, self.get, self.records))

    def _apply(self, changes: Any) -> int:
        for change in changes:
            assert self.get(change.path) == change.before
            self.pop(change.path, None)
            if change.after is not None:
                self[change.path] = change.after
            self.records[change.path] = change.record
        return len(changes)


MACHINE = Machine("/h", "/p", {}, "linux")
PLACES = [
    (name, scope) for name, agent in AGENTS.items() for scope in ("user", "project")
    if agent.pieces(MACHINE, scope)
]  # fmt: skip


@st.composite
def shared_json(draw: st.DrawFn) -> str:
    """Settings in JSON in which plait's entry and hooks can be put."""
    value: dict[str, Any] = draw(OBJECTS)
    containers = ("hooks", "mcpServers", "servers", "mcp", "context_servers")
    value |= {key: {"other": {}} for key in containers if not isinstance(value.get(key, {}), dict)}
    if isinstance(value.get("hooks"), dict) and "Stop" in value["hooks"]:
        value["hooks"] = {**value["hooks"], "Stop": draw(st.lists(VALUES, max_size=2))}
    return draw(st.one_of(json_text(value), st.sampled_from(["", " \n"])))


@st.composite
def settings_of(draw: st.DrawFn, agent: str, scope: AgentScope) -> dict[str, bytes]:
    """What the user has in the files that an agent shares with plait."""
    files = {}
    texts = {"toml": toml_text(), "yaml": yaml_text()}
    for piece in AGENTS[agent].pieces(MACHINE, scope):
        if (
            isinstance(piece, ServerEntry | Hooks)
            and piece.path not in files
            and draw(st.booleans())
        ):
            form = piece.form if isinstance(piece, ServerEntry) else "json"
            files[piece.path] = draw(texts.get(form, shared_json())).encode()
    return files


@pytest.mark.parametrize(("agent", "scope"), PLACES, ids=lambda part: part)
@settings(max_examples=15)
@given(data=st.data())
def test_connecting_and_disconnecting_gives_back_the_exact_bytes(agent, scope, data):
    files = Files()
    files.update(data.draw(settings_of(agent, scope)))
    before = dict(files)
    assert files.connect(MACHINE, agent, scope, work=data.draw(st.booleans())) > 0
    files.connect(MACHINE, agent, scope)
    assert files.connect(MACHINE, agent, scope) == 0  # the second time changes nothing
    assert files.disconnect(MACHINE, agent, scope) > 0
    assert dict(files) == before
    assert files.disconnect(MACHINE, agent, scope) == 0
    assert all(record == FileRecord() for record in files.records.values())


@pytest.mark.parametrize(
    ("agent", "path", "text"),
    [
        ("claude-code", "/h/.claude.json", '{"mcpServers": {}}'),
        ("claude-code", "/h/.claude/settings.json", '{"hooks": {"Stop": []}}'),
        ("cursor", "/h/.cursor/hooks.json", '{"version": 1, "hooks": {}}'),
        ("codex", "/h/.codex/config.toml", ""),
        ("hermes", "/h/.hermes/config.yaml", "mcp_servers:\n"),
    ],
)
@pytest.mark.parametrize("by_hand", [True, False], ids=["by hand", "by plait"])
def test_what_the_user_writes_after_plait_was_taken_out_is_his(agent, path, text, by_hand):
    files = Files()
    files.connect(MACHINE, agent, "user")
    if not by_hand:
        files.disconnect(MACHINE, agent, "user")
    files[path] = text.encode()
    files.connect(MACHINE, agent, "user")
    assert files[path] != text.encode()
    files.disconnect(MACHINE, agent, "user")
    assert files[path] == text.encode()


def test_hooks_that_are_taken_out_alone_leave_no_trace():
    files = Files()
    files.connect(MACHINE, "cursor", "user")
    files.connect(MACHINE, "cursor", "user", hooks=False)
    assert "/h/.cursor/hooks.json" not in files and "/h/.cursor/mcp.json" in files


STOP = {"type": "command", "command": LAUNCH.hook("claude-code", "Stop"), "timeout": 60}
OLD_STOP = {"type": "command", "command": "/old/plait hook claude-code Stop"}
OTHER = {"type": "command", "command": "say done"}


@pytest.mark.parametrize(
    ("handlers", "left"),
    [
        ([OTHER, STOP, STOP], [OTHER, STOP]),
        ([STOP, OTHER, OLD_STOP], [STOP, OTHER]),
        ([OLD_STOP, OTHER, OLD_STOP], [STOP, OTHER]),
        ([STOP, "a text"], [STOP, "a text"]),
        ([OLD_STOP, STOP], [STOP]),
    ],
)
def test_of_several_hooks_of_ours_one_stays_and_those_of_others_all(handlers, left):
    files = Files()
    path = "/h/.claude/settings.json"
    files[path] = json.dumps({"hooks": {"Stop": [{"hooks": handlers}]}}).encode()
    files.connect(MACHINE, "claude-code", "user")
    assert json.loads(files[path])["hooks"]["Stop"] == [{"hooks": left}]
    files.disconnect(MACHINE, "claude-code", "user")
    rest = [row for row in left if row != STOP]
    assert json.loads(files[path])["hooks"]["Stop"] == ([{"hooks": rest}] if rest else [])
