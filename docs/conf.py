"""The site of the documentation: `make docs` builds it, offline.

`docs/README.md` is the index, for readers of the repository and of the site alike: its lists of links become the
navigation, so a page that it does not list fails the build.
"""

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from engine.core.version import __version__  # noqa: E402
from scripts import api_reference  # noqa: E402

project = "engine"
author = "The engine developers"
copyright = "The engine developers"  # noqa: A001  # Sphinx calls it so
version = release = __version__

extensions = ["myst_parser"]
root_doc = "index"
# README.md is the text of index.md.
exclude_patterns = ["README.md", "examples"]
myst_enable_extensions = ["colon_fence"]
# Links such as `events.md#turnresult` lead to headings, down to this level.
myst_heading_anchors = 6
# Keep quotation marks as they are written: commands are pasted.
smartquotes = False
nitpicky = True
# `linkcheck` would go out to the network; links between pages are checked by the build itself.
linkcheck_ignore = [r"https?://"]

html_theme = "furo"
html_title = f"engine {release}"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0b6a78",
        "color-brand-content": "#0b6a78",
        "color-brand-visited": "#0b6a78",
    },
    "dark_css_variables": {
        "color-brand-primary": "#76e3ea",
        "color-brand-content": "#76e3ea",
        "color-brand-visited": "#76e3ea",
    },
}
html_static_path = ["site.css"]
html_css_files = ["site.css"]

# The pages of the site for files that stand elsewhere, or under another name, in the repository.
PAGES = {
    "README.md": "index",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "SECURITY.md": "security",
}

_LOADED = re.compile(
    r"<(?:script|link|img|iframe|audio|video|source|object)\b[^>]*\b(?:src|href|data)=[\"'](?:https?:)?//[^\"']*"
)
_SECTION = re.compile(r"^## +(?P<title>.+?) *$", flags=re.MULTILINE)
_ENTRY = re.compile(r"^- \[(?P<title>[^\]]+)\]\((?P<page>[\w./-]+)\.md(?P<rest>.*)$", flags=re.MULTILINE)
_LINK = re.compile(r"\[(?P<title>[^\]]+)\]\((?P<page>[\w./-]+)\.md\)")


_PAGE_LINK = re.compile(rf"\]\((?:\.\./)?({'|'.join(map(re.escape, PAGES))})")


def _navigation(index: str) -> str:
    """Return a hidden table of contents for each section of the index that links to pages."""
    parts = _SECTION.split(index)
    trees: list[str] = []
    listed: set[str] = set()
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        pages = [page for page in dict.fromkeys(link["page"] for link in _LINK.finditer(body)) if page not in listed]
        listed.update(pages)
        if pages:
            trees.append("\n".join([":::{toctree}", ":hidden:", f":caption: {title}", "", *pages, ":::", ""]))
    return "\n".join(trees)


def _read_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Adapt a page, which is written to be read in the repository, to the site."""
    if docname == root_doc:
        app.env.note_dependency(str(DOCS / "README.md"))
        page = (DOCS / "README.md").read_text(encoding="utf-8")
    else:
        page = source[0]
    # The folder of the examples is no page; their code is shown in the pages.
    page = re.sub(r"\[([^\]]+)\]\(examples/\)", r"\1", page)
    for file, name in PAGES.items():
        page = re.sub(rf"\]\((?:\.\./)?{re.escape(file)}(?=[)#])", f"]({name}.md", page)
    # Lines without a prompt are commands too; the lexer of consoles takes them for output.
    page = re.sub(r"^( *)```console$", r"\1```bash", page, flags=re.MULTILINE)
    if docname == root_doc:
        page += f"\n{_navigation(page)}"
    if docname == "reference/api":
        page = re.sub(r"^## `([\w.]+)`$", r"## [`\1`](api/\1.md)", page, flags=re.MULTILINE)
        page += "\n:::{toctree}\n:hidden:\n:glob:\n\napi/*\n:::\n"
    source[0] = page


def _write_api_pages(app: Sphinx) -> None:
    """Write the pages of the public modules, which are not kept."""
    folder = DOCS / "reference" / "api"
    folder.mkdir(exist_ok=True)
    for module, page in api_reference.module_pages().items():
        (folder / f"{module}.md").write_text(page, encoding="utf-8")


def _check_loads_nothing(app: Sphinx, exception: Exception | None) -> None:
    """Fail if a page of the site would load something from elsewhere: there are no trackers, and it works offline."""
    if exception is None and app.builder.name == "html":
        for page in Path(app.outdir).rglob("*.html"):
            found = _LOADED.search(page.read_text(encoding="utf-8"))
            if found is not None:
                raise ExtensionError(f"{page.relative_to(app.outdir)} loads {found[0]}")


def _llms_txt(index: str) -> str:
    """Return `llms.txt`: the lists of the index, for readers that are language models. Decisions are what they can skip."""
    parts = _SECTION.split(index)
    summary = parts[0].split("\n\n")[1].replace("\n", " ").strip()
    lines = [f"# {project}", "", f"> {summary}", ""]
    for title, body in sorted(zip(parts[1::2], parts[2::2], strict=True), key=lambda part: part[0] == "Decisions"):
        entries = [
            f"- [{entry['title']}]({entry['page']}.html{entry['rest']}"
            for entry in _ENTRY.finditer(re.sub(r"\n  +", " ", body))
        ]
        if entries:
            lines += [f"## {'Optional' if title == 'Decisions' else title}", "", *entries, ""]
    return "\n".join(lines)


def _write_llms_txt(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and app.builder.name == "html":
        index = _PAGE_LINK.sub(lambda link: f"]({PAGES[link[1]]}.md", (DOCS / "README.md").read_text(encoding="utf-8"))
        Path(app.outdir, "llms.txt").write_text(_llms_txt(index), encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Register the hooks."""
    app.connect("builder-inited", _write_api_pages)
    app.connect("source-read", _read_page)
    app.connect("build-finished", _write_llms_txt)
    app.connect("build-finished", _check_loads_nothing)
