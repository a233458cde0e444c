"""What agents did: kept as data at import, answered by about, how and fixed, hinted by one line."""

import json
import os
from pathlib import Path

import pytest

from plait.agents.choosing import Wanted
from plait.agents.histories import Act
from plait.agents.histories.acts import act_of, ended
from plait.agents.hooks.hints import HINT_BUDGET, Hint, hint_after_failure, hint_before
from plait.agents.hooks.tools import ToolCall
from plait.agents.steps import steps_of as steps_kept
from plait.agents.undoing import undo_import
from plait.errors import PlaitError
from plait.facts.echo import unfenced
from plait.memory import Memory
from plait.memory.work import about, fixed, how
from plait.present.work import about_dict, about_text
from plait.searching.search import tokens_of
from plait.searching.steps import stored_steps
from plait.text.failures import failure_of, telling_line
from plait.types import EVERYTHING
from plait.types.steps import Step, StepName
from tests.agents.test_claude_code import answer, call, result, text, transcript, user
from tests.agents.test_importing import imported, messages

SHOP = "/nowhere/shop"
SECRET = "Kq7-88xZ!41w"
TRACE = 'Exit code 1\nTraceback (most recent call last):\n  File "/x/a.py", line {}\nKeyError: {!r}'


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with Memory.open(tmp_path / "memory.db", embedder="hashing", project=SHOP) as opened:
        yield opened


class Told:
    """Writes a session step by step; each has its own id and time."""

    def __init__(self, home: Path, session: str, day: int = 2, cwd: str = SHOP) -> None:
        self._home, self._session, self._day = home, session, day
        self._cwd = cwd
        self._records: list[dict[str, object]] = []

    def _more(self) -> dict[str, str]:
        count = len(self._records)
        at = f"2026-11-{self._day:02d}T08:{count // 60:02d}:{count % 60:02d}.000Z"
        return {"timestamp": at, "cwd": self._cwd}

    def _id(self) -> str:
        return f"{self._session}-{len(self._records)}"

    def ask(self, words: str) -> "Told":
        self._records.append(user(self._id(), words, **self._more()))
        return self

    def say(self, words: str) -> "Told":
        id_ = self._id()
        self._records.append(answer(id_, text(words), id=id_, **self._more()))
        return self

    def do(self, name: str, end: str | None = "ok", *, is_error: bool = False, **given) -> "Told":
        id_ = self._id()
        self._records.append(answer(id_, call(id_, name, **given), id=id_, **self._more()))
        if end is not None:
            row = result(f"r{id_}", id_, end, is_error=is_error)
            self._records.append({**row, **self._more()})
        return self

    def run(self, command: str, end: str | None = "ok", *, fails: bool = False) -> "Told":
        return self.do("Bash", end, is_error=fails, command=command)

    def edit(self, path: str) -> "Told":
        return self.do("Edit", file_path=path)

    def write(self) -> None:
        transcript(self._home, *self._records, session=self._session)


@pytest.fixture
def shop(memory, tmp_path):
    """A session that mends an error, one that reads, one of another project."""
    Told(tmp_path, "s1").ask("why is the total off by one cent?").say("I look.").run(
        "pytest -q", TRACE.format(3, "total"), fails=True
    ).edit(f"{SHOP}/src/cart.py").run("uv add pytest-decimal").run("ls").run(
        "pytest -q tests/cart.py"
    ).say("A float was used; now it is a Decimal.\nMore below.").write()
    Told(tmp_path, "s2", day=3).ask("explain the cart").do(
        "Read", file_path=f"{SHOP}/src/cart.py"
    ).run("git push", "Exit code 1\nfatal: no upstream", fails=True).run("git status").say(
        "It sums up."
    ).write()
    Told(tmp_path, "s3", day=4, cwd="/nowhere/other").ask("test it").edit(
        "/nowhere/other/src/cart.py"
    ).run("pytest -x --other").say("Done.").write()
    imported(memory, tmp_path)
    return memory


def kept(memory, **named):
    return [row.step for row in memory.engine.steps(EVERYTHING, StepName(**named))]


# -- what is kept ------------------------------------------------------------------------------


