import io
import sys

import pytest

from rightreasons.core.progress import progress


def test_what_is_quick_shows_nothing(capsys):
    with progress("working", total=10) as advance:
        for _ in range(10):
            advance(1)
    assert capsys.readouterr() == ("", "")


def test_what_takes_long_shows_a_bar_on_the_error_stream_of_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal, output = Terminal(), io.StringIO()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setattr("rightreasons.core.progress.PATIENCE_SECONDS", -1.0)
    with progress("working hard", total=2) as advance:
        advance(1)
    assert "working hard" in terminal.getvalue()
    assert output.getvalue() == ""


def test_errors_pass_through():
    with pytest.raises(KeyError), progress("working", total=None):
        raise KeyError
