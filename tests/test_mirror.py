"""tests/ mirrors jit/: a folder for every room, and at the root only what speaks of the whole or several rooms use."""

from pathlib import Path

TESTS = Path(__file__).resolve().parent
PACKAGE = TESTS.parent / "jit"

OF_THE_WHOLE = {
    *("test_adding", "test_architecture", "test_code_style", "test_debugging", "test_docstrings", "test_examples"),
    "test_example_models",
    *(
        "test_class_names",
        "test_documentation",
        "test_glossary",
        "test_layering",
        "test_mirror",
        "test_operator_names",
        "test_packaging",
        "test_public_names",
        "test_readme",
        "test_startup",
    ),
    "test_cuda",  # of jit/cuda.py,
    "test_hub",  # of jit/hub.py,
    "test_futures",  # of jit/futures.py,
    "test_quasirandom",  # of jit/quasirandom.py and
    "test_native",  # of jit/native.py, which are loose modules
    "test_tolerances",  # of the comparison that all tests use
}
USED_BY_SEVERAL_ROOMS = {"random_graphs", "registry_cases", "rounding", "sampling", "threads", "tolerances"}
NO_ROOMS = {"adversarial", "programs", "ptx"}
"""Programs that only a traced function, or only eager mode, might run wrong: they go through all rooms. And the
interpreter of PTX with its own tests, which stands for a GPU and its driver; and programs written for PyTorch."""


def folders(root: Path) -> set[str]:
    return {path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("__")}


def modules(root: Path, pattern: str) -> set[str]:
    return {path.stem for path in root.glob(pattern)}


def test_every_room_has_a_folder_of_tests():
    rooms = folders(PACKAGE) - {"_stubs"}
    assert folders(TESTS) == rooms | NO_ROOMS
    assert not [room for room in rooms if not modules(TESTS / room, "test_*.py")]


def test_only_tests_of_the_whole_stand_at_the_root():
    assert modules(TESTS, "test_*.py") == OF_THE_WHOLE, "a test belongs into the folder of the room that it is about"


def test_only_what_several_rooms_use_stands_at_the_root():
    helpers = modules(TESTS, "*.py") - modules(TESTS, "test_*.py") - {"__init__", "conftest"}
    assert helpers == USED_BY_SEVERAL_ROOMS
    for helper in helpers - {"rounding"}:  # the part of random_graphs that judges results
        assert len(users(helper)) > 1, f"only tests/{users(helper)} uses tests/{helper}.py: it belongs there"


def users(helper: str) -> set[str]:
    """The folders of tests that import a module at the root."""
    spelled = (f"tests.{helper} import", f"from tests import {helper}", f"from ..{helper} import")
    return {
        path.relative_to(TESTS).parts[0]
        for path in TESTS.glob("*/**/*.py")
        if any(each in path.read_text() for each in spelled)
    }
