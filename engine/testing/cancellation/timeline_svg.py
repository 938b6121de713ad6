"""A timeline as an SVG file: a lane for each task, a line for the cancel, and what happened as text at the dots."""

from __future__ import annotations

from xml.sax.saxutils import escape

from engine.testing.cancellation.timeline import Kind, Moment, Timeline

LANE = 170
ROW = 22
LEFT = 150
TOP = 64
COLOURS: dict[Kind, str] = {
    "step": "#0b6a78",
    "start": "#0b6a78",
    "end": "#57606a",
    "cancel": "#cf222e",
    "struck": "#cf222e",
    "swallowed": "#bf3989",
    "mark": "#9a6700",
}


def draw(timeline: Timeline, *, title: str) -> str:
    """Return the SVG of *timeline*; time goes down, as in the text."""
    moments, left_out = timeline.visible()
    lanes = list(dict.fromkeys(moment.task for moment in moments if moment.task))
    width = LEFT + LANE * len(lanes) + 560
    height = TOP + ROW * (len(moments) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="ui-monospace, monospace" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="20" font-weight="bold" fill="#1f2328">{escape(title)}</text>',
        f'<text x="12" y="{TOP - 14}" fill="#57606a">seconds / point</text>',
    ]
    for number, lane in enumerate(lanes):
        rows = [index for index, moment in enumerate(moments) if moment.task == lane]
        x = LEFT + LANE * number
        parts.append(f'<text x="{x - 6}" y="{TOP - 14}" fill="#1f2328" font-weight="bold">{escape(lane)}</text>')
        parts.append(
            f'<line x1="{x}" y1="{_y(rows[0])}" x2="{x}" y2="{_y(rows[-1])}" stroke="#afb8c1" stroke-width="3"/>'
        )
    for index, moment in enumerate(moments):
        parts += _row(moment, _y(index), lanes, width)
    if left_out:
        parts.append(f'<text x="12" y="{TOP + 2}" fill="#57606a">{left_out} rows before</text>')
    return "\n".join([*parts, "</svg>", ""])


def _y(index: int) -> int:
    return TOP + ROW * (index + 1) - 6


def _row(moment: Moment, y: int, lanes: list[str], width: int) -> list[str]:
    colour = COLOURS[moment.kind]
    parts = [f'<text x="12" y="{y + 4}" fill="#57606a">{moment.time:.3f} / {moment.point}</text>']
    if moment.task:
        x = LEFT + LANE * lanes.index(moment.task)
        parts.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{colour}"/>')
    else:
        parts.append(
            f'<line x1="{LEFT - 20}" y1="{y}" x2="{width - 12}" y2="{y}" stroke="{colour}" stroke-dasharray="4 3"/>'
        )
    x = LEFT + LANE * len(lanes)
    y_text = y + 4 if moment.task else y - 3
    parts.append(f'<text x="{x}" y="{y_text}" fill="{colour}">{escape(moment.text)}</text>')
    return parts
