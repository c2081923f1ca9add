"""The walk-throughs of the documentation, run as they are printed: a node of one's own carries pings and TCP.

    cargo build -p sluice-node -p sluice-cli
    .venv/bin/pytest tests/blackbox/lab           (as root)

Each runs in network, mount and process namespaces of its own, with an empty `/run`, so that it meets no other node or lab, and what it leaves behind is seen.
"""

import os
import re
import shutil
import subprocess

import pytest

from conftest import REPOSITORY, program

# Seconds: far more than any of them takes on a busy machine.
LIMIT = 120


def shell_block(document, heading):
    """The shell commands of the section with this heading."""
    text = (REPOSITORY / document).read_text(encoding="utf-8")
    assert f"# {heading}\n" in text, f"{document} has no section '{heading}'"
    section = text.split(f"# {heading}\n", 1)[1]
    blocks = re.findall(r"^```sh\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    assert blocks, f"{document} has no shell commands under '{heading}'"
    return blocks[0]


@pytest.fixture
def run(tmp_path):
    """Runs commands as at the top of a built tree; their output, and what is there after them."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces are made as root")
    if shutil.which("iperf3") is None:
        pytest.skip("iperf3 is not installed")
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "release").symlink_to(program("sluiced").parent)

    def run(commands):
        script = f"mount -t tmpfs tmpfs /run\n{commands}\necho == left\nip netns list\nip -brief link show\npgrep sluiced || true\n"
        isolated = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        ended = subprocess.run(
            [*isolated, "bash", "-e", "-c", script],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        logs = "".join(log.read_text() for log in tmp_path.glob("*.log"))
        assert ended.returncode == 0, f"{ended.stdout}\n{logs}"
        said, left = ended.stdout.split("== left\n")
        # The kernel takes interfaces away a moment after their namespace.
        left = [line for line in left.splitlines() if not line.startswith("lo ") and "@" not in line]
        return said, left

    return run


WALK_THROUGHS = [
    ("README.md", "A first node of your own"),
    ("docs/node-document.md", "An edge on one machine"),
]


@pytest.mark.parametrize(("document", "heading"), WALK_THROUGHS, ids=[heading for _, heading in WALK_THROUGHS])
def test_walk_through_carries_pings_and_tcp(run, document, heading):
    said, left = run(shell_block(document, heading))
    pings = re.findall(r"(\d+) packets transmitted, (\d+) received", said)
    # The first may be gone before an edge knows the MAC address of its next hop.
    assert pings and all(0 <= int(sent) - int(received) <= 1 for sent, received in pings), said
    rates = re.findall(r"([\d.]+) ([KMG]?)bits/sec +receiver", said)
    assert rates and all(float(rate) > 0 and unit in "MG" for rate, unit in rates), said
    assert "Verdict: 1 frame leaves" in said, said
    assert left == [], left
