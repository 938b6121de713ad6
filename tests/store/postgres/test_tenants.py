"""Stores of different tenants share tables, and nothing else: no operation reads or changes rows of another tenant."""

from __future__ import annotations

import ast
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
import trio

from engine.core.errors import ConfigError, SessionElsewhere, StoreError
from engine.core.ids import PartId, SessionId
from engine.journal.fold import fold
from engine.store.draft_pace import LONGEST
from engine.store.postgres.address import Address
from engine.store.postgres.schema import TABLES
from engine.store.postgres.store import PostgresStore
from engine.store.postgres.stored_tasks import PostgresWorkQueue
from engine.store.store_protocols import SpendingQuery
from engine.store.work_queue import TaskSpec
from tests.store.full_suite import CHILD, drafted, put_all
from tests.store.journals import BEGIN, A, B, noted, session
from tests.store.server import Database, a_database

pytestmark = pytest.mark.os

FOLDER = Path(__file__).parents[3] / "engine" / "store" / "postgres"
LATER = BEGIN + 1_000_000
Operation = Callable[[PostgresStore], Awaitable[object]]


@pytest.fixture
def database() -> Iterator[Database]:
    with a_database() as found:
        yield found


async def _put(store: PostgresStore) -> object:
    store.put(noted(A, 1))
    await store.flushed(A, 1)
    return len(await store.load(A))


async def _claim(store: PostgresStore) -> object:
    await store.claim(A)
    store.release(A)
    await store.released()
    return None


async def _watch(store: PostgresStore) -> object:
    with trio.move_on_after(0.2):
        return await store.wait_for_events(A, 0)
    return None


async def _save_draft(store: PostgresStore) -> object:
    await store.claim(A)
    store.save_draft(drafted(A, "p1", 0, "theirs"))
    return [each.text for each in await store.drafts(A)]


async def _delete_drafts(store: PostgresStore) -> object:
    store.delete_drafts(A, PartId("p1"))
    return await store.drafts(A)


async def _save_state(store: PostgresStore) -> object:
    journal = session(A, *[("needle", "done")] * 400)
    await put_all(store, journal)
    store.save_state(fold(journal))
    opened = await store.open_session(A)
    return None if opened is None else len(opened.events) == len(journal)


async def _import(store: PostgresStore) -> object:
    await store.import_sessions([session(A, ("theirs", "done"))])
    return await store.ids()


async def _call(function: Callable[[], object]) -> object:
    await trio.lowlevel.checkpoint()
    function()
    return None


async def _interval(store: PostgresStore) -> object:
    await trio.lowlevel.checkpoint()
    return store.draft_interval() <= LONGEST


async def _health(store: PostgresStore) -> object:
    await trio.lowlevel.checkpoint()
    return store.health().failure


async def _fleet(store: PostgresStore) -> object:
    status = await store.fleet_status()
    counted = {**status.sessions, **status.leases, **status.tasks, **status.outcomes}
    return len(status.engines), sum(counted.values())


# Every public method of the store, and what it returns where another tenant has all of these sessions, but this one none.
OPERATIONS: Mapping[str, tuple[Operation, object]] = {
    "put": (_put, 1),
    "flushed": (_put, 1),
    "load": (lambda store: store.load(A), []),
    "open_session": (lambda store: store.open_session(A), None),
    "drafts": (lambda store: store.drafts(A), []),
    "list_sessions": (lambda store: store.list_sessions(), []),
    "search": (lambda store: store.search("needle"), []),
    "ids": (lambda store: store.ids(), []),
    "spending": (lambda store: store.spending(SpendingQuery(by="session")), []),
    "list_inactive": (lambda store: store.list_inactive(older_than=LATER), []),
    "wait_for_events": (_watch, None),
    "claim": (_claim, None),
    "release": (_claim, None),
    "released": (_claim, None),
    "renew_leases": (lambda store: _call(store.renew_leases), None),
    "save_draft": (_save_draft, ["theirs"]),
    "delete_drafts": (_delete_drafts, []),
    "save_state": (_save_state, True),
    "import_sessions": (_import, [A]),
    "delete": (lambda store: store.delete(A), ()),
    "prune": (lambda store: store.prune(older_than=LATER), []),
    "abandoned_sessions": (lambda store: store.abandoned_sessions(), []),
    "reclaim": (lambda store: store.reclaim(A, 0), True),
    "fleet_status": (_fleet, (0, 0)),
    "aclose": (lambda store: store.aclose(), None),
    # These ask no table.
    "health": (_health, None),
    "is_released": (lambda store: _call(partial(store.is_released, A)), None),
    "draft_interval": (_interval, True),
    "wake_watchers": (lambda store: _call(partial(store.wake_watchers, [A])), None),
}

