"""Addresses of databases: what they mean, and what of them may be shown."""

import json
import pickle
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.cli import main
from plait.errors import ConfigError, UsageError
from plait.memory import Memory
from plait.settings.databases import parse_address, without_passwords
from plait.stores import open_store
from plait.stores.postgres.address import ShownAddress, parse
from plait.types.ids import is_address
from tests.codes import has_code

SECRET = "geheim"


@pytest.mark.parametrize(
    ("address", "dsn", "namespace", "shown"),
    [
        *[
            (f"{scheme}://db/team", "postgresql://db/team", "default", "postgresql://db/team")
            for scheme in ("postgres", "postgresql")
        ],
        (
            "postgresql://ana:geheim@db:5433/team?sslmode=require&namespace=shop",
            "postgresql://ana:geheim@db:5433/team?sslmode=require",
            "shop",
            "postgresql://ana@db:5433/team?sslmode=require&namespace=shop",
        ),
        # The driver's own ways to name a server; a missing host stays missing.
        ("postgresql:///?service=team", "postgresql:///?service=team", "default", ""),
        (
            "postgresql://ana:@/team?host=/run/pg&port=5433",
            "postgresql://ana:@/team?host=/run/pg&port=5433",
            "default",
            "postgresql://ana@/team?host=/run/pg&port=5433",
        ),
        ("postgresql://a,b:5433/team", "postgresql://a,b:5433/team", "default", ""),
        ("postgresql://[::1]:5432/team", "postgresql://[::1]:5432/team", "default", ""),
        # What an option says stays as it is written, a plus sign too; most are not shown.
        (
            "postgresql://db/team?options=-c%20work_mem%3D8MB&password=a+geheim%25",
            "postgresql://db/team?options=-c%20work_mem%3D8MB&password=a+geheim%25",
            "default",
            "postgresql://db/team",
        ),
        (
            "postgresql://db/team?namespace=a%20b%26c+d",
            "postgresql://db/team",
            "a b&c+d",
            "postgresql://db/team?namespace=a%20b%26c%2Bd",
        ),
    ],
)
def test_an_address_has_a_place_a_memory_and_a_form_to_show(
    address: str, dsn: str, namespace: str, shown: str
) -> None:
    assert is_address(address)
    assert parse(address) == (dsn, namespace, shown or dsn)
    # What is shown opens the same memory, for whoever has the password elsewhere.
    again = parse(parse(address).shown)
    assert (again.namespace, again.shown) == (namespace, shown or dsn)


@pytest.mark.parametrize(
    "address",
    [
        *(f"postgresql://ana:gehe{sign}im@db/team" for sign in "/?#@"),
        "postgresql://ana:geheim/team",
        "postgresql://ana:12345678/team",
        "postgresql://ana:geheim[@db/team",
        "postgresql://ana:geheim\0@db/team",
        "postgresql://ana:geheim\n@db/team",
        "postgresql://ana:gehe℀im@db/team",
        "postgresql://db/team?geheim",
        "postgresql://db/team?password=geheim@x",
        "postgresql://db/team?namespace=" + "x" * 201,
        "mysql://ana:geheim@db/team",
        "postgresql+psycopg://ana:geheim@db/team",
    ],
    ids=ascii,
)
def test_what_cannot_be_read_is_refused_without_repeating_it(address: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_address(address, "flag --db")
    for secret in ("geheim", "gehe", "heim", "12345678", "ana"):
        assert secret not in str(refused.value)
    if is_address(address):
        with pytest.raises(UsageError) as refused_below:
            open_store(address)
        assert "gehe" not in str(refused_below.value)


@pytest.mark.parametrize(
    "typed",
    [
        *("postgresql:/ana:geheim@db/team", "postgres:ana:geheim@db", "POSTGRESQL:geheim"),
        *("host=db user=ana password=geheim", "dbname=team PASSWORD=geheim"),
    ],
)
def test_what_is_nearly_an_address_is_not_taken_for_a_file(
    typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--db", typed, "stats"]) == 2
    told = capsys.readouterr().err
    assert "geheim" not in told.lower()
    assert "postgresql://" in told
    with pytest.raises(ConfigError, check=has_code("bad_address")) as refused:
        Memory.open(typed)
    assert "geheim" not in str(refused.value).lower()


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9),
    st.sampled_from(["postgresql://ana:{}@db/x", "postgresql://db/x?password={}"]),
    st.booleans(),
)
def test_no_password_is_ever_shown(password: str, form: str, encoded: bool) -> None:
    secret = f"{SECRET}{password}{SECRET}"
    address = form.format(quote(secret, safe="") if encoded else secret)
    try:
        shown = ShownAddress.of(address)
    except UsageError as error:
        assert SECRET not in str(error)
        assert not encoded
    else:
        for text in (str(shown), repr(shown), f"{shown}", json.dumps(shown), parse(shown).shown):
            assert SECRET not in text
        assert SECRET in shown.whole
        assert shown.has_secret