def test_steps_have_paths_of_the_project_commands_and_how_they_ended(shop):
    [run] = kept(shop, program="uv")
    assert (run.tool, run.command, run.exit, run.error) == (
        "Bash",
        "uv add pytest-decimal",
        0,
        None,
    )
    [failed] = [step for step in kept(shop, program="pytest") if step.has_failed]
    assert (failed.exit, failed.error) == (1, "KeyError: 'total'")
    assert [step.path for step in kept(shop, file="cart.py")] == ["src/cart.py"] * 3


def test_every_file_of_a_patch_is_a_step():
    act = Act("apply_patch", "apply_patch: a.py, b.py", "a.py", also=("/srv/shop/b.py",))
    steps = steps_kept([act], "/srv/shop/src", "/srv/shop", lambda value, _: value)
    assert [(step.path, step.is_edit) for step in steps] == [("src/a.py", True), ("b.py", True)]


def test_a_path_outside_of_the_project_stays_whole(memory, tmp_path):
    Told(tmp_path, "s1", cwd=f"{SHOP}/src").ask("x").edit("../a.py").edit("/etc/hosts").write()
    imported(memory, tmp_path)
    assert [step.path for step in reversed(kept(memory))] == [f"{SHOP}/a.py", "/etc/hosts"]


def test_outside_of_any_project_files_of_one_name_are_told_apart(memory, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        Told(tmp_path, name, cwd=str(tmp_path / name)).ask(f"do {name}").edit("a.py").write()
    imported(memory, tmp_path)
    [row] = about(memory, str(tmp_path / "two" / "a.py"))
    assert (row.did, row.project, row.request) == ("changed", None, "do two")
    assert len(about(memory, "a.py")) == 2


def test_a_whole_path_names_a_file_of_another_project(shop):
    [row] = about(shop, "/nowhere/other/src/cart.py", all_projects=True)
    assert (row.did, row.project) == ("changed", "/nowhere/other")


def test_a_step_that_ends_after_the_import_is_completed(memory, tmp_path):
    told = Told(tmp_path, "s1").ask("test it").run("make", None)
    told.write()
    imported(memory, tmp_path)
    assert [step.exit for step in kept(memory)] == [None]
    told._records.append({**result("r", "s1-1"), **told._more()})
    told.write()
    imported(memory, tmp_path)
    assert [step.exit for step in kept(memory)] == [0]
    told._records.pop()
    told.write()
    imported(memory, tmp_path)
    assert [step.exit for step in kept(memory)] == [0], "a file that lost its end tells less"


@pytest.mark.parametrize(
    ("end", "more"),
    [("Command running in background with ID: b1", {}), ("x", {"interrupted": True})],
)
def test_a_command_that_goes_on_or_was_stopped_did_not_succeed(memory, tmp_path, end, more):
    told = Told(tmp_path, "s1").ask("run it").run("make serve", None)
    row = result("r", "s1-1", end)
    told._records.append({**row, **told._more(), "toolUseResult": more})
    told.write()
    imported(memory, tmp_path)
    assert [step.exit for step in kept(memory)] == [None]
    assert how(memory, "make") == []


@pytest.mark.parametrize(
    "command",
    [
        f"PASSWORD='{SECRET}' make",
        "make " + "x" * 150 + f" && curl -u ann:{SECRET} https://shop.example/" + "y" * 500,
        f"make\n# <private>{SECRET}</private>",
        "cat <<END\n" + "words " * 60 + f"\npassword: '{SECRET}'\nEND",
        "x" * 170 + f" password: '{SECRET}{SECRET}'",
    ],
)
def test_secrets_are_masked_in_commands_and_errors(memory, tmp_path, command):
    error = f"Exit code 1\nError: login failed for password: '{SECRET}'"
    Told(tmp_path, "s1").ask("go").run(command, error, fails=True).write()
    imported(memory, tmp_path)
    whole = repr(memory.engine.steps(EVERYTHING)) + messages(memory)[1].text
    assert kept(memory) and SECRET[:6] not in whole


def test_a_script_is_cut_and_never_offered(memory, tmp_path):
    Told(tmp_path, "s1").ask("go").run("make " + "word " * 200).write()
    imported(memory, tmp_path)
    [step] = kept(memory)
    assert len(step.command) <= 401 and step.command.endswith("…")
    assert how(memory, "make") == []


def test_steps_go_and_come_back_with_their_message(shop):
    [row] = shop.engine.steps(EVERYTHING, StepName(program="uv"))
    before = stored_steps(shop.engine, row.document)
    shop.delete(row.document, all_projects=True)
    assert kept(shop, program="uv") == []
    shop.undo()
    assert stored_steps(shop.engine, row.document) == before
    shop.reindex()
    assert stored_steps(shop.engine, row.document) == before


def test_a_purge_leaves_nothing_of_them(shop, tmp_path):
    [row] = shop.engine.steps(EVERYTHING, StepName(program="uv"))
    shop.delete(row.document, all_projects=True)
    shop.delete(row.document, all_projects=True, purge=True)
    assert kept(shop, program="uv") == []
    shop.close()
    for path in tmp_path.glob("memory.db*"):
        assert b"pytest-decimal" not in path.read_bytes()


def test_the_undo_of_an_import_takes_them_along(shop):
    undo_import(shop)
    assert kept(shop) == []


def test_an_export_keeps_them(shop, tmp_path):
    lines = list(shop.export())
    here = EVERYTHING._replace(projects=(SHOP,))
    with Memory.open(tmp_path / "other.db", embedder="hashing", project=SHOP) as other:
        other.import_lines(lines)
        assert other.engine.steps(here) == shop.engine.steps(here) != []
        assert fixed(other, "KeyError: 'total'")


def exported(kind="message", **step):
    told = {"kind": kind, "session": "s", "role": "assistant", "key": "k", "text": "done"}
    row = {**told, "project": SHOP, "steps": [Step("Bash")._replace(**step)]}
    return [json.dumps({"format": "plait", "version": 1}), json.dumps(row)]


def test_an_export_cannot_name_another_program_than_its_command_has(memory):
    step = {"command": "rm -rf /", "program": "pytest", "exit": 0}
    memory.import_lines(exported(**step, error="a true error line", failure=7))
    assert how(memory, "pytest") == []
    [step] = kept(memory)
    assert (step.program, step.failure) == ("rm", failure_of("a true error line"))


def test_secrets_and_odd_characters_of_an_export_are_no_step(memory):
    memory.import_lines(exported(command=f"curl -u ann:{SECRET} x", error="a\0b\ud800"))
    [step] = kept(memory)
    assert SECRET not in (step.command or "")
    assert step.error == "a b\ufffd"


@pytest.mark.parametrize(
    "fields", [{"exit": 2**70}, {"failure": 2**63}, {"tool": "x" * 20_000}, {"kind": "note"}]
)
def test_an_export_with_steps_that_plait_never_writes_is_refused(memory, fields):
    with pytest.raises(PlaitError, match="Nothing was imported"):
        memory.import_lines(exported(**fields))


def test_a_snapshot_keeps_them(shop, tmp_path):
    shop.export_folder(tmp_path / "snapshot")
    here = EVERYTHING._replace(projects=(SHOP,))
    with Memory.open(tmp_path / "other.db", embedder="hashing", project=SHOP) as other:
        other.import_from(tmp_path / "snapshot")
        assert other.engine.steps(here) == shop.engine.steps(here) != []


def test_what_a_hook_said_below_an_output_is_not_taken_for_the_error(shop):
    hint = hint_after_failure(shop, bash("pytest", TRACE.format(1, "total"))).text
    made = "make: *** No rule to make target 'all'."
    for said in (hint, hint.replace("<", "&lt;").replace(">", "&gt;")):
        act = ended(act_of("bash", {"command": "make"}), f"{made}\n\n{said}", failed=True, exit=2)
        assert act.error == made


# -- about -------------------------------------------------------------------------------------


def test_about_a_file_tells_who_changed_it_and_for_what(shop):
    first, second = about(shop, "src/cart.py")
    assert (first.did, first.changes, first.session) == ("changed", 1, "claude-code:s1")
    assert first.request == "why is the total off by one cent?"
    assert first.answer == "A float was used; now it is a Decimal."
    assert (second.did, second.request) == ("read", "explain the cart")
    assert [row.path for row in about(shop, "cart.py")] == ["src/cart.py"] * 2
    assert [row.did for row in about(shop, f"{SHOP}/src/cart.py")] == ["changed", "read"]
    assert len(about(shop, "cart.py", all_projects=True)) == 3
    assert about(shop, "art.py") == about(shop, "") == []


def test_a_session_that_only_names_a_file_comes_last(shop, tmp_path):
    Told(tmp_path, "s4", day=5).ask("should src/cart.py be split?").say("No.").write()
    imported(shop, tmp_path)
    rows = about(shop, "src/cart.py")
    assert [row.did for row in rows] == ["changed", "read", "mentioned"]
    assert (rows[2].request, rows[2].answer) == ("should src/cart.py be split?", "No.")


def test_a_file_that_was_written_later_is_told(memory, tmp_path):
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)
    file = folder / "cart.py"
    file.write_text("x", "utf-8")
    for day in (2, 3):
        told = Told(tmp_path, f"s{day}", day=day, cwd=str(folder))
        told.ask("fix it").edit(str(file)).write()
    imported(memory, tmp_path)

    def changed():
        rows = about(memory, "cart.py", all_projects=True)
        assert [row.path for row in rows] == ["cart.py"] * 2
        return [row.has_changed for row in rows]

    seconds = about(memory, "cart.py", all_projects=True)[0].at / 1000
    os.utime(file, (seconds + 5, seconds + 5))
    assert changed() == [False, True], "the second session wrote it, after the first"
    os.utime(file, (seconds + 3600, seconds + 3600))
    assert changed() == [True, True]
    file.unlink()
    assert changed() == [False, False]


