"""Prints at the end how many cases there were."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    passed, failed = (
        sum("test_case[" in report.nodeid for report in terminalreporter.getreports(outcome))
        for outcome in ("passed", "failed")
    )
    if passed + failed:
        terminalreporter.write_line(
            f"adversarial: {passed + failed} cases, {passed} equal to eager mode or refused as documented, {failed} not"
        )
