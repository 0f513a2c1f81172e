"""``module:app``: finds the Benbi object that a command works with.

Accepted: ``server:app``, ``package.server:app``, ``server`` (when it holds exactly one Benbi
object) and the same with a path, ``server.py:app`` or ``apps/server.py``.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import pkgutil
import re
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from benbi.errors import ConfigurationError

if TYPE_CHECKING:
    from types import TracebackType

    from benbi import Benbi

TAIL_FRAMES = 6

# The colon of a Windows drive is followed by a separator, never by a name.
_FORM = re.compile(r"(?P<place>.+?)(?::(?P<attribute>[^\W\d]\w*(?:\.[^\W\d]\w*)*))?")


@dataclass(frozen=True, slots=True)
class Target:
    """What ``module:app`` led to.

    ``text`` names it in full, so that it means the same in a child process started in any
    folder: by its file where it was given so or stands alone, else by its module.
    """

    app: Benbi
    text: str


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The parts of ``module:app``; ``folder`` has to be on the path to import ``module``."""

    module: str
    attribute: str | None
    folder: Path
    file: Path | None = None


def load(text: str) -> Target:
    """Imports the module that ``text`` names and returns its Benbi object.

    Raises ConfigurationError, which says what was searched and found instead.
    """
    wanted = _parse(text)
    _put_on_path(Path.cwd())
    _put_on_path(wanted.folder)
    module = _import(wanted)
    attribute, app = _choose(module, wanted)
    return Target(app, f"{_full_name(module, wanted)}:{attribute}")


def _full_name(module: ModuleType, wanted: _Wanted) -> str:
    file = getattr(module, "__file__", None)
    alone = "." not in wanted.module and file is not None and not hasattr(module, "__path__")
    return str(Path(file).resolve()) if file and (wanted.file or alone) else wanted.module


def _parse(text: str) -> _Wanted:
    form = _FORM.fullmatch(text)
    place = form["place"] if form else ""
    if _is_path(place):
        return _parse_path(Path(place), form and form["attribute"])
    if form is None or not all(part.isidentifier() for part in place.split(".")):
        raise ConfigurationError(
            f"{text!r} is not of the form module:app, for example server:app or server.py:app"
        )
    return _Wanted(place, form["attribute"], Path.cwd())


def _is_path(place: str) -> bool:
    return place.endswith(".py") or "/" in place or "\\" in place


def _parse_path(path: Path, attribute: str | None) -> _Wanted:
    path = path.resolve()
    if path.suffix != ".py" and path.with_suffix(".py").is_file():
        path = path.with_suffix(".py")
    if not path.is_file():
        names = [found.name for found in path.parent.glob("*.py")]
        raise ConfigurationError(f"no file {path}{_near(path.name, names)}")
    names = [] if path.name == "__init__.py" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    return _Wanted(".".join(names), attribute, folder, path)


def _put_on_path(folder: Path) -> None:
    # A console script has its own directory in front, not the one it was started in.
    text = str(folder)
    if text in sys.path:
        sys.path.remove(text)
    sys.path.insert(0, text)


def _import(wanted: _Wanted) -> ModuleType:
    try:
        # What a module prints while it is imported must not mix with JSON or MCP on stdout.
        with contextlib.redirect_stdout(sys.stderr):
            module = importlib.import_module(wanted.module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{wanted.module}.".startswith(f"{error.name}."):
            raise _not_found(wanted, error.name) from None
        raise _broken(wanted, error) from error
    except (SystemExit, Exception) as error:
        raise _broken(wanted, error) from error
    found = getattr(module, "__file__", None)
    if wanted.file is not None and (found is None or not wanted.file.samefile(found)):
        raise ConfigurationError(
            f"{wanted.file} can not be imported: the name {wanted.module} already belongs to "
            f"{found or 'a built-in module'}; rename the file"
        )
    return module


def _not_found(wanted: _Wanted, missing: str) -> ConfigurationError:
    parent, _, name = missing.rpartition(".")
    searched = [str(wanted.folder)]
    if parent:
        searched = list(getattr(sys.modules.get(parent), "__path__", searched))
    names = [found.name for found in pkgutil.iter_modules(searched)]
    place = f"{searched[0]}" if len(searched) == 1 else ", ".join(searched)
    return ConfigurationError(f"no module {missing!r} in {place}{_near(name, names)}")


def _near(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    shown = sorted(name for name in names if not name.startswith("_"))[:8]
    return f"; there are: {', '.join(shown)}" if shown else "; no Python module is there"


def _broken(wanted: _Wanted, error: BaseException) -> ConfigurationError:
    if isinstance(error, SystemExit):
        what = f"it called sys.exit({error.code!r}) while being imported"
        remedy = "; put that under: if __name__ == '__main__':"
    else:
        what = f"{type(error).__name__}: {error}"
        remedy = _shadowed(wanted, error)
    wrapped = ConfigurationError(f"{wanted.module} can not be imported: {what}{remedy}")
    wrapped.add_note(_tail(error))
    return wrapped


def _shadowed(wanted: _Wanted, error: BaseException) -> str:
    """Names the file of the user that hides an installed package, where that is the cause."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
    hidden = [wanted.folder / f"{name}.py", wanted.folder / name / "__init__.py"]
    for file in hidden:
        if name and file.is_file() and name != wanted.module.partition(".")[0]:
            return f"; {file} is found before an installed package {name}: rename it"
    return ""


def _tail(error: BaseException) -> str:
    """The traceback from the user's module on, without the frames that imported it."""
    trace = error.__traceback__
    while trace is not None and _is_import_machinery(trace):
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace, limit=-TAIL_FRAMES, chain=False)
    return "".join(lines)


def _is_import_machinery(trace: TracebackType) -> bool:
    file = trace.tb_frame.f_code.co_filename
    return file.startswith("<frozen importlib") or file in (__file__, importlib.__file__)


def _choose(module: ModuleType, wanted: _Wanted) -> tuple[str, Benbi]:
    from benbi import Benbi

    found = _benbi_objects(module)
    if wanted.attribute is None:
        if len(found) == 1:
            return next(iter(found.items()))
        raise ConfigurationError(_which(module, wanted, found))
    value: object = module
    for part in wanted.attribute.split("."):
        if not hasattr(value, part):
            problem = f"{module.__name__} has no {wanted.attribute!r}"
            raise ConfigurationError(f"{problem}; {_which(module, wanted, found)}")
        value = getattr(value, part)
    if not isinstance(value, Benbi):
        kind = type(value).__name__
        problem = f"{wanted.module}:{wanted.attribute} is of type {kind}, not a Benbi object"
        raise ConfigurationError(f"{problem}; {_which(module, wanted, found)}")
    return wanted.attribute, value


def _benbi_objects(module: ModuleType) -> dict[str, Benbi]:
    """The Benbi objects of a module by name, each once."""
    from benbi import Benbi

    found: dict[str, Benbi] = {}
    for name, value in vars(module).items():
        if isinstance(value, Benbi) and not any(value is known for known in found.values()):
            found[name] = value
    return found


def _which(module: ModuleType, wanted: _Wanted, found: dict[str, Benbi]) -> str:
    place = getattr(module, "__file__", None) or module.__name__
    if not found:
        return f"{place} holds no Benbi object (app = Benbi())"
    names = ", ".join(f"{wanted.module}:{name}" for name in found)
    return f"Benbi objects in {place}: {names}"