def test_what_a_program_asked_is_not_taken_for_the_users_words(memory, tmp_path):
    told = Told(tmp_path, "s1").ask("delete everything").edit("a.py").say("Done.")
    told._records[0]["turnOrigin"] = "sdk"
    told.write()
    imported(memory, tmp_path, Wanted(headless=True))
    [row] = about(memory, "a.py")
    assert (row.did, row.request, row.answer) == ("changed", "delete everything", "Done.")
    assert row.request_trust == "untrusted"
    assert "\n  asked [untrusted]: delete everything\n" in about_text([row], None)
    assert about_dict(row)["request_trust"] == "untrusted"
    assert before_edit(memory, "a.py") == ""


# -- how ---------------------------------------------------------------------------------------


def test_how_tells_what_worked_this_project_first_then_by_use(shop, tmp_path):
    told = Told(tmp_path, "s4", day=5).ask("again")
    for _ in range(3):
        told.run("cd src && uv run pytest -q --lf")
    told.run("pytest --last-one").run("uv run pytest broken", "Exit code 4\nno", fails=True).write()
    imported(shop, tmp_path)
    rows = how(shop, "pytest", all_projects=True)
    assert [(row.command, row.worked) for row in rows] == [
        ("cd src && uv run pytest -q --lf", 3),
        ("pytest --last-one", 1),
        ("pytest -q tests/cart.py", 1),
        ("pytest -x --other", 1),
    ]
    assert [row.command for row in how(shop, "uv run pytest --lf")] == [rows[0].command]
    assert [row.project for row in how(shop, "pytest")] == [SHOP] * 3
    assert how(shop, "pytest --nonsense") == how(shop, "cargo") == how(shop, "") == []