def test_an_address_that_is_shown_still_opens_the_memory() -> None:
    address = ShownAddress.of("postgresql://ana:geheim@db/team?namespace=shop")
    assert ShownAddress.of(address) is address
    assert parse_address(address, "flag --db") is address
    assert parse(address).dsn == "postgresql://ana:geheim@db/team"
    assert pickle.loads(pickle.dumps(address)).whole == address.whole
    assert not ShownAddress.of("postgres://ana@db/team?sslmode=require").has_secret


@pytest.mark.parametrize("scheme", ["POSTGRES", "PostgreSQL"])
def test_the_scheme_may_be_in_capitals(scheme: str) -> None:
    assert parse_address(f" {scheme}://db/Team ", "flag --db") == "postgresql://db/Team"


@pytest.mark.parametrize("scheme", ["mysql", "sqlite", "file", "postgresql+psycopg2", "https"])
def test_an_engine_that_plait_does_not_have_is_refused(scheme: str) -> None:
    with pytest.raises(ConfigError, check=has_code("unknown_engine")) as refused:
        parse_address(f"{scheme}://ana:geheim@db/team", "environment PLAIT_DB")
    assert scheme[:20] in str(refused.value)
    assert "environment PLAIT_DB" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("See postgres://ana:geheim@db/x.", "See postgres://ana@db/x."),
        ("'http://ana:ge/he@im@db'", "'http://ana@db'"),
        ("a://b?password=geheim and more", "a://b?password=… and more"),
        ("Nothing: to hide at a@b, password=x", "Nothing: to hide at a@b, password=x"),
    ],
)
def test_messages_repeat_no_password(text: str, without: str) -> None:
    assert without_passwords(text) == without


def test_options_of_the_machine_and_of_the_address_come_before_plaits_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from plait.stores.postgres.pool import options_of

    for name in ("PGCONNECT_TIMEOUT", "PGSERVICE", "PGSERVICEFILE"):
        monkeypatch.delenv(name, raising=False)
    own = options_of("postgresql://db.example/team")
    assert own["connect_timeout"] == 10
    assert options_of("postgresql://db.example/team?connect_timeout=3")["connect_timeout"] == "3"
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "5")
    assert "connect_timeout" not in options_of("postgresql://db.example/team")
    monkeypatch.delenv("PGCONNECT_TIMEOUT")
    assert "connect_timeout" not in options_of("postgresql:///team?service=shop")
    file = tmp_path / "services"
    file.write_text("[shop]\nhost=db.example\nconnect_timeout=7\n", encoding="utf-8")
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    monkeypatch.setenv("PGSERVICE", "shop")
    of_service = options_of("postgresql:///team")
    assert "connect_timeout" not in of_service
    assert of_service["tcp_user_timeout"] == own["tcp_user_timeout"]
