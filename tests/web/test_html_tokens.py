"""HTML as tokens: as a browser reads it where that matters, and never in more than linear time."""

import time

import pytest

from engine.web.html_tokens import End, HtmlText, Start, Token, tokens, unescaped


@pytest.mark.parametrize(
    ("markup", "found"),
    [
        ("", []),
        ("a", [HtmlText("a")]),
        ("<P Class=a ID='b\"c' x>", [Start("p", {"class": "a", "id": 'b"c', "x": ""})]),
        ("<a href=1 HREF=2>", [Start("a", {"href": "1"})]),
        ("<a href = '&lt;&#x41;'>", [Start("a", {"href": "<A"})]),
        ("<br/>x<img src=/a/>", [Start("br", {}), HtmlText("x"), Start("img", {"src": "/a/"})]),
        ("a < b <3", [HtmlText("a "), HtmlText("<"), HtmlText(" b "), HtmlText("<"), HtmlText("3")]),
        ("</p ><//x></ p>", [End("p")]),
        ("<!doctype html><!-- <p> -- > --><!--><?php ?>x", [HtmlText("x")]),
        ("<!-- no end <p>", []),
        ("x<p", [HtmlText("x")]),
        ("x<p a='b", [HtmlText("x")]),
        ('<p a="b>x', [Start("p", {"a": '"b'}), HtmlText("x")]),
        ("<p =a b==c>", [Start("p", {"=a": "", "b": "=c"})]),
        ("<script>if (a<b) '</p>'</SCRIPT >x", [Start("script", {}), End("script"), HtmlText("x")]),
        ("<style>p{}</styles></style>x", [Start("style", {}), End("style"), HtmlText("x")]),
        ("<script>no end", [Start("script", {})]),
        ("<title>a <b> &amp;</title>", [Start("title", {}), HtmlText("a <b> &"), End("title")]),
    ],
)
def test_tokens(markup: str, found: list[Token]) -> None:
    assert list(tokens(markup)) == found


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("&amp;&lt;&copy;&#65;&#x42;", "&<©AB"),
        ("&nosuch; &; &#; & &amp", "&nosuch; &; &#; & &"),
        ("&#0;&#1114112;&#" + "9" * 5_000 + ";", "��" + unescaped("&#99999999") + "9" * 4_992 + ";"),
    ],
)
def test_character_references(text: str, read: str) -> None:
    assert unescaped(text) == read


@pytest.mark.parametrize(
    "part",
    [
        "<a ",
        "<",
        "</",
        "<!--",
        "<!",
        '<a b="',
        "<a b='c\" ",
        "<a b =",
        "<a b\t\t\t\t\t\t\t\t\t\t",
        "</script",
        "<script>",
        "<style></styl",
        "&#9",
        "&a",
        "<a/",
        "=<a =",
    ],
)
def test_tokenizing_is_linear(part: str) -> None:
    """The standard library's parser needs many minutes for the first one."""

    def seconds(size: int) -> float:
        markup = part * (size // len(part))
        start = time.process_time()
        for _ in tokens(markup):
            pass
        return time.process_time() - start

    # Sixteen times as long takes sixteen times as much, or, if it took the square, 256 times.
    assert seconds(800_000) < 80 * max(seconds(50_000), 0.001)
