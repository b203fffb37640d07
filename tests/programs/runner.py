"""Public programs run with torch and through the door, and compared loss by loss; README.md says how.

    python -m tests.programs.runner FOLDER --torch PYTHON [--only WORD] [--trace] [--jobs 2] [--table FILE]

FOLDER holds a checkout of every repository of `programs.toml`, as owner+name; PYTHON is an interpreter with torch.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RELATIVE, ABSOLUTE = 1e-4, 1e-6
"""The tolerances, the same for every program."""
_TRACED = re.compile(r"traced: (\w+), (\d+) of (\d+) calls from recordings(?:; (?:not traced any more: )?(.*))?")
CHUNK = 16
"""Programs that run with torch before they run through the door."""
_WARM = 4
"""Calls of a module before each is answered by a recording: two run as they are, two are recorded."""
TIMEOUT = 240
"""Seconds until a run counts as fresh."""


@dataclass
class Run:
    """What one run of a program gave."""

    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    error: str = ""
    """The last lines of stderr; empty if the program ended well and had losses."""
    traced: list[tuple[str, int, int, str]] = field(default_factory=list)
    """Name, hits, calls and the reason for not being traced, of every module that the program called."""


@dataclass
class Verdict:
    """What is known of a program after its runs."""

    name: str
    torch: Run
    door: Run
    plain: Run | None = None
    trace: Run | None = None

    @property
    def runs(self) -> bool:
        """Whether it runs through the door."""
        return not self.door.error

    @property
    def equal(self) -> bool:
        """Whether its losses are those of torch."""
        return self.runs and not self.torch.error and same(self.door.losses, self.torch.losses)

    @property
    def steady(self) -> bool:
        """Whether traced calls are answered by recordings once they are warm, and change no loss."""
        if self.trace is None or self.plain is None or self.trace.error:
            return False
        warm = [(hits, calls) for _, hits, calls, _ in self.trace.traced if calls > _WARM]
        return same(self.trace.losses, self.plain.losses) and bool(warm) and all(h >= c - _WARM for h, c in warm)

    def line(self) -> str:
        """One line of the table."""
        words = ["equal" if self.equal else "differs" if self.runs and not self.torch.error else "fails"]
        if self.torch.error:
            words = [f"torch fails: {self.torch.error.splitlines()[-1][:200]}"]
        elif not self.runs:
            words.append(self.door.error.splitlines()[-1][:300])
        elif not self.equal:
            words.append(f"{self.door.losses} instead of {self.torch.losses}")
        return f"{self.name}: {' '.join(words)}{self._of_trace()}"

    def _of_trace(self) -> str:
        if self.trace is None or self.plain is None:
            return ""
        if self.trace.error:
            return f" | trace fails: {self.trace.error.splitlines()[-1][:300]}"
        modules = ", ".join(f"{n} {h}/{c}{': ' + why if why else ''}" for n, h, c, why in self.trace.traced)
        kept = same(self.trace.losses, self.plain.losses)
        return f" | {'hits' if self.steady else 'no hits'} ({modules})" + ("" if kept else " LOSSES CHANGE")


def same(found: Sequence[float], wanted: Sequence[float]) -> bool:
    """Whether two lists of losses are equal within the tolerances."""
    if len(found) != len(wanted):
        return False
    pairs = zip(found, wanted, strict=True)
    return all(a == b or abs(a - b) <= ABSOLUTE + RELATIVE * abs(b) or (a != a and b != b) for a, b in pairs)


def programs(path: Path = HERE / "programs.toml") -> dict[str, dict[str, Any]]:
    """The entries of the list by name: repository, file, and what the entry says further."""
    listed = tomllib.loads(path.read_text())
    found = {}
    for repository, entry in listed.items():
        for name, program in entry["programs"].items():
            found[f"{repository}:{name}"] = {**program, "repository": repository, "commit": entry["commit"]}
    return found


def run_all(command: Sequence[str], orders: Sequence[dict[str, Any]]) -> list[Run]:
    """Run programs once each, in children of one process if there are several.

    Args:
        command: The interpreter, and the door if there is one.
        orders: The entries, with the folder.
    """
    with tempfile.TemporaryDirectory() as work:
        said = [_write(order, Path(work) / str(index)) for index, order in enumerate(orders)]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        try:
            done = subprocess.run(
                [*command, str(HERE / "inside.py"), *map(str, said)], env=environment, cwd=said[0].parent,
                capture_output=True, text=True, errors="replace", timeout=TIMEOUT * len(orders),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return [Run(error=f"no end after {TIMEOUT} seconds") for _ in orders]
        return [_read(path.parent, done.stderr) for path in said]


def _write(order: dict[str, Any], place: Path) -> Path:
    """The file of an order, in a folder of its own."""
    place.mkdir()
    path = place / "order.json"
    path.write_text(json.dumps({**order, "result": str(place / "result.json"), "timeout": TIMEOUT}))
    return path


def _read(place: Path, stderr: str) -> Run:
    """What a run has left in its folder."""
    result, errors = place / "result.json", place / "errors.txt"
    made = json.loads(result.read_text()) if result.exists() else {}
    stderr = errors.read_text(errors="replace") if errors.exists() else stderr
    error = "" if made.get("losses") else _reason(stderr) or "no losses"
    traced = [(n, int(h), int(c), why) for n, h, c, why in _TRACED.findall(stderr)]
    return Run(made.get("losses", []), made.get("seconds", []), error, traced)


def _reason(stderr: str) -> str:
    """The end of a traceback, its message's first line last."""
    lines = [
        each for each in stderr.rstrip().splitlines() if not each.startswith(("as_torch:", "  missing:", "  note:"))
    ]
    ends = [i for i, line in enumerate(lines) if re.match(r"[\w.]*(Error|Exception|Interrupt)\b", line)]
    return "\n".join(lines[: ends[-1] + 1][-12:]) if ends else "\n".join(lines[-12:])


