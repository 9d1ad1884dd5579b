"""A scheduler from a file that is not part of this package."""

import importlib.util
import sys
import traceback
from functools import cache
from pathlib import Path

from servestudy.errors import UserError
from servestudy.schedulers.protocol import Scheduler

PROTOCOL = Scheduler.__module__
MODULE_PREFIX = "servestudy_own_"


@cache
def scheduler_from_file(place: str) -> type[Scheduler]:
    """The class at `FILE.py:CLASS`. The file may import what lies beside it.

    Raises UserError, one line, for a place of another form, a file that is missing or fails on import, a class that is
    not there, is no Scheduler, lacks `decide`, or cannot be made without arguments.
    """
    file, colon, name = place.rpartition(":")
    if not (colon and file.endswith(".py") and name.isidentifier()):
        raise UserError(f"{place!r}: give the file and the class of a scheduler, as my_scheduler.py:MyScheduler")
    path = Path(file)
    module = _imported(path)
    made = getattr(module, name, None)
    here = [key for key, value in vars(module).items() if _is_scheduler(value) and value.__module__ == module.__name__]
    if made is None:
        raise UserError(f"{path}: no class {name}; schedulers in it: {', '.join(here) or 'none'}")
    if not _is_scheduler(made):
        raise UserError(f"{path}: {name} is not a Scheduler; write `class {name}(Scheduler)`, from {PROTOCOL}")
    if made.decide is Scheduler.decide:
        raise UserError(f"{path}: {name} has no method decide(self, view)")
    try:
        made()
    except Exception as error:
        raise UserError(
            f"{path}: {name}() fails: {described(error)}; give every parameter a default, as the class is made "
            "anew for each cell"
        ) from None
    return made


def described(error: BaseException) -> str:
    """Kind and text of an exception, and the last line of a file outside this package that it went through."""
    frames = traceback.extract_tb(error.__traceback__)
    package = str(Path(__file__).parents[1])
    own = [frame for frame in frames if not frame.filename.startswith((package, "<frozen"))]
    frame = (own or frames)[-1]
    return f"{type(error).__name__}: {error} ({Path(frame.filename).name}, line {frame.lineno})"


def _is_scheduler(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Scheduler) and value is not Scheduler


def _imported(path: Path):
    name = MODULE_PREFIX + path.stem
    if not path.is_file():
        raise UserError(f"{path}: not found; give the path of the scheduler's file")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        where = Path(error.filename or path).name
        raise UserError(f"{where}, line {error.lineno}: not Python: {error.msg}") from None
    except (Exception, SystemExit) as error:
        raise UserError(f"{path}: the file cannot be imported: {described(error)}") from None
    finally:
        del sys.path[0]
    return module
