"""From `FILE.py:name` to the Scheduler that it names."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType, TracebackType

from tickless.control.refusals import Code, Refusal
from tickless.errors import shown
from tickless.observe.text import error_line
from tickless.scheduler import Scheduler

DEFAULT_NAME = "scheduler"
_MISSING = object()


class NotFound(Refusal):
    """The target names no scheduler, or its file cannot be loaded. The message says what to do."""

    def __init__(self, message: str, traceback: str = "") -> None:
        super().__init__(Code.NOT_LOADED, "not_loaded", message)
        self.traceback = traceback
        """Of what a file raised, from its own first line on."""


def load(target: str) -> Scheduler:
    """The scheduler that `FILE.py:name` names: a Scheduler, or a function without arguments that returns one.

    Runs the file as a module, its folder first on `sys.path`, as `python FILE.py` has it; `__name__` is the file's
    name without `.py`, so that what stands under `if __name__ == "__main__":` is left alone.
    Raises NotFound, which has the traceback of what the file itself raises.
    """
    path, name = split(target)
    return _scheduler_of(import_file(path), path, name)


def app_of(target: str) -> Scheduler:
    """The scheduler that `module:name` names, of a module that can be imported from here, or `FILE.py:name`.

    Raises NotFound.
    """
    module, colon, name = target.partition(":")
    if "/" in target or module.endswith(".py") or Path(module).is_file():
        return load(target)
    name = name if colon else DEFAULT_NAME
    if not all(part.isidentifier() for part in module.split(".")) or not name.isidentifier():
        raise NotFound(f"{target!r} names no scheduler; write MODULE:NAME, or FILE.py:NAME")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = _guarded(lambda: importlib.import_module(module), f"module {module}")
    except NotFound as refusal:
        if f"No module named '{module}'" in str(refusal):
            raise NotFound(
                f"there is no module {module}; it is looked for in this folder and in what is installed"
            ) from None
        raise
    assert isinstance(found, ModuleType)
    return _scheduler_of(found, module, name)


def _scheduler_of(module: ModuleType, path: Path | str, name: str) -> Scheduler:
    found = _guarded(lambda: getattr(module, name, _MISSING), f"{name!r} of {path}")
    if found is _MISSING:
        raise NotFound(f"{path} has no {name!r}; {_offer(path, module)}")
    # By type, not by isinstance: a proxy answers that with foreign code, and raises where there is nothing behind it.
    if type(found) is Scheduler:
        return found
    if not callable(found) or issubclass(type(found), type):
        raise NotFound(f"{name!r} in {path} is a {type(found).__name__}, not a Scheduler; {_offer(path, module)}")
    made = _guarded(found, f"{name}() in {path}")
    if type(made) is not Scheduler:
        raise NotFound(f"{name}() in {path} returned a {type(made).__name__}; it must return a Scheduler")
    return made


def split(target: str) -> tuple[Path, str]:
    """`tasks.py:night` is (tasks.py, night); without a name it is `scheduler`. A colon in the path stays there."""
    file, colon, name = target.rpartition(":")
    if colon and name.isidentifier():
        return Path(file), name
    return Path(target), DEFAULT_NAME


def import_file(path: Path) -> ModuleType:
    """The file as a module, in `sys.modules` under its own name where that is free: processes can then unpickle."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "is not there"
        raise NotFound(f"{str(path)!r} {what}; give a Python file and a name in it, such as tasks.py:{DEFAULT_NAME}")
    name = path.stem
    # A file called json.py must not take the place of the json that others have imported.
    if name in sys.modules or name in sys.stdlib_module_names:
        name = f"tickless_run_{name}"
    loader = importlib.machinery.SourceFileLoader(name, str(path.resolve()))
    spec = importlib.util.spec_from_file_location(name, path.resolve(), loader=loader)
    assert spec is not None, "a spec with a loader given is always made"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    _guarded(lambda: loader.exec_module(module), str(path))
    return module


def _guarded(call: object, what: str) -> object:
    """What the call of foreign code returns. Raises NotFound, with the traceback of its error without our frames."""
    assert callable(call)
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - a file may raise anything; it is told, and is our exit code 4
        shown_ = "".join(traceback.format_exception(type(error), error, _theirs(error.__traceback__)))
        raise NotFound(f"{what} raised {error_line(error)}; nothing was run", shown_) from None
    except SystemExit as error:
        raise NotFound(
            f"{what} called sys.exit({shown(error.code)}) before anything was run; "
            'put what belongs to `python FILE.py` alone under `if __name__ == "__main__":`'
        ) from None


def _theirs(frames: TracebackType | None) -> TracebackType | None:
    """The part of the traceback below us and importlib. None for a SyntaxError, which names its line itself."""
    theirs = frames
    while theirs and (
        theirs.tb_frame.f_code.co_filename == __file__ or "importlib" in theirs.tb_frame.f_code.co_filename
    ):
        theirs = theirs.tb_next
    return theirs


def _offer(path: Path | str, module: ModuleType) -> str:
    """The way out: the schedulers that the file does have."""
    names = [name for name, value in vars(module).items() if type(value) is Scheduler]
    if names:
        return f"try {' or '.join(f'{path}:{name}' for name in names)}"
    return f"give it one: {DEFAULT_NAME} = tickless.Scheduler()"
