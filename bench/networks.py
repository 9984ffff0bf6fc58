"""What does one agent for all network namespaces cost, for each of them?

    python -m bench.networks [--write]     # needs root; makes namespaces, and takes them away

Real namespaces with loopback only. A sleeping one has no client of Kafka; a watched one has a
client with five connections. The agent runs as the DaemonSet does: every namespace is looked for
each 10 s, a watched one is polled each second.
"""

from __future__ import annotations

__all__ = ["main"]

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.e2e.monitoring import get

PAGE = Path(__file__).parent.parent / "docs" / "internals" / "resources.md"
START, END = "<!-- networks -->", "<!-- /networks -->"
PORT, WEB_PORT = 19877, 19878
MANY = 40
CONNECTIONS = 5
MEASURED_SECONDS = 40
SETTLE_SECONDS = 25
TICKS = os.sysconf("SC_CLK_TCK")

POD = """
import socket, subprocess, sys
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
broker = socket.create_server(("127.0.0.1", int(sys.argv[1])))
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(int(sys.argv[2]))]
print("ready", flush=True)
sys.stdin.read()
"""


def main() -> None:
    """Measure and print a table."""
    rows = [cost("none", 0, 0), cost("asleep", MANY, 0), cost("watched", MANY, CONNECTIONS)]
    nothing = rows[0]
    lines = [
        "| namespaces | CPU, of a core | resident | for each: CPU | for each: resident |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, count, cpu, resident in rows:
        words = f"{count} {name}" if count else "those of the machine alone"
        each = ("", "")
        if count:
            each = (
                f"{1000 * (cpu - nothing[2]) / count:.2f} ms/s",
                f"{1024 * (resident - nothing[3]) / count:.0f} KiB",
            )
        lines.append(
            f"| {words} | {100 * cpu:.1f} % | {resident:.0f} MiB | {each[0]} | {each[1]} |"
        )
    table = "\n".join(lines)
    print(table)
    if "--write" in sys.argv:
        head, _, rest = PAGE.read_text("utf-8").partition(START)
        tail = rest.partition(END)[2]
        PAGE.write_text(f"{head}{START}\n{table}\n{END}{tail}", "utf-8")


def cost(name: str, count: int, connections: int) -> tuple[str, int, float, float]:
    """Return the agent's share of a core and its MiB beside so many namespaces."""
    with ExitStack() as stack:
        for _ in range(count):
            command = ["unshare", "-n", sys.executable, "-S", "-c", POD, str(PORT)]
            pod = subprocess.Popen(
                [*command, str(connections)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            stack.callback(pod.communicate)
            stack.callback(pod.kill)
            if pod.stdout is None or pod.stdout.readline() != b"ready\n":
                raise SystemExit("a namespace did not start")
        config = Path(stack.enter_context(tempfile.TemporaryDirectory()), "brokerwire.yaml")
        config.write_text(f"networks: {{follow: all}}\nbrokers: {{ports: [{PORT}]}}\n")
        agent = subprocess.Popen(
            [Path(sys.executable).with_name("brokerwire"), "run", "--config", config,
             "--web.listen-address", f"127.0.0.1:{WEB_PORT}"],
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        stack.callback(agent.communicate)
        stack.callback(agent.terminate)
        time.sleep(SETTLE_SECONDS)
        before, begun = processor(agent.pid), time.monotonic()
        time.sleep(MEASURED_SECONDS)
        used = (processor(agent.pid) - before) / (time.monotonic() - begun)
        resident = memory(agent.pid)
        check(count if connections else 0)
    return name, count, used, resident


def check(watched: int) -> None:
    """A figure of an agent that saw nothing would be a lie."""
    text = get(f"http://127.0.0.1:{WEB_PORT}/metrics").decode()
    if f'brokerwire_networks{{state="watched"}} {watched}.0' not in text:
        raise SystemExit(f"not {watched} namespaces were watched")


def processor(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def memory(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    main()