def judge(name: str, order: dict[str, Any], torch: Run, options: argparse.Namespace) -> Verdict:
    """Run a program through the door, and traced if that is asked for."""
    door = [options.door, "-W", "ignore", "-m", "jit.as_torch"]
    if torch.error:
        return Verdict(name, torch, Run(error="not run"))
    verdict = Verdict(name, torch, *run_all(door, [order]))
    if options.trace and verdict.runs and not order.get("untraced"):
        alone = {**order, "shared": False, "steps": max(order.get("steps", 4), _WARM + 4)}
        (verdict.plain,) = run_all(door, [alone])
        (verdict.trace,) = run_all([*door, "--trace", "--report"], [alone])
    return verdict


def with_torch(orders: Sequence[dict[str, Any]], options: argparse.Namespace) -> list[Run]:
    """The runs with torch, from the cache where they are there."""
    cached = [_kept(order, options) for order in orders]
    (options.folder / "results").mkdir(exist_ok=True)
    lacking = [(order, path) for order, path in zip(orders, cached, strict=True) if not path.exists()]
    fresh: dict[Path, Run] = {}
    shares = [lacking[start :: options.jobs] for start in range(options.jobs)]
    with ThreadPoolExecutor(options.jobs) as pool:
        made = pool.map(
            lambda share: run_all([options.torch, "-W", "ignore"], [o for o, _ in share]), filter(None, shares)
        )
        for share, runs in zip(filter(None, shares), made, strict=True):
            for (_, path), each in zip(share, runs, strict=True):
                if not each.error:
                    path.write_text(json.dumps(each.__dict__))
                fresh[path] = each
    return [fresh.get(path) or Run(**json.loads(path.read_text())) for path in cached]


def _kept(order: dict[str, Any], options: argparse.Namespace) -> Path:
    """The file that keeps a program's result with torch."""
    text = json.dumps(order, sort_keys=True) + (HERE / "draws.py").read_text()
    return Path(options.folder / "results" / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json")


def main() -> None:
    """Run what the command line asks for and print a line for each program, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the repositories are")
    parser.add_argument("--torch", required=True, help="an interpreter with torch")
    parser.add_argument("--door", default=sys.executable, help="an interpreter for the door; this one if left out")
    parser.add_argument("--only", default="", help="a regular expression that names have to match")
    parser.add_argument("--known", action="store_true", help="only programs whose results with torch are kept")
    parser.add_argument("--trace", action="store_true", help="run everything traced, too")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", type=Path, default=HERE / "programs.toml")
    options = parser.parse_args()
    verdicts = []
    for verdict in judged(options):
        verdicts.append(verdict)
        print(verdict.line(), flush=True)
    print(counts(verdicts))


def judged(options: argparse.Namespace) -> Iterator[Verdict]:
    """The verdicts on the programs of the list, as they come."""
    options.folder = options.folder.resolve()
    chosen = {name: order for name, order in programs(options.list).items() if re.search(options.only, name)}
    for order in chosen.values():
        order |= {"folder": str(options.folder / order["repository"].replace("/", "+")), "shared": True}
    names = [name for name, order in chosen.items() if not options.known or _kept(order, options).exists()]
    for start in range(0, len(names), CHUNK):
        part = names[start : start + CHUNK]
        runs = with_torch([chosen[name] for name in part], options)
        with ThreadPoolExecutor(options.jobs) as pool:
            yield from pool.map(lambda name, run: judge(name, chosen[name], run, options), part, runs)


def counts(verdicts: Sequence[Verdict]) -> str:
    """A line of counts."""
    known = [each for each in verdicts if not each.torch.error]
    traced = [each for each in known if each.trace is not None]
    return (
        f"{len(known)} programs that run with torch; through the door {sum(v.runs for v in known)} run and "
        f"{sum(v.equal for v in known)} are equal; of {len(traced)} traced, {sum(v.steady for v in traced)} have hits"
    )


if __name__ == "__main__":
    main()
