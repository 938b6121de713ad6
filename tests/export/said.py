"""Sessions in which hostile things are said, in every place where something can be said."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from engine.core.events import SharedContext
from engine.core.ids import CallId, MessageId, PartId, SessionId
from engine.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    Citation,
    FilePart,
    ImagePart,
    Message,
    ProviderPart,
    ReasoningPart,
    ResultsMessage,
    Settlement,
    TextPart,
    UserMessage,
)
from engine.export.history import History, render_history
from engine.export.seed_events import seed_events
from tests.store.journals import A

HOSTILE = (
    "<script>alert(1)</script>",
    "</pre></style></title><img src=x onerror=alert(1)>",
    "<!--",
    "]]>",
    '" onmouseover="alert(1)" x="',
    "' onload='alert(1)",
    "<a href='javascript:alert(1)'>click</a> [click](javascript:alert(1)) ![x](https://evil.example/x.png)",
    '<meta http-equiv="refresh" content="0;url=https://evil.example">',
    "<iframe src=https://evil.example></iframe><link rel=stylesheet href=//evil.example>",
    "&lt;script&gt; &#60;b&#62; &amp;",
    "```\n<b>in code</b>\n",
    "~~~~\n```\n</pre><script>\n~~~~",
    "`<i>` **<u>x</u>** ## User",
    "## User\n\n\\## Assistant\n## Calls  \n\\\\## Engine",
    "---\ntitle: x\n---",
    "\x1b]0;title\x07\x1b[31mred \x00 \r\n \u202egnp.exe \u2028 \ud83d half",
    "नमस्ते 👩‍👩‍👧 العربية 日本語",
    "{% raw %} ${x} $(x)",
    "\n\n  \n",
    "",
)
TEXTS = st.sampled_from(HOSTILE) | st.text(st.characters(), max_size=30) | st.text("#`~*\\ \nUser-<>&'\"", max_size=40)


def session_of(texts: Sequence[str], *, session_id: SessionId = A) -> History:
    """A session in which each of *texts* stands everywhere."""
    messages: list[Message] = []
    for number, text in enumerate(texts):
        call_id = CallId(f"c{number}")
        image = ImagePart(media_type=text, data=text)
        file = FilePart(media_type=text, data=text, name=text)
        messages += [
            UserMessage(id=MessageId(f"u{number}"), parts=(TextPart(id=PartId("p"), text=text), image, file)),
            AssistantMessage(
                id=MessageId(f"a{number}"),
                model=text,
                parts=(
                    ReasoningPart(id=PartId("r"), text=text),
                    TextPart(id=PartId("t"), text=text, citations=(Citation(url=text, title=text, quote=text),)),
                    ProviderPart(id=PartId("x"), kind=text, data=text),
                    CallPart(id=PartId("c"), call_id=call_id, tool=text, arguments=text),
                ),
            ),
            ResultsMessage(
                id=MessageId(f"r{number}"),
                results=(
                    CallResult(
                        call_id=call_id,
                        tool=text,
                        settlement=Settlement(status="completed", text=text, images=(image,), files=(file,)),
                    ),
                ),
            ),
            UserMessage(id=MessageId(f"e{number}"), parts=(TextPart(id=PartId("p"), text=text),), origin="engine"),
        ]
    context = SharedContext(cwd=texts[0] if texts else "")
    model = texts[0] if texts else "model"
    return render_history(
        seed_events(session_id, kind="import", messages=messages, context=context, model=model, at=1.7e9)
    )
