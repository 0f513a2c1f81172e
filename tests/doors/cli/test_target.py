"""``module:app``: what leads to the tasks, and what is said when it does not."""

from __future__ import annotations

import pytest

from tests.doors.cli.command import Command


def refusal(benbi: Command, target: str) -> str:
    """The last line on stderr of a worker that could not start."""
    done = benbi.run("work", target)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("benbi: ")
    return last


def name_of(benbi: Command, target: str) -> str:
    """What the loader makes of ``target``."""
    code = f"from benbi.cli.target import load; print(load({target!r}).text)"
    found = benbi.start(code=code)
    assert found.wait() == 0, found.err.read_text()
    return found.out.read_text().strip()


@pytest.mark.parametrize("target", ["shop:app", "shop", "shop.py:app", "shop.py", "./shop.py:app"])
def test_a_module_in_the_working_directory_is_found(benbi: Command, target: str) -> None:
    assert name_of(benbi, target) == f"{benbi.folder / 'shop.py'}:app"


def test_a_file_elsewhere_is_found_and_imports_its_neighbours(benbi: Command) -> None:
    apps = benbi.folder / "apps"
    apps.mkdir()
    (apps / "neighbour.py").write_text("")
    (apps / "server.py").write_text("import neighbour\nfrom benbi import Benbi\napp = Benbi()\n")
    assert name_of(benbi, "apps/server.py:app") == f"{apps / 'server.py'}:app"


def test_a_file_elsewhere_goes_before_one_of_its_name_here(benbi: Command) -> None:
    (benbi.folder / "apps").mkdir()
    for folder in (benbi.folder, benbi.folder / "apps"):
        (folder / "server.py").write_text("from benbi import Benbi\napp = Benbi()\n")
    found = name_of(benbi, "apps/server.py:app")
    assert found == f"{benbi.folder / 'apps' / 'server.py'}:app"


def test_url_does_not_move_an_app_that_names_its_database(benbi: Command) -> None:
    (benbi.folder / "own.py").write_text("from benbi import Benbi\napp = Benbi('own.db')\n")
    done = benbi.run("work", "own:app", "--url", "other.db")
    assert done.returncode == 2
    assert str(benbi.folder / "own.db") in done.stderr
    assert not (benbi.folder / "other.db").exists()


def test_a_file_in_a_package_is_imported_as_part_of_it(benbi: Command) -> None:
    package = benbi.folder / "store"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "names.py").write_text("")
    (package / "jobs.py").write_text(
        "from . import names\nfrom benbi import Benbi\nclass Apps:\n    app = Benbi()\n"
    )
    assert name_of(benbi, "store.jobs:Apps.app") == "store.jobs:Apps.app"
    assert name_of(benbi, "store/jobs.py:Apps.app") == f"{package / 'jobs.py'}:Apps.app"


def test_what_a_module_prints_stays_off_stdout(benbi: Command) -> None:
    (benbi.folder / "chatty.py").write_text(
        "print('loading')\nfrom benbi import Benbi\napp = Benbi()\n"
    )
    assert name_of(benbi, "chatty:app") == f"{benbi.folder / 'chatty.py'}:app"


def test_a_wrong_name_lists_the_benbi_objects(benbi: Command) -> None:
    line = refusal(benbi, "shop:ap")
    assert "has no 'ap'" in line
    assert "shop:app" in line


def test_an_object_of_another_kind_is_named(benbi: Command) -> None:
    line = refusal(benbi, "shop:add")
    assert "not a Benbi object" in line
    assert "shop:app" in line


def test_a_module_with_several_must_be_told_which(benbi: Command) -> None:
    (benbi.folder / "both.py").write_text(
        "from benbi import Benbi\nmail = Benbi()\nstock = Benbi()\napp = mail\n"
    )
    line = refusal(benbi, "both")
    assert "both:mail" in line
    assert "both:stock" in line


def test_a_module_with_none_says_so(benbi: Command) -> None:
    (benbi.folder / "empty.py").write_text("")
    assert "holds no Benbi object" in refusal(benbi, "empty")


def test_a_wrong_module_names_the_folder_and_what_is_near(benbi: Command) -> None:
    line = refusal(benbi, "shpo:app")
    assert "no module 'shpo'" in line
    assert str(benbi.folder) in line
    assert "did you mean shop" in line


def test_a_wrong_file_names_what_is_near(benbi: Command) -> None:
    line = refusal(benbi, "shpo.py:app")
    assert str(benbi.folder / "shpo.py") in line
    assert "did you mean shop.py" in line


def test_a_wrong_submodule_is_not_blamed_on_the_package(benbi: Command) -> None:
    package = benbi.folder / "store"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "jobs.py").write_text("")
    line = refusal(benbi, "store.job:app")
    assert "no module 'store.job'" in line
    assert "did you mean jobs" in line


@pytest.mark.parametrize("target", ["shop:", ":app", "a:b:c", "shop-app:app"])
def test_another_form_is_explained(benbi: Command, target: str) -> None:
    assert "module:app" in refusal(benbi, target)


def test_a_broken_module_shows_the_end_of_its_own_traceback(benbi: Command) -> None:
    (benbi.folder / "broken.py").write_text("def start():\n    return 1 / 0\n\nstart()\n")
    done = benbi.run("work", "broken:app")
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert "broken.py" in lines[1]
    assert "importlib" not in done.stderr
    assert "benbi/cli" not in done.stderr
    assert "ZeroDivisionError" in lines[-1]


def test_a_missing_import_of_the_module_is_its_own_error(benbi: Command) -> None:
    (benbi.folder / "needy.py").write_text("import no_such_package\n")
    line = refusal(benbi, "needy:app")
    assert "needy can not be imported" in line
    assert "no_such_package" in line


def test_a_syntax_error_shows_its_place(benbi: Command) -> None:
    (benbi.folder / "typo.py").write_text("app = Benbi(\n")
    done = benbi.run("work", "typo:app")
    assert done.returncode == 2
    assert "typo.py" in done.stderr
    assert "SyntaxError" in done.stderr.splitlines()[-1]


def test_a_script_that_exits_is_told_about_the_guard(benbi: Command) -> None:
    (benbi.folder / "script.py").write_text("raise SystemExit(3)\n")
    assert "__name__ == '__main__'" in refusal(benbi, "script:app")


def test_a_file_named_like_a_package_that_it_needs_is_named(benbi: Command) -> None:
    # A package that the command itself has not imported yet.
    (benbi.folder / "server.py").write_text("from tarfile import TarFile\n")
    (benbi.folder / "tarfile.py").write_text("")
    done = benbi.alone("work", "server:app")
    assert done.returncode == 2
    line = done.stderr.splitlines()[-1]
    assert str(benbi.folder / "tarfile.py") in line
    assert "rename it" in line


def test_a_file_with_the_name_of_a_loaded_module_is_named(benbi: Command) -> None:
    (benbi.folder / "site.py").write_text("")
    line = refusal(benbi, "site.py:app")
    assert "already belongs to" in line
    assert "rename the file" in line