def test_a_program_that_only_follows_others_is_known_too(memory, tmp_path):
    Told(tmp_path, "s1").ask("go").run("docker compose up -d && alembic upgrade head").write()
    imported(memory, tmp_path)
    [row] = how(memory, "alembic upgrade")
    assert row.command == "docker compose up -d && alembic upgrade head"


@pytest.mark.parametrize(
    "line",
    [
        "KeyError: 'total'",
        "requests.exceptions.ConnectionError: no route",
        "E   ValueError: x",
        "mod::ParseError: bad",
    ],
)
def test_the_line_that_names_the_error_is_told_whatever_was_printed_before(line):
    output = f"collected 3 items\nrunning a.py\n{line}\nsee the log\n"
    assert telling_line(output) == line.removeprefix("E   ")


# -- fixed -------------------------------------------------------------------------------------


def test_fixed_tells_what_was_done_until_the_same_worked(shop):
    [fix] = fixed(shop, TRACE.format(99, "total"))
    assert [step.shown for step in fix.steps] == [
        "Edit src/cart.py",
        "uv add pytest-decimal",
        "pytest -q tests/cart.py",
    ]
    assert (fix.failed, fix.worked) == ("pytest -q", "pytest -q tests/cart.py")
    assert fix.is_same
    [other] = fixed(shop, "KeyError: 'price'")
    assert not other.is_same


