"""TeX in a notebook's text as pictures, so that a report needs neither scripts nor a network."""

from __future__ import annotations

import base64
import html
import io
import re

#: Code is matched first, so that a dollar sign in it stays one.
_PARTS = re.compile(r"(?P<code>(?P<ticks>`+).+?(?P=ticks))|\$\$(?P<display>.+?)\$\$|\$(?P<inline>[^$\s](?:[^$\n]*[^$\s])?)\$", re.DOTALL)

#: Points; the text around is 16 pixels high.
_SIZE = 12.5


def draw(markdown: str) -> str:
    """Replace ``$...$`` and ``$$...$$`` by pictures whose alternative text is the TeX; what can't be drawn stays TeX."""
    return _PARTS.sub(_replace, markdown)


def _replace(match):
    tex = match["display"] or match["inline"]
    if tex is None:
        return match[0]
    try:
        svg, depth = _svg(" ".join(tex.split()))
    except ValueError:
        return match[0]
    place = "display: block; margin: .6rem auto" if match["display"] else f"vertical-align: -{depth:.2f}pt"
    data = base64.b64encode(svg).decode()
    return f'<img class="formula" style="{place}" alt="{html.escape(tex)}" src="data:image/svg+xml;base64,{data}">'


def _svg(tex):
    """Picture and depth below the line, in points."""
    import matplotlib as mpl
    from matplotlib.font_manager import FontProperties
    from matplotlib.mathtext import math_to_image

    stream = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "rnnopt"}):
        depth = math_to_image(f"${tex}$", stream, FontProperties(size=_SIZE, math_fontfamily="stix"), dpi=72, format="svg")
    return stream.getvalue(), depth
