"""The documentation site: `make docs` builds it with Sphinx; `site_pages.py` writes the pages that are generated."""

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import site_pages  # noqa: E402

site_pages.write(HERE / "_made")

project = "jit"
copyright = author = "The jit maintainers"
extensions = ["myst_nb"]
html_theme = "furo"
html_title = "jit"
exclude_patterns = ["_site", "jupyter_execute", "**/.ipynb_checkpoints"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True
html_show_sourcelink = False
pygments_style = "default"


def _without_links_out(app: Any, name: str, source: list[str]) -> None:
    """Make texts of links to files of the repository, which the site does not have."""
    source[0] = re.sub(r"\[([^\]]*)\]\(\.\./[^)]*\)", r"\1", source[0])


def setup(app: Any) -> None:
    """The hook that Sphinx calls."""
    app.connect("source-read", _without_links_out)