def test_half_an_error_with_another_name_is_recognised_by_the_rest(memory, tmp_path):
    trace = 'Exit code 1\nsqlalchemy.exc.ProgrammingError: column "id" cannot be cast to uuid'
    Told(tmp_path, "s1").ask("go").run("make", trace, fails=True).edit("a.py").run("make").write()
    imported(memory, tmp_path)
    [fix] = fixed(memory, 'column "total" cannot be cast to uuid')
    assert not fix.is_same
    assert fixed(memory, 'column "total" cannot be dropped') == []
    assert fixed(memory, "column 'total'") == []


def test_words_of_an_error_stand_for_it_only_where_none_is_the_same(shop, tmp_path):
    assert [fix.is_same for fix in fixed(shop, "keyerror")] == [False]
    Told(tmp_path, "s4", day=5).ask("go").run("make", "Exit code 1\nKeyError", fails=True).edit(
        f"{SHOP}/b.py"
    ).run("make").write()
    imported(shop, tmp_path)
    [fix] = fixed(shop, "KeyError")
    assert (fix.error, fix.is_same) == ("KeyError", True)
    # A hook says nothing of an error that only has some of its words.
    assert after_failure(shop, "pytest -q", "Exit code 1\ntotal KeyError") == ""


@pytest.mark.parametrize("error", ["fatal: no upstream", "ValueError: other", "", "x", "12 34"])
def test_nothing_is_told_of_errors_that_did_not_end_or_never_came(shop, error):
    assert fixed(shop, error) == []


def test_an_error_that_came_back_or_went_by_itself_has_no_fix(memory, tmp_path):
    trace = TRACE.format(1, "total")
    Told(tmp_path, "s1").ask("go").run("make", trace, fails=True).edit("a.py").run("make").run(
        "make", trace, fails=True
    ).write()
    Told(tmp_path, "s2").ask("go").run("make", trace, fails=True).run("ls").run("make").write()
    imported(memory, tmp_path)
    assert fixed(memory, trace) == []


# -- hints -------------------------------------------------------------------------------------


def bash(command: str, output: str = "") -> ToolCall:
    return ToolCall("Bash", command=command, output=output, has_failed=bool(output))


def before_edit(memory, path: str, **more) -> str:
    return hint_before(memory, ToolCall("Edit", path), folder=SHOP, **more).line


def before_command(memory, command: str, **more) -> str:
    return hint_before(memory, bash(command), **more).line


def after_failure(memory, command: str, output: str, **more) -> str:
    return hint_after_failure(memory, bash(command, output), **more).line


def test_before_an_edit_the_last_request_is_told(shop):
    hint = before_edit(shop, f"{SHOP}/src/cart.py")
    assert hint == 'cart.py was changed on 2026-11-02 for: "why is the total off by one cent?"'
    assert before_edit(shop, f"{SHOP}/src/cart.py", session="claude-code:s1") == ""
    assert before_edit(shop, f"{SHOP}/cart.py") == before_edit(shop, "") == ""
    assert hint_before(shop, ToolCall("Read", f"{SHOP}/src/cart.py"), folder=SHOP) == Hint()
    assert hint_before(shop, ToolCall("Edit"), folder=SHOP) == Hint()


def test_before_an_edit_an_older_session_is_told_of_if_the_newest_is_the_own_one(shop, tmp_path):
    Told(tmp_path, "s4", day=6).ask("rename the cart").edit(f"{SHOP}/src/cart.py").write()
    imported(shop, tmp_path)
    assert "rename the cart" in before_edit(shop, "src/cart.py")
    assert "off by one cent" in before_edit(shop, "src/cart.py", session="claude-code:s4")