# As above, of the queue of tasks.
TASKS: Mapping[str, tuple[Operation, object]] = {
    "add": (lambda store: _added(store, TaskSpec(key="a", session_id=B, text="theirs", cwd="/")), "theirs"),
    "take": (lambda store: store.tasks.take(most_attempts=1), None),
    "end": (lambda store: store.tasks.end("a", "completed", ""), False),
    "give_back": (lambda store: store.tasks.give_back("a", after=0, detail="", counts=True), None),
    "cancel": (lambda store: store.tasks.cancel("b"), False),
    "find": (lambda store: store.tasks.find("a"), None),
    "list": (lambda store: store.tasks.list(limit=9, ended=False), []),
}


async def _added(store: PostgresStore, spec: TaskSpec) -> object:
    return (await store.tasks.add(spec)).spec.text


async def fill(store: PostgresStore) -> None:
    """Let a tenant have a bit of everything, and keep it open."""
    child = session(CHILD, ("needle", "done"), parent=A)
    await put_all(store, session(A, ("needle", "done"), steps=2), session(B, ("needle", "done")), child)
    await put_all(store, [noted(A, len(session(A, ("needle", "done"), steps=2)) + 1)])
    store.save_draft(drafted(A, "p1", 0, "ours"))
    assert len(await store.drafts(A)) == 1
    for key in "ab":
        await store.tasks.add(TaskSpec(key=key, session_id=SessionId(f"ses_{key}_task"), text="ours", cwd="/"))
    assert await store.tasks.take(most_attempts=5) is not None


# The limits of accounts at model hosts, which tenants with the same key share.
SHARED = {"engine_store", "paces", "pace_blocks"}


def rows_of(database: Database, tenant: str) -> dict[str, list[tuple[object, ...]]]:
    """Everything that a tenant has, by table; without what changes with each transaction of its stores."""
    names = [str(name) for (name,) in database.do(_TABLES) if name not in {*SHARED, "writers"}]
    return {
        name: database.do(
            f"SELECT row_to_json(t)::text FROM (SELECT * FROM {{}}.{name} WHERE tenant = %s) AS t ORDER BY 1", tenant
        )
        for name in names
    }


_TABLES = "SELECT relname FROM pg_class WHERE relnamespace = '{}'::regnamespace AND relkind IN ('r', 'p') ORDER BY 1"


def methods_of(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))}


def test_every_operation_of_a_store_is_tried() -> None:
    assert methods_of(PostgresStore) == set(OPERATIONS)
    assert methods_of(PostgresWorkQueue) == set(TASKS)


async def test_no_operation_reaches_another_tenant(database: Database) -> None:
    ours = await database.open(tenant="acme")
    await fill(ours)
    before = rows_of(database, "acme")
    assert all(before[name] for name in ("events", "sessions", "texts", "spent", "leases", "drafts", "tasks"))
    for number, (name, (operate, result)) in enumerate([*OPERATIONS.items(), *TASKS.items()]):
        theirs = await database.open(tenant=f"tenant{number}")
        assert await operate(theirs) == result, name
        await theirs.aclose()
        after = rows_of(database, "acme")
        # Leases of engines that run are renewed meanwhile.
        assert {**after, "leases": len(after["leases"])} == {**before, "leases": len(before["leases"])}, name
    assert len(await ours.list_sessions()) == 2
    await ours.aclose()


async def test_each_tenant_has_its_own_session_of_an_id(database: Database) -> None:
    acme, bolt, nobody = [await database.open(tenant=name) for name in ("acme", "bolt", "")]
    for number, store in enumerate((acme, bolt, nobody), 1):
        await put_all(store, [noted(A, seq, f"of {number}") for seq in range(1, number + 1)])
    assert [len(await store.load(A)) for store in (acme, bolt, nobody)] == [1, 2, 3]
    second = await database.open(tenant="acme")
    with pytest.raises(SessionElsewhere):
        await second.claim(A)
    acme.release(A)
    await acme.released()
    assert await second.delete(A) == (A,)
    assert [len(await store.load(A)) for store in (acme, bolt, nobody)] == [0, 2, 3]
    for store in (acme, bolt, nobody, second):
        await store.aclose()


def test_every_table_has_a_tenant_and_no_default(database: Database) -> None:
    async def make() -> None:
        await (await database.open()).aclose()

    trio.run(make)
    tables = {name for (name,) in database.do(_TABLES)} - SHARED
    found = database.do(
        "SELECT table_name, column_default FROM information_schema.columns"
        " WHERE table_schema = '{}' AND column_name = 'tenant' AND is_nullable = 'NO'"
    )
    assert found == [(name, None) for name, _ in found]
    assert {name for name, _ in found} == tables


# ---- the texts of statements -----------------------------------------------------------------------------------------

