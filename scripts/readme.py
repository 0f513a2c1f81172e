"""Runs a section of a page, the first minute of the README unless told otherwise, as printed.

    scripts/readme.py README.md VENV [SECONDS [SECTION]]

It reads the section whose heading begins with SECTION (up to the next heading of the same or a
higher level) and does what a reader would, in an empty folder, with VENV's programs first on
PATH and an empty home:

    ```python NAME          is saved as NAME; so is ```ini NAME
    ```sh                   is run; each command must succeed
    ```sh background        is started and left running until the end; the next block begins
                            when it has printed its first line
    ```text, ```console …   is shown only: outputs, and what can not run here
    ```python               without a name is compiled, no more

All ``sh`` blocks share one shell, in the order of the page, so that ``cd`` and ``export`` last.
``pip install benbi`` gets the wheel that the caller put into PIP_CONSTRAINT. Python blocks of the
rest of the page are compiled too.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SECTION = "First minute"
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```\s*$", re.M | re.S
)
HEADING = re.compile(r"^(#+) +(.+?) *$")
READY = 20  # seconds within which a background block must print its first line


@dataclass(frozen=True)
class Block:
    """A fenced block: ``words`` are those after the fence, ``line`` is where it begins."""

    words: tuple[str, ...]
    body: str
    line: int

    @property
    def language(self) -> str:
        return self.words[0] if self.words else ""


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    for fence in FENCE.finditer(text):
        indent = len(fence["indent"])
        body = "\n".join(line[indent:] for line in fence["body"].splitlines()) + "\n"
        line = text.count("\n", 0, fence.start()) + 1
        found.append(Block(tuple(fence["info"].split()), body, line))
    return found


def section(text: str, title: str) -> tuple[int, int]:
    """First and last line of the section with that heading; SystemExit if there is none."""
    fenced = False
    start = level = 0
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        heading = None if fenced else HEADING.match(line)
        if heading is None:
            continue
        if start and len(heading[1]) <= level:
            return start, number
        if not start and heading[2].lower().startswith(title.lower()):
            start, level = number, len(heading[1])
    if not start:
        sys.exit(f"readme: no section {title!r}")
    return start, len(lines) + 1


def is_file(block: Block) -> bool:
    """True for a block that is saved under the name that it gives."""
    return block.language in ("python", "ini") and len(block.words) > 1


def compile_python(block: Block, page: str) -> None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    compile("\n" * block.line + block.body, page, "exec", flags)


def script(steps: list[Block], stored: Path) -> str:
    """One shell script of all steps; a file is written when its block's turn has come."""
    parts = ["set -euo pipefail"]
    for block in steps:
        kept = stored / f"line-{block.line}"
        quoted = shlex.quote(str(kept))
        parts.append(f"echo '-- line {block.line}' >&2")
        if is_file(block):
            kept.write_text(block.body, "utf-8")
            name = shlex.quote(block.words[1])
            parts.append(f'mkdir -p "$(dirname {name})"; cp {quoted} {name}')
        elif "background" in block.words:
            parts += [
                f"(\n{block.body}) >{quoted} 2>&1 &",
                f"tail -n +1 -F {quoted} 2>/dev/null &",
                f"for _ in $(seq {READY * 10}); do [ -s {quoted} ] && break; sleep 0.1; done",
                f"[ -s {quoted} ] || {{ echo 'nothing printed in {READY} s' >&2; exit 1; }}",
            ]
        else:
            # No input: what waits for a person fails at once.
            parts.append(f"{{\n{block.body}}} </dev/null")
    return "\n".join(parts) + "\n"


def environment(venv: Path, home: Path) -> dict[str, str]:
    """A reader's environment: nothing of benbi's is set, and the home is empty."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BENBI_")}
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        kept.pop(name, None)
    path = f"{venv.resolve() / 'bin'}{os.pathsep}{kept['PATH']}"
    return {**kept, "HOME": str(home), "PATH": path, "PYTHONUNBUFFERED": "1"}


def run(steps: list[Block], venv: Path, seconds: float) -> int:
    """The exit code of the shell that did what the steps say."""
    with tempfile.TemporaryDirectory(prefix="benbi-readme-") as place:
        home, folder, stored = (Path(place, name) for name in ("home", "folder", "stored"))
        for path in (home, folder, stored):
            path.mkdir()
        process = subprocess.Popen(
            ["bash", "-c", script(steps, stored)],
            cwd=folder,
            env=environment(venv, home),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            print(f"readme: not done within {seconds:g} s", file=sys.stderr)
            return 124
        finally:
            end_group(process)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends what the page left running: SIGTERM, and SIGKILL two seconds later."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + 2
        try:
            os.killpg(process.pid, signum)
            while time.monotonic() < deadline:
                process.poll()
                time.sleep(0.05)
                os.killpg(process.pid, 0)
        except ProcessLookupError:
            return


def main(arguments: list[str]) -> int:
    if len(arguments) not in (2, 3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    page, venv = Path(arguments[0]), Path(arguments[1])
    seconds = float(arguments[2]) if len(arguments) > 2 else 120.0
    wanted = arguments[3] if len(arguments) > 3 else SECTION
    text = page.read_text("utf-8")
    first, last = section(text, wanted)
    steps: list[Block] = []
    for block in blocks(text):
        if block.language == "python":
            compile_python(block, arguments[0])
        if first <= block.line < last and (block.language == "sh" or is_file(block)):
            steps.append(block)
    if not any(block.language == "sh" for block in steps):
        print(f"readme: nothing to run in section {wanted!r}", file=sys.stderr)
        return 1
    started = time.monotonic()
    code = run(steps, venv, seconds)
    print(f"readme: {len(steps)} blocks in {time.monotonic() - started:.1f} s, exit code {code}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
