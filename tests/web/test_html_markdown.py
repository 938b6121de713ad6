"""HTML as markdown: a table of what becomes of what, and pages that are made to hurt."""

import time

import pytest

from engine.web.html_flow import MAX_DEPTH
from engine.web.html_markdown import OutOfTime, markdown_of

BASE = "https://example.org/dir/page"


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("", ""),
        ("plain", "plain"),
        ("<h1>One</h1><h3>Three <em>x</em></h3>text", "# One\n\n### Three *x*\n\ntext"),
        ("<p>a\n  b</p>\n<p>c<p>d", "a b\n\nc\n\nd"),
        ("<div>a<div>b</div>c</div>", "a\n\nb\n\nc"),
        ("a<br>b<br><br>c", "a\nb\nc"),
        ("a<hr>b", "a\n\n---\n\nb"),
        ("<b>x </b>y <i> z</i>", "**x** y *z*"),
        ("<b><strong>x</b></strong>", "**x**"),
        ("<b><i>x</b>y</i>", "***x**y*"),
        ("<b></b>x<i> </i>y", "x y"),
        ("<p><b>a<p>b</b>c", "**a**\n\n**b**c"),
        ("<del>x</del>", "~~x~~"),
        ("<code>a  b</code> <kbd>c`d</kbd>", "`a b` `` c`d ``"),
        ("<a href='x?a=(1) b'>t</a>", "[t](https://example.org/dir/x?a=%281%29%20b)"),
        ("<a href='//h/x'>t</a><a href='#f'>u</a><a>v</a>", "[t](https://h/x)uv"),
        ("<a href='javascript:x'>t</a><a href=' data:,x'>u</a><a href='http://[x'>v</a>", "tuv"),
        ("<a href='mailto:a@b'>t</a>", "[t](mailto:a@b)"),
        ("<a href=/a>x<a href=/b>y</a>", "[x](https://example.org/a)[y](https://example.org/b)"),
        ("<a href=/c><div><h2>Card</h2>text</div></a>", "## [Card](https://example.org/c)\n\ntext"),
        ("<base href=/other/><base href=/no/><a href=x>t</a>", "[t](https://example.org/other/x)"),
        ("<img src=/i.png alt=' An  image '><img src=x>", "![An image](https://example.org/i.png)"),
        ("<ul><li>a<li>b</ul>c", "- a\n- b\n\nc"),
        ("<ul>\n<li><p>a</p></li>\n<li><p>b</p><p>c</p></li></ul>", "- a\n- b\n\n  c"),
        ("x<ul><li>a<ul><li>b</li></ul></li><li>c</ul>", "x\n\n- a\n  - b\n- c"),
        ("<ol start=9><li>a<li>b<br>c</ol>", "9. a\n10. b\n    c"),
        ("<ol start=x><li>a</ol><ol start=99999999><li>a</ol>", "1. a\n\n1. a"),
        ("<li>a<li>b", "- a\n- b"),
        ("</ul></li>x", "x"),
        ("<blockquote>a<p>b<ul><li>c</ul></blockquote>d", "> a\n>\n> b\n>\n> - c\n\nd"),
        ("a<blockquote>b</blockquote>", "a\n\n> b"),
        ("<pre>\n a\n\n  b\n</pre>", "```\n a\n\n  b\n```"),
        ("<pre><code class='x language-Py'>a&lt;<b>b</b><br>c</code></pre>", "```py\na<b\nc\n```"),
        ("<pre>a ``` b</pre>", "````\na ``` b\n````"),
        ("<ul><li>x<pre>a\n\nb</pre></ul>", "- x\n\n  ```\n  a\n\n  b\n  ```"),
        ("<pre>not ended", "```\nnot ended\n```"),
        (
            "<table><thead><tr><th>a<th>b|c<tbody><tr><td>1<td>x<br>y</table>z",
            "| a | b\\|c |\n| --- | --- |\n| 1 | x y |\n\nz",
        ),
        ("<table><caption>Cap</caption><tr><td>1<td>2</table>", "Cap\n\n| 1 | 2 |\n| --- | --- |"),
        ("<table><tr><td>a</td></tr><tr><td>b</td></tr></table>", "a\n\nb"),
        ("<table><tr><td><p>a<p>b</td><td>c</td></tr></table>", "a\n\nb\n\nc"),
        ("<table><tr><td>a<table><tr><td>1<td>2</table></table>b", "a\n\n| 1 | 2 |\n| --- | --- |\n\nb"),
        ("<table><tr><td>1<td><pre>x\ny</pre></table>", "1\n\n```\nx\ny\n```"),
        ("<table></table><td>a</td>", "a"),
        ("<table><tr><td>a<td>not ended", "| a | not ended |\n| --- | --- |"),
        ("<dl><dt>a<dd>b</dl>", "a\n\nb"),
        ("<svg><title>no</title><text>no</text></svg><select><option>no</select>yes", "yes"),
        ("<script>no</script><style>no</style><!-- no -->yes<template><p>no</template>", "yes"),
    ],
)
def test_conversion(html: str, markdown: str) -> None:
    assert markdown_of(html, BASE).text == markdown


def test_the_title() -> None:
    page = markdown_of("<head><title>A\n &amp; b</title></head><svg><title>no</title></svg>x<title>no</title>")
    assert (page.title, page.text) == ("A & b", "xno")


def test_tables_within_tables_within_tables() -> None:
    depth = 10
    assert markdown_of("<table><tr><td>x" * depth + "</table>" * depth + "end").text == "\n\n".join(
        [*"x" * depth, "end"]
    )


def test_depth_is_bounded() -> None:
    lines = markdown_of("<blockquote>x" * 50).text.split("\n")
    assert max(line.count("> ") for line in lines) == MAX_DEPTH


def test_conversion_stops_at_its_deadline() -> None:
    asked: list[bool] = []

    def is_late() -> bool:
        asked.append(True)
        return len(asked) == 3

    with pytest.raises(OutOfTime):
        markdown_of("<p>x" * 10_000, is_late=is_late)
    assert len(asked) == 3


@pytest.mark.parametrize(
    "part",
    [
        "<ul><li>x",
        "<blockquote>x",
        "<b>x<i>y",
        "<b>x</b>",
        "<table><tr><td>x",
        "<td>x",
        "<a href=x>y</a>",
        "<pre>`</pre>",
        "<code>`",
        "x<br>",
        "<li>x",
        "<title>x</title>",
        "<base href=x/y/>",
        "</b></ul></table>",
        "<b><a href=x>`<code>",
        "&nbsp; ",
    ],
)
def test_conversion_is_linear(part: str) -> None:
    def measured(size: int) -> tuple[float, int]:
        page = part * (size // len(part))
        start = time.process_time()
        text = markdown_of(page, "https://example.org/" + "x" * 3_000 + "/").text
        return time.process_time() - start, len(text)

    short, _ = measured(20_000)
    long, size = measured(320_000)
    assert long < 80 * max(short, 0.001)
    assert size < 3_000_000
