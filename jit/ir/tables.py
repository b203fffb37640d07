"""Tables for notebooks: rows of texts as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def html_table(titles: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table of texts in HTML.

    Args:
        titles: The titles of the columns.
        rows: The cells, row by row.
        caption: A line about the table.

    >>> html_table(["a"], [["<b>"]])
    '<table><tr><th>a</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    head = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    about = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{about}<tr>{head}</tr>{body}</table>"
