"""The page's files over HTTP, and what must not be in them. No browser is needed here."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

import engine
from scripts.page_tables import TABLE, table_text
from tests.support.served_engine import Server, served

PAGE = Path(engine.__file__).parent / "control" / "page"
SCRIPTS = sorted(PAGE.rglob("*.js"))
MOST_AT_FIRST = 150 * 1024
MOST_OF_A_SESSION = 280 * 1024
MOST_OF_ALL = 400 * 1024

SINKS = {
    "an HTML sink": r"\b(?:inner|outer)HTML\b|insertAdjacentHTML|createContextualFragment|DOMParser|setHTML|parseHTML",
    "document.write": r"document\s*\.\s*write",
    "code from text": r"\beval\s*\(|new\s+Function\b|\bFunction\s*\(|set(?:Timeout|Interval)\s*\(\s*[\"'`]",
    "an inline handler": r"setAttribute\(\s*[\"'`]on|\.on[a-z]+\s*=\s*[\"'`]",
    "an inline style": r"setAttribute\(\s*[\"'`]style|\bstyle:\s*[\"'`]|cssText",
    "an attribute past dom.js": r"setAttribute\(\s*[\"'`](?:src|href|srcdoc|action|formaction)",
    "a cookie": r"document\s*\.\s*cookie",
    "a service worker": r"serviceWorker",
    "a worker": r"new\s+(?:Shared)?Worker\b",
    "an address": r"[\"'`](?:https?:)?//[a-z0-9]",
}


async def fetch(server: Server, path: str, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=server.at.url) as http:
        return await http.get(path, headers=headers)


async def test_page_is_served_without_credentials(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        page = await fetch(server, "/")
        files = re.findall(r'(?:href|src)="(assets/[^"]+)"', page.text)
        assert len(files) >= 4
        for file in files:
            answer = await fetch(server, f"/{file}")
            assert answer.status_code == 200, file
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["content-type"].partition(";")[0] in {"text/css", "text/javascript", "image/svg+xml"}


async def test_headers_of_the_page(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        headers = (await fetch(server, "/")).headers
        host = server.at.url.removeprefix("http://")
        assert headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
            f"connect-src 'self' ws://{host} wss://{host}; font-src 'self'; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
        )
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert "camera=()" in headers["permissions-policy"]
        assert "set-cookie" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "/assets/",
        "/assets/app.js",
        "/assets/0000000000000000/app.js",
        "/assets/{digest}/index.html",
        "/assets/{digest}/",
        "/assets/{digest}/nothing.js",
        "/assets/{digest}/%2e%2e/server.py",
        "/assets/{digest}//etc/passwd",
        "/assets/{digest}/client/%2e%2e%2f%2e%2e%2fserver.py",
    ],
)
async def test_only_the_files_of_the_page(tmp_path: Path, path: str) -> None:
    async with served(tmp_path) as server:
        found = re.search(r"assets/(\w+)/", (await fetch(server, "/")).text)
        assert found is not None
        assert (await fetch(server, path.format(digest=found[1]))).status_code in {400, 404}


async def test_page_asked_for_by_strangers_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        asset = re.findall(r'src="(assets/[^"]+)"', (await fetch(server, "/")).text)[0]
        assert (await fetch(server, "/", Host="evil.example")).status_code == 421
        assert (await fetch(server, f"/{asset}", **{"Sec-Fetch-Site": "cross-site"})).status_code == 403
        assert (
            await fetch(server, "/", **{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"})
        ).status_code == 403
        navigation = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        assert (await fetch(server, "/", **navigation)).status_code == 200


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.relative_to(PAGE).as_posix())
def test_scripts_have_no_sinks(script: Path) -> None:
    text = script.read_text("utf-8")
    # What is said in comments and in texts for people is no code.
    code = re.sub(r"^\s*(?://|\*|/\*).*$", "", text, flags=re.MULTILINE)
    code = code.replace('"http://www.w3.org/2000/svg"', "").replace('"http://127.0.0.1:…/#k=…"', "")
    for name, pattern in SINKS.items():
        assert re.search(pattern, code) is None, name


@pytest.mark.parametrize(
    "line",
    [
        "node.innerHTML = text",
        "node.insertAdjacentHTML('beforeend', text)",
        "document.write(text)",
        "eval (text)",
        "new Function(text)",
        "setTimeout('go()', 1)",
        "node.setAttribute('onclick', text)",
        "node.setAttribute('style', text)",
        "document.cookie = text",
        "navigator.serviceWorker.register(url)",
        "fetch('https://example.org/x')",
    ],
)
def test_the_lint_finds_sinks(line: str) -> None:
    assert any(re.search(pattern, line) for pattern in SINKS.values())


def test_html_has_no_inline_code() -> None:
    page = (PAGE / "index.html").read_text()
    assert not re.search(r"\son[a-z]+=|style=|<style|javascript:|<script(?![^>]*\ssrc=)", page)
    assert 'lang="en"' in page


def loaded_with(script: Path, seen: set[Path]) -> set[Path]:
    """Return a script and what it imports at once."""
    if script not in seen:
        seen.add(script)
        for name in re.findall(
            r"""(?:from|^import) ["'](\.{1,2}/[^"']+\.js)["']""", script.read_text("utf-8"), re.MULTILINE
        ):
            loaded_with((script.parent / name).resolve(), seen)
    return seen


@pytest.mark.parametrize(("first", "most"), [("app.js", MOST_AT_FIRST), ("session-view.js", MOST_OF_A_SESSION)])
def test_scripts_stay_small(first: str, most: int) -> None:
    scripts = loaded_with(PAGE / first, set())
    assert len(scripts) > 10
    assert sum(script.stat().st_size for script in scripts) <= most


def code_lines(script: Path) -> int:
    """Count lines without blank ones and comments."""
    code = re.sub(r"/\*.*?\*/", "", script.read_text("utf-8"), flags=re.DOTALL)
    return sum(1 for line in code.splitlines() if line.strip() and not line.lstrip().startswith("//"))


def test_all_scripts_together_stay_small() -> None:
    assert sum(script.stat().st_size for script in SCRIPTS) <= MOST_OF_ALL
    tables = {"protocol.js", "fold.js", "family.js"}
    client = [script for script in (PAGE / "client").glob("*.js") if script.name not in tables]
    assert sum(map(code_lines, client)) < 1000
    assert len((PAGE / "markdown.js").read_text("utf-8").splitlines()) <= 500


def test_table_of_characters_is_the_engines() -> None:
    assert TABLE.read_text("utf-8") == table_text(), "run `make surface`"