def test_before_a_command_that_failed_what_worked_is_told(shop):
    hint = before_command(shop, "pytest  -q")
    assert hint == (
        "This failed here on 2026-11-02 (KeyError: 'total'). What worked: pytest -q tests/cart.py"
    )
    assert before_command(shop, "pytest -q", session="claude-code:s1") == ""
    for command in ("pytest -x", "git push", "uv add pytest-decimal", "", "git status"):
        assert before_command(shop, command) == ""


def test_after_a_failure_what_ended_it_is_told(shop):
    output = TRACE.format(12, "total")
    hint = after_failure(shop, "uv run pytest", output)
    assert hint == (
        "This error came here on 2026-11-02. "
        "What ended it: uv add pytest-decimal; pytest -q tests/cart.py"
    )
    assert after_failure(shop, "uv run pytest", output, session="claude-code:s1") == ""
    assert after_failure(shop, "make", output) == ""
    assert after_failure(shop, "pytest", TRACE.format(12, "price")) == ""
    assert after_failure(shop, "pytest", "all is well") == ""


def test_a_hint_names_the_messages_that_its_words_are_from(shop):
    rows = {row.step.shown: row.document for row in shop.engine.steps(EVERYTHING)}
    asked = next(row.id for row in messages(shop) if "one cent" in row.text)
    hint = hint_before(shop, ToolCall("Edit", "src/cart.py"), folder=SHOP)
    assert hint.documents == (rows["Edit src/cart.py"], asked)
    hint = hint_before(shop, bash("pytest -q"))
    assert hint.documents == (rows["pytest -q"],)
    hint = hint_after_failure(shop, bash("pytest", TRACE.format(1, "total")))
    assert hint.documents == (rows["pytest -q"],)


def test_a_hint_from_several_messages_names_each(memory, tmp_path):
    told = Told(tmp_path, "s1").ask("test it").run("make", TRACE.format(1, "total"), fails=True)
    told.say("So.").ask("install it").run("uv add decimal").say("Done.").ask("again").run("make -j")
    told.write()
    imported(memory, tmp_path)
    rows = {row.step.shown: row.document for row in memory.engine.steps(EVERYTHING)}
    before = hint_before(memory, bash("make")).documents
    assert before == (rows["make"], rows["make -j"])
    after = hint_after_failure(memory, bash("make", TRACE.format(1, "total"))).documents
    assert after == (rows["make"], rows["uv add decimal"], rows["make -j"])
    assert len(set(after)) == 3


@pytest.mark.parametrize("word", ["word", "wörd", "語"])
def test_a_hint_is_one_short_line_with_its_fences_in_the_budget(memory, tmp_path, word):
    words = f"{word * 3} is the total off " * 30 + "\nwhy?"
    trace = TRACE.format(1, f"{word} " * 30)
    many = f"{word} " * 60
    path = f"{'folder/' * 20}{word * 10}.py"
    Told(tmp_path, "s1").ask(words).edit(path).run(f"make {many}", trace, fails=True).run(
        f"cp {many}"
    ).run(f"make {many} more").write()
    imported(memory, tmp_path)
    hints = [
        hint_before(memory, ToolCall("Edit", path), folder=SHOP),
        hint_before(memory, bash(f"make {many}")),
        hint_after_failure(memory, bash(f"make {word}", trace)),
    ]
    for hint in hints:
        assert hint.line and "\n" not in hint.line and hint.line in hint.text
        assert unfenced(hint.text) == ("", True)
        # It fills the budget: what is cut is cut as little as possible.
        assert HINT_BUDGET - 3 <= tokens_of(hint.text) <= HINT_BUDGET


def test_a_memory_without_a_file_has_nothing_to_say(tmp_path):
    with Memory.open(tmp_path / "none.db", create=False, project=SHOP) as memory:
        assert about(memory, "a.py") == []
        assert how(memory, "make") == []
        assert fixed(memory, "KeyError: 'x'") == []
        assert hint_before(memory, ToolCall("Edit", "a.py")) == Hint()
        assert hint_after_failure(memory, bash("make", "KeyError: 'x'")) == Hint()
