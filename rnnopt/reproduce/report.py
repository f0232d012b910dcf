"""The HTML report: an executed notebook without its code, and an index of all items."""

from __future__ import annotations

import html
import os

from rnnopt.reproduce import formulas, notebook

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --dim: #777; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 58rem; margin: 2rem auto; padding: 0 1.2rem; }
h1 { line-height: 1.2; } h2 { margin-top: 2.2rem; }
a { color: #0173b2; } @media (prefers-color-scheme: dark) { a { color: #56b4e9; } }
nav, .dim, footer { color: var(--dim); font-size: .9rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .9rem; display: block; overflow-x: auto; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th:first-child, td:first-child { text-align: left; } table.words td, table.words th { text-align: left; }
caption { text-align: left; padding-bottom: .4rem; font-weight: 600; }
pre { overflow-x: auto; font-size: .85rem; line-height: 1.35; padding: .6rem .8rem; background: #8881; }
img { max-width: 100%; height: auto; background: white; } img.formula { background: none; }
@media (prefers-color-scheme: dark) { img.formula { filter: invert(1); } }
.anchor-link { display: none; }
.item { display: grid; grid-template-columns: 14rem 1fr; gap: 1.4rem; border-top: 1px solid var(--line); padding: 1.2rem 0; }
.item h2 { margin: 0; } .item img { width: 100%; }
@media (max-width: 40rem) { .item { grid-template-columns: 1fr; } }
@media print { nav { display: none; } body { max-width: none; } }
"""

def page(executed, title: str) -> str:
    """Return an executed notebook as one HTML page: text, outputs and parameters, no code.

    Parameters
    ----------
    executed : nbformat.NotebookNode
    title : str
        Of the page.
    """
    import nbformat
    from nbconvert.exporters import HTMLExporter

    shown = nbformat.from_dict(executed)
    shown.cells = [_parameter_table(shown, cell) if _tagged(cell, "parameters") else cell
                   for cell in shown.cells if not _tagged(cell, "injected-parameters")]
    for cell in shown.cells:
        if cell.cell_type == "markdown":
            cell.source = formulas.draw(cell.source)
    exporter = HTMLExporter(template_name="basic", exclude_input=True, exclude_input_prompt=True,
                            exclude_output_prompt=True, embed_images=True)
    body, _ = exporter.from_notebook_node(shown)
    made = executed.metadata.get("papermill", {}).get("end_time") or ""
    return _html(title, f"""<nav><a href="index.html">All items</a></nav>
{body}
<footer>Executed {made[:16].replace("T", " ")} UTC with {html.escape(executed.metadata.kernelspec.display_name)}.</footer>""")


def _tagged(cell, tag):
    return tag in cell.metadata.get("tags", [])


def _parameter_table(executed, cell):
    import nbformat

    given = executed.metadata.get("papermill", {}).get("parameters", {})
    known = notebook.parameters({"cells": [cell]}, "the executed copy")
    rows = [(html.escape(name), html.escape(str(given.get(name, parameter.default))), html.escape(parameter.comment))
            for name, parameter in known.items()]
    text = "".join(f"<tr><td><code>{name}</code></td><td>{value}</td><td>{about}</td></tr>" for name, value, about in rows)
    return nbformat.v4.new_markdown_cell('<table class="words"><caption>Parameters of this run</caption>' + text + "</table>")


def index(items, states: dict) -> str:
    """Return the page that lists all items.

    Parameters
    ----------
    items : iterable of Item
    states : dict
        Item id -> (state in words, the stamp or None).
    """
    parts = [_entry(item, *states[item.id]) for item in items]
    return _html("Regenerated figures and tables", "<h1>Regenerated figures and tables</h1>\n" + "\n".join(parts))


def _entry(item, state, stamp):
    title, picture, links = html.escape(item.title), "", []
    if stamp and stamp["status"] == "done":
        title = _link(f"{item.id}.html", item.title)
        state += f": {stamp['finished'][:16].replace('T', ' ')} UTC, preset {stamp['preset']}"
        state += f", {stamp['inputs']['device'].get('what', 'unknown device')}"
        figures = [(path, alt) for path, alt in stamp["figures"].items() if path.endswith(".png")]
        picture = "".join(f'<img src="../{html.escape(path)}" alt="{html.escape(alt)}">' for path, alt in figures[:1])
        files = [*stamp["tables"], *stamp["figures"]]
        links = [_link(f"{item.id}.html", "report"), _link(f"../notebooks/{item.notebook}", "executed notebook"),
                 *(_link(f"../{path}", os.path.basename(path)) for path in files if path.endswith((".csv", ".svg", ".pdf")))]
    return f"""<section class="item"><div>{picture}</div><div>
<h2>{title}</h2>
<p class="dim">{html.escape(item.paper_item)}</p>
<p>{html.escape(item.claim)}</p>
<p>{" · ".join(links)}</p>
<p class="dim">{html.escape(state)}</p>
</div></section>"""


def _link(target, text):
    return f'<a href="{html.escape(target)}">{html.escape(text)}</a>'


def _html(title, body):
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>{_STYLE}</style></head>
<body>
{body}
</body></html>
"""
