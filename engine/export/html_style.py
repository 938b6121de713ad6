"""How a shared session looks: one style sheet, in the page itself, for light, dark and paper. Pure."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --paper: #fdfdfb; --ink: #1d1f22; --faint: #62666d; --line: #dcdcd6; --block: #f3f3ee;
  --user: #e8eefb; --bad: #a3231f; --good: #20703c; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #17181b; --ink: #e4e4e0; --faint: #9b9fa6; --line: #34363b; --block: #202226; --user: #1f2a40;
    --bad: #f08a84; --good: #7fcf9b; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main, header, footer { max-width: 52rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2.5rem; border-bottom: 1px solid var(--line); }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .4rem; overflow-wrap: anywhere; }
header p, footer p, .when { color: var(--faint); font-size: .85rem; margin: 0 0 1.2rem; }
footer { padding-top: 1rem; padding-bottom: 2rem; }
article { margin: 1.5rem 0; }
article > h2 { font-size: .8rem; font-weight: 600; color: var(--faint); margin: 0 0 .3rem; letter-spacing: .02em; }
article > h2 a { color: inherit; text-decoration: none; }
article.user { background: var(--user); border-radius: .6rem; padding: .8rem 1rem; }
article.engine { color: var(--faint); font-size: .9rem; }
p { margin: .5rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
p.heading { font-weight: 650; margin-top: 1rem; }
p.heading[data-level="1"] { font-size: 1.2em; }
p.heading[data-level="2"] { font-size: 1.1em; }
ul, ol { margin: .5rem 0; padding-left: 1.5rem; }
li p { margin: .2rem 0; }
blockquote { margin: .5rem 0; padding-left: .8rem; border-left: 2px solid var(--line); color: var(--faint); }
hr { border: 0; border-top: 1px solid var(--line); margin: 1rem 0; }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: .86em; }
code { background: var(--block); border-radius: .25rem; padding: .08em .3em; overflow-wrap: anywhere; }
pre { background: var(--block); border-radius: .4rem; padding: .7rem .9rem; margin: .5rem 0; white-space: pre-wrap;
  overflow-wrap: anywhere; }
details { margin: .4rem 0; border-left: 2px solid var(--line); padding-left: .8rem; }
summary { cursor: pointer; color: var(--faint); font-size: .88rem; overflow-wrap: anywhere; }
summary b { color: var(--ink); }
summary .good { color: var(--good); }
summary .bad { color: var(--bad); }
table { border-collapse: collapse; margin: .5rem 0 1rem; font-size: .85rem; }
th { font-weight: 400; text-align: left; overflow-wrap: anywhere; }
td { text-align: right; padding-left: 1.2rem; font-variant-numeric: tabular-nums; }
article th, article td { border: 1px solid var(--line); padding: .25rem .6rem; text-align: left; }
article th { font-weight: 600; }
article .right { text-align: right; }
article .center { text-align: center; }
meter { width: min(12rem, 25vw); }
img { max-width: 100%; height: auto; border: 1px solid var(--line); border-radius: .4rem; }
@media print {
  :root { --paper: #fff; --ink: #000; --faint: #444; --line: #bbb; --block: #f4f4f4; --user: #f4f4f4; --bad: #000;
    --good: #000; }
  body { font-size: 10.5pt; }
  article > h2, summary { break-after: avoid; }
  article.user, img { break-inside: avoid; }
}
"""


def policy() -> str:
    """Return the page's Content-Security-Policy: this style and images inside the page; no script, no address at all."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
