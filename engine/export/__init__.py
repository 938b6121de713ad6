"""Sessions outside of their store: JSON, Markdown, a web page, a trajectory, the picture of what ran when."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.export.atif import render_atif as render_atif
    from engine.export.collect import collect_session as collect_session
    from engine.export.history import History as History
    from engine.export.history import render_history as render_history
    from engine.export.html_page import render_html as render_html
    from engine.export.json_document import parse_json_document as parse_json_document
    from engine.export.json_document import render_json_document as render_json_document
    from engine.export.json_document import with_fresh_ids as with_fresh_ids
    from engine.export.markdown import parse_markdown as parse_markdown
    from engine.export.markdown import render_markdown as render_markdown
    from engine.export.trace_page import render_trace as render_trace
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.export.atif": "render_atif",
            "engine.export.collect": "collect_session",
            "engine.export.history": "History render_history",
            "engine.export.html_page": "render_html",
            "engine.export.json_document": "parse_json_document render_json_document with_fresh_ids",
            "engine.export.markdown": "parse_markdown render_markdown",
            "engine.export.trace_page": "render_trace",
        },
    )