_NAMES = sorted(set(re.findall(r"CREATE TABLE (\w+)", TABLES)) - SHARED)
_USE = re.compile(rf"\b(?:FROM|INTO|UPDATE|JOIN|COPY)\s+(?:ONLY\s+)?(?:{'|'.join(_NAMES)})\b(?!\.)")


def statements(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a module that use a table of tenants, with their lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            # A name that is put in may be that of any table.
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "events" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            text = node.value
        else:
            continue
        if _USE.search(text):
            yield node.lineno, text


def test_every_statement_names_the_tenant() -> None:
    found = {(path.name, line): text for path in sorted(FOLDER.glob("*.py")) for line, text in statements(path)}
    assert len(found) > 25
    # The engines of all tenants share the server's connections, so they are counted together.
    exempt = {"schema.py", "connection_budget.py"}
    without = [place for place, text in found.items() if "tenant" not in text and place[0] not in exempt]
    assert without == []


def test_a_statement_without_a_tenant_is_seen(tmp_path: Path) -> None:
    module = tmp_path / "bad.py"
    module.write_text('x.execute(f"DELETE FROM {a} WHERE b")\ny = ("SELECT 1 "\n  "FROM leases")\n', encoding="utf-8")
    assert {line for line, _ in statements(module)} == {1, 2}


# ---- names -----------------------------------------------------------------------------------------------------------


def _address(dsn: str, tenant: str = "") -> Address:
    return Address.of(dsn, namespace="engine", timeout=1, tenant=tenant)


@pytest.mark.parametrize(
    ("dsn", "tenant"),
    [
        ("postgresql://db/agents?tenant=acme", "acme"),
        ("postgresql://db/agents?tenant=a%40b.example&sslmode=disable", "a@b.example"),
        ("postgresql://db/agents?sslmode=disable", ""),
        ("postgresql://db/agents?tenant=", ""),
        ("dbname=agents", ""),
    ],
)
def test_a_url_names_the_tenant(dsn: str, tenant: str) -> None:
    address = _address(dsn)
    assert address.tenant == tenant
    assert "tenant" not in address.conninfo
    assert ("?tenant=" in address.name) == bool(tenant)


@pytest.mark.parametrize("name", ["a b", "-a", "é", "a" * 64, "a\nb", "a;b"])
def test_bad_name_of_a_tenant_is_refused_unquoted(name: str) -> None:
    with pytest.raises(ConfigError, match="name of a tenant") as caught:
        _address("dbname=agents", name)
    assert name not in str(caught.value)


def test_two_names_of_a_tenant_are_refused() -> None:
    with pytest.raises(ConfigError, match="another tenant than 'bolt'"):
        _address("postgresql://db/agents?tenant=acme", "bolt")
    assert _address("postgresql://db/agents?tenant=acme", "acme").tenant == "acme"


def test_tenants_have_channels_of_their_own() -> None:
    channels = {Address.of("", namespace="n" * 48, timeout=1, tenant=name).channel for name in ("", "acme", "bolt")}
    assert len(channels) == 3
    assert max(map(len, channels)) <= 63


# ---- row security ----------------------------------------------------------------------------------------------------

_GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "postgres.md"


def documented_policies() -> str:
    """The statements of the how-to."""
    found = re.search(r"```text\n(DO .*?)```", _GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


async def test_documented_row_security_holds(database: Database) -> None:
    """Each tenant has a role of its name, and its store works; under another name it can neither read nor write."""
    owner = await database.open()
    await owner.aclose()
    role = f"t_{database.namespace}"
    statements = documented_policies().replace("engine.", "{}.").replace("SCHEMA engine", "SCHEMA {}")
    database.do(statements.replace("'engine'", "'{}'").replace("acme", role))
    try:
        others = await database.open(tenant="bolt")
        await fill(others)
        ours = await open_as(database, role, role)
        await fill(ours)
        assert len(await ours.list_sessions()) == 2
        assert len(await ours.search("needle")) == 3
        ours.release(B)
        assert await ours.delete(B) == (B,)
        await ours.aclose()
        with pytest.raises(StoreError, match="row-level security"):
            await open_as(database, role, "bolt")
        with database.server.connected(database.server.dsn(user=role)) as connection:
            seen = connection.execute(
                f"SELECT count(*) FROM {database.namespace}.events WHERE tenant = 'bolt'".encode()
            )
            assert seen.fetchone() == (0,)
        assert len(await others.list_sessions()) == 2
        await others.aclose()
    finally:
        database.do(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def open_as(database: Database, role: str, tenant: str) -> PostgresStore:
    from engine.store.postgres.open import open_postgres_store

    return await open_postgres_store(
        database.server.dsn(user=role), namespace=database.namespace, timeout=5, tenant=tenant
    )
