"""PgBouncer, which tests put between themselves and PostgreSQL: only its program, no server.

The one of ``BENBI_TEST_PGBOUNCER``, else of this machine. Where there is none and apt is, its
package and the libraries that it lacks are downloaded from where the machine has its packages, and
unpacked beside the servers of tests: without root, and nothing is installed. Elsewhere somebody has
to install it, by brew, dnf or apk: neither Python's nor Node.js's packages have it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

# Programs of servers are not on everybody's path.
ALSO: Final = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin")
SECONDS: Final = 120


def program(place: Path) -> Path | None:
    """Where it is; ``place``: the folder under which it was unpacked."""
    named = os.environ.get("BENBI_TEST_PGBOUNCER")
    path = os.pathsep.join([os.environ.get("PATH", ""), *ALSO])
    found = named or shutil.which("pgbouncer", path=path)
    launcher = _launcher(place)
    return Path(found) if found else launcher if launcher.is_file() else None


def bring(place: Path) -> Path:
    """The program; unpacks one where there is none."""
    found = program(place)
    if found is None and not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise SystemExit(
            "no pgbouncer here: install it with this machine's package manager (brew install "
            "pgbouncer, dnf install pgbouncer), or name its program in BENBI_TEST_PGBOUNCER"
        )
    return found or _unpack(place)


def _launcher(place: Path) -> Path:
    return place / "pgbouncer" / "pgbouncer"


def _unpack(place: Path) -> Path:
    launcher = _launcher(place)
    root = launcher.with_name("root")
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as fresh:
        # The package downloader of root is another user.
        Path(fresh).chmod(0o755)
        try:
            _download(fresh, [])
        except SystemExit:
            # The machine's lists of packages are missing or old, and are not ours to renew.
            for name in ("lists", "cache/archives"):
                Path(fresh, name, "partial").mkdir(parents=True)
            own = ["-o", f"Dir::State::lists={fresh}/lists", "-o", f"Dir::Cache={fresh}/cache"]
            _run(fresh, "apt-get", *own, "update")
            _download(fresh, own)
        for package in sorted(Path(fresh).glob("*.deb")):
            _run(fresh, "dpkg", "-x", package.name, str(root))
    libraries = sorted({file.parent for file in root.rglob("*.so.*")})
    path = ":".join(map(str, libraries))
    start = shlex.join(["exec", "env", f"LD_LIBRARY_PATH={path}", f"{root}/usr/sbin/pgbouncer"])
    draft = launcher.with_name("draft")
    draft.write_text(f'#!/bin/sh\n{start} "$@"\n', "utf-8")
    draft.chmod(0o755)
    _run(str(place), str(draft), "--version")
    # Last: it says that the rest is whole.
    return draft.replace(launcher)


def _download(folder: str, options: list[str]) -> None:
    """The package, and of what it needs the libraries that this machine has not."""
    simulated = _run(folder, "apt-get", *options, "-s", "install", "pgbouncer")
    lines = [line.split() for line in simulated.splitlines()]
    wanted = [words[1] for words in lines if words[:1] == ["Inst"]]
    needed = [name for name in wanted if name == "pgbouncer" or name.startswith("lib")]
    _run(folder, "apt-get", *options, "download", *needed)


def _run(folder: str, *command: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
