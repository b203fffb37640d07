"""The page of a traced function: what it holds, and that a browser shows it, quickly and without the network."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import jit
from jit import nn
from jit.inspection.viewing import contents

pytestmark = pytest.mark.llvm

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed here")
SECONDS = 2.0
"""The time in which a page of 2,000 nodes has to be there."""


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x):
        return x + jit.tanh(self.up(self.norm(x)))


class Tower(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.sum()


@pytest.fixture(scope="module")
def traced():
    f = jit.trace(Tower(2))
    f(jit.randn(4, 8)).backward()
    f(jit.randn(4, 8)).backward()
    return f


def data_of(path: Path) -> dict:
    """What the page shows."""
    (text,) = re.findall(r"^const data = (\{.*\});$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return json.loads(text)


def browse(path: Path, state: str = "") -> str:
    """The page as a browser has it after the scripts have run."""
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"{path.as_uri()}#{state}"]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    assert 'data-ready="' in dom, "a script of the page has failed"
    return html.unescape(dom)


def milliseconds(dom: str) -> int:
    """The time from the start of the page until it was drawn."""
    (text,) = re.findall(r'data-ready="(\d+)"', dom)
    return int(text)


def cards(dom: str) -> list[str]:
    """The titles of the cards in the picture."""
    return re.findall(r'<text class="title"[^>]*>([^<]*)</text>', dom)


# -- the data ----------------------------------------------------------------------------------------------------


def test_a_page_holds_every_pass_that_changed_the_graph(traced, tmp_path):
    traced.view(tmp_path / "f.html", jit.randn(4, 8))
    data = data_of(tmp_path / "f.html")
    assert [graph["title"] for graph in data["graphs"]] == [
        "recorded",
        *(result.name for result in traced.graphs if result.changed),
    ]
    sizes = [[len(stage["nodes"]) for stage in graph["stages"]] for graph in data["graphs"]]
    assert sum(sizes[0]) == len(traced.graph) and sum(sizes[-1]) == len(traced.graphs[-1].graph)


def test_the_text_of_nodes_is_that_of_the_graph(traced):
    data = contents(traced, "")
    stages = data["graphs"][0]["stages"]
    text = re.sub(r"@\d+", "@0", str(traced.graph))  # a node by itself counts its sub-graphs from 0
    assert all(data["nodes"][number][0] in text for stage in stages for number in stage["nodes"])


def test_nodes_that_a_pass_has_made_are_marked(traced):
    data = contents(traced, "")
    by_pass = {graph["title"]: graph["stages"] for graph in data["graphs"]}
    assert not any(stage["fresh"] for stage in by_pass["recorded"])
    kinds = {data["nodes"][number][2] for stage in by_pass["fuse"] for number in stage["fresh"]}
    assert "fused" in kinds
    assert not any(stage["fresh"] for stage in by_pass["canonicalize"])  # it renames values and makes no nodes


def test_kernels_come_with_code_and_times_with_lines(traced, tmp_path):
    traced.view(tmp_path / "f.html", jit.randn(4, 8))
    data = data_of(tmp_path / "f.html")
    assert [kernel["name"] for kernel in data["kernels"]] == [kernel.name for kernel in traced.kernels]
    assert all("define i32" in kernel["llvm"] and "ret" in kernel["asm"] for kernel in data["kernels"])
    assert sum(row[3] for row in data["profile"]["lines"]) == pytest.approx(data["profile"]["seconds"])
    lines = data["files"]["test_viewing.py"]
    assert lines == Path(__file__).read_text().splitlines()


def test_without_arguments_ones_are_timed(traced, tmp_path):
    traced.view(tmp_path / "f.html")
    assert data_of(tmp_path / "f.html")["profile"]["seconds"] > 0


def test_a_function_for_many_sizes_is_timed_without_arguments_too(tmp_path):
    f = jit.trace(lambda x: (x.tanh() * 2).sum(0))
    for size in (300, 400, 500):
        f(jit.ones(size, 64))  # long enough for a clock
    f.view(tmp_path / "f.html")
    assert data_of(tmp_path / "f.html")["profile"]["seconds"] > 0


def test_a_page_says_why_it_has_no_times(tmp_path):
    f = jit.trace(lambda x: x.tanh() if x.sum() < 0 else x.exp())
    f(-jit.ones(3))
    f.view(tmp_path / "f.html")  # ones take the other path
    assert data_of(tmp_path / "f.html")["profile"].startswith("GuardFailed")


def test_a_function_that_is_not_optimised_shows_no_passes(tmp_path):
    f = jit.trace(optimize=False)(lambda x: x.tanh() * 2)
    f(jit.ones(3))
    f.view(tmp_path / "f.html")
    data = data_of(tmp_path / "f.html")
    assert [graph["title"] for graph in data["graphs"]] == ["recorded"] and data["kernels"] == []


def test_there_is_nothing_to_view_before_a_call(tmp_path):
    with pytest.raises(jit.Error, match="call it once"):
        jit.trace(lambda x: x).view(tmp_path / "f.html")
    assert not list(tmp_path.iterdir())


def test_text_of_the_user_cannot_break_the_page(tmp_path):
    f = jit.trace(lambda x: x * 2)
    f.__name__ = "</script><b>name"
    f(jit.ones(3))
    f.view(tmp_path / "f.html")
    assert "</script><b>" not in (tmp_path / "f.html").read_text()
    assert data_of(tmp_path / "f.html")["name"] == "</script><b>name"


def test_a_page_needs_no_network(traced, tmp_path):
    traced.view(tmp_path / "f.html")
    text = (tmp_path / "f.html").read_text().replace("http://www.w3.org/2000/svg", "")
    page = re.sub(r"^const data = .*$", "", text, flags=re.MULTILINE)
    assert not re.search(r"https?://|<link|@import|src=|fetch\(", page)


# -- in a browser ------------------------------------------------------------------------------------------------


@needs_browser
def test_a_browser_shows_cards_scopes_stages_and_times(traced, tmp_path):
    traced.view(tmp_path / "f.html", jit.randn(4, 8))
    dom = browse(tmp_path / "f.html")
    assert {"%x", "linear", "tanh", "return"} <= set(cards(dom))
    assert "▾ blocks.0" in dom and "▾ norm" in dom
    assert re.search(r'<span class="time"[^>]*>[\d.]+ [µnm]?s</span>', dom)
    assert "tanh_backward" in cards(browse(tmp_path / "f.html", "stage=1&open=all"))


@needs_browser
def test_a_browser_shows_the_graph_after_each_pass(traced, tmp_path):
    traced.view(tmp_path / "f.html")
    titles = [graph["title"] for graph in data_of(tmp_path / "f.html")["graphs"]]
    dom = browse(tmp_path / "f.html", f"pass={titles.index('fuse')}&open=all")
    assert "FusionGroup" in cards(dom) and "<b>after fuse</b>" in dom and 'class="dot"' in dom


@needs_browser
def test_a_browser_finds_operators_and_opens_their_scopes(traced, tmp_path):
    traced.view(tmp_path / "f.html")
    dom = browse(tmp_path / "f.html", "find=blocks.1/up")
    assert "1 of 1" in dom and re.search(r'class="card[^"]* current[^"]*"', dom)


@needs_browser
def test_a_browser_shows_the_code_of_a_kernel(traced, tmp_path):
    traced.view(tmp_path / "f.html")
    name = traced.kernels[0].name
    shown = browse(tmp_path / "f.html", f"kernel={name}").split("const data")[0]  # without the data of the page
    assert f"define i32 @{name}(" in shown


@needs_browser
def test_a_browser_opens_2000_nodes_in_two_seconds(tmp_path):
    f = jit.trace(Tower(180))
    for _ in range(2):
        f(jit.randn(4, 8)).backward()
    assert len(f.graph) > 2000
    f.view(tmp_path / "f.html")
    assert min(milliseconds(browse(tmp_path / "f.html")) for _ in range(2)) < 1000 * SECONDS


@needs_browser
def test_a_flat_graph_is_cut_into_parts(tmp_path):
    def long(x):
        for _ in range(1000):
            x = x.tanh() * 2
        return x

    f = jit.trace(optimize=False)(long)
    f(jit.ones(3))
    f.view(tmp_path / "f.html")
    dom = browse(tmp_path / "f.html")
    assert len(cards(dom)) < 200 and "test_viewing.py" in dom
    assert milliseconds(dom) < 1000 * SECONDS
