"""Black-box tests: programs of this repository, judged by tools that others wrote.

The tests of the packet formats need one example program:

    cargo build -p sluice-wire --example wire_json --features builder,serde
    python3 -m venv .venv
    .venv/bin/pip install -r tests/blackbox/requirements.txt
    .venv/bin/pytest tests/blackbox/wire

Programs are taken from `target/debug`. The environment variable SLUICE_TARGET_DIR names another directory, such as
`target/release` or the `debug` directory of another target directory.

Frames are random but the same in every run: each test has its own seed. A failing test prints the frame in hexadecimal
digits, which `wire_json` takes on its standard input.
"""

import json
import os
import pathlib
import subprocess

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def program(relative):
    """The path of a built program, given relative to the target directory."""
    directory = pathlib.Path(os.environ.get("SLUICE_TARGET_DIR", REPOSITORY / "target" / "debug"))
    path = directory / relative
    assert path.exists(), f"{path} is not built; {__file__} says how, and SLUICE_TARGET_DIR where to look"
    return path


class WireJson:
    """The example program `wire_json`: frames to JSON and JSON to frames, a line each."""

    def __init__(self, process):
        self._process = process

    def _ask(self, line):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"wire_json ended at {line}"
        return json.loads(answer)

    def read(self, frame):
        """The layers of `frame` as our parsers see them, with `error` where one of them refused."""
        return self._ask(bytes(frame).hex())

    def build(self, layers):
        """The frame of `layers` as our emitters make it."""
        answer = self._ask(json.dumps({"layers": layers}))
        assert "error" not in answer, f"{answer['error']}: {layers}"
        return bytes.fromhex(answer["frame"])


@pytest.fixture(scope="session")
def wire():
    """A running `wire_json`."""
    command = [program("examples/wire_json")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield WireJson(process)
        process.stdin.close()
        assert process.wait(timeout=10) == 0
