"""From the text of a task file to its values. All that is wrong with it is told at once, each with its place."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from tickless.errors import RuleError, ScheduleError
from tickless.observe.text import printable
from tickless.policies import Limit
from tickless.pools import MOST_SLOTS
from tickless.rules.text import parse
from tickless.rules.zones import zone_of
from tickless.states import DEFAULT_POOL
from tickless.stores.sql.address import parse as parse_store
from tickless.taskfile.keys import (
    COMMAND,
    DEFAULTS,
    ELSEWHERE,
    LIMIT,
    OPTIONS,
    TASK,
    WORK,
    Ground,
    Read,
    Unfit,
    command_of,
    limit_of,
    value_of,
)
from tickless.taskfile.parts import fitted, parts_of
from tickless.taskfile.places import in_order, near, seen, within
from tickless.taskfile.values import FileError, Problem, PythonCall, TaskDef, TaskFile

TOP = ("timezone", "store", "defaults", "pools", "limits", "tasks")
MOST_BYTES = 10_000_000


def read(path: Path, text: str | None = None) -> TaskFile:
    """The file. One whose name ends in .toml is a task file, any other a crontab. `text`: instead of what it holds.

    Raises FileError.
    """
    if text is None:
        text = _text_of(path)
    if path.suffix.lower() == ".toml":
        return _Reader(path).file(text)
    from tickless.taskfile.crontab import read_crontab

    return read_crontab(path, text)


def _text_of(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise FileError(path, (Problem("", f"cannot be read: {error.strerror}"),)) from None
    if len(data) > MOST_BYTES:
        raise FileError(path, (Problem("", f"is longer than {MOST_BYTES:,} bytes, which no task file is"),))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileError(path, (Problem(f"line {line}", "is not UTF-8"),)) from None


def _place(where: str, text: str) -> str:
    """`line 3, column 9`, also at the end."""
    if where.startswith("line"):
        return where
    lines = text.split("\n")
    return f"line {len(lines)}, column {len(lines[-1]) + 1}"


class _Reader:
    """One reading: collects what is wrong on its way."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self._own: dict[str, frozenset[str]] = {}
        self._unread: set[str] = set()

    def file(self, text: str) -> TaskFile:
        top = self._toml(text)
        self._names("", top, TOP)
        timezone = self._timezone(top.get("timezone", "UTC"))
        pools, limits = self._pools(top.get("pools", {})), self._limits(top.get("limits", {}))
        ground = Ground(
            Path(self.path).absolute().parent,
            zone_of(timezone, "timezone"),
            {DEFAULT_POOL: 0, **pools},
            dict.fromkeys(top["limits"]) if type(top.get("limits")) is dict else {},
        )
        store = self._store(top.get("store"))
        defaults = self._defaults(self._table("defaults", top.get("defaults", {})), ground)
        tasks = self._tasks(top.get("tasks", {}), ground, defaults)
        parts, problems = parts_of(tasks, self._own, ground, self._unread)
        self.problems += problems
        if self.problems:
            told = in_order(top, self.problems)
            raise FileError(self.path, tuple(Problem(printable(at), printable(said, 1_000)) for at, said in told))
        return TaskFile(self.path, "toml", timezone, store, pools, limits, fitted(tasks, parts), parts)

    def _toml(self, text: str) -> dict[str, Any]:
        place, why = "", ""
        try:
            return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
        except tomllib.TOMLDecodeError as error:
            said, at, where = str(error).rpartition(" (at ")
            place, why = (_place(where.rstrip(")"), text), said) if at else ("", str(error))
        except ValueError:  # of an int with more digits than Python reads; it does not say where
            why = "it has a number of too many digits"
        except RecursionError:
            why = "it is nested too deeply"
        raise FileError(self.path, (Problem(place, f"is no TOML: {printable(why, 1_000)}"),))

    # Pieces

    def _fail(self, place: str, message: str) -> None:
        self.problems.append(Problem(place, message))

    def _fail_within(self, place: str, error: Unfit) -> None:
        self._fail(place if error.key is None else within(place, error.key), str(error))

    def _table(self, place: str, value: Any) -> dict[str, Any]:
        if type(value) is dict:
            return value
        self._fail(place, f"needs a table, not {seen(value)}")
        return {}

    def _names(self, place: str, table: Mapping[str, Any], known: Collection[str]) -> None:
        for name in table:
            if name not in known:
                hint = near(name, known) or f"; there is {', '.join(known)}"
                if known is DEFAULTS and name in TASK:
                    hint = " for all tasks; say it of each"
                elif known in (TASK, DEFAULTS) and name in ELSEWHERE:
                    hint = f"; {ELSEWHERE[name]}"
                self._fail(within(place, name), f"no such key{hint}")

    def _values(self, place: str, table: dict[str, Any], keys: Mapping[str, Read], ground: Ground) -> dict[str, Any]:
        """What comes of each key that is known and fits; the others are told."""
        self._names(place, table, keys)
        values = {}
        for key, given in table.items():
            if key in keys:
                try:
                    values[key] = value_of(ground, key, keys[key], given)
                except Unfit as error:
                    self._fail_within(f"{place}.{key}", error)
        return values

    def _timezone(self, value: Any) -> str:
        try:
            if type(value) is not str:
                raise RuleError(f'needs the name of a zone, such as "Europe/Berlin", not {seen(value)}')
            zone_of(value, "timezone")
        except RuleError as error:
            self._fail("timezone", str(error).removeprefix("timezone: "))
            return "UTC"
        return value

    def _store(self, value: Any) -> str | None:
        if value is None:
            return None
        try:
            if type(value) is not str:
                raise ScheduleError(f"needs an address, such as 'sqlite:///tasks.db', not {seen(value)}")
            parse_store(value)
        except ScheduleError as error:
            self._fail("store", str(error).removeprefix("store="))
            return None
        return value

    def _defaults(self, table: dict[str, Any], ground: Ground) -> dict[str, Any]:
        defaults = self._values("defaults", table, DEFAULTS, ground)
        start, until = defaults.get("start"), defaults.get("until")
        if start is not None and until is not None and until < start:  # else both would fit no task, and be dropped
            self._fail("defaults", "start, until: ends before it begins")
        return defaults

    def _pools(self, given: Any) -> dict[str, int]:
        pools = {}
        for name, table in self._table("pools", given).items():
            place = within("pools", name)
            pools[name] = 1
            if not name.strip() or not name.isprintable():
                self._fail(place, "a name is a text that is seen")
            if type(table) is not dict:
                self._fail(place, f"needs a table, such as {{ slots = 2 }}, not {seen(table)}")
                continue
            self._names(place, table, ("slots",))
            slots: Any = table.get("slots")
            if not table:
                self._fail(place, "needs slots: how many of its tasks run at once")
            elif "slots" in table and (type(slots) is not int or not 1 <= slots <= MOST_SLOTS):
                self._fail(f"{place}.slots", f"needs a whole number from 1 to {MOST_SLOTS:,}, not {seen(slots)}")
            elif "slots" in table:
                pools[name] = slots
        return pools

    def _limits(self, given: Any) -> tuple[Limit, ...]:
        limits = []
        for name, table in self._table("limits", given).items():
            place = within("limits", name)
            if not name.strip() or not name.isprintable():
                self._fail(place, "a name is a text that is seen")
            elif type(table) is dict:
                self._names(place, table, LIMIT)
                try:
                    limits.append(limit_of(name, {key: table[key] for key in LIMIT if key in table}))
                except Unfit as error:
                    if error.key is not None or table.keys() <= set(
                        LIMIT
                    ):  # else it limits nothing since a key is misspelt
                        self._fail_within(place, error)
            else:
                self._fail(place, f"needs a table, such as {{ running = 2 }}, not {seen(table)}")
        return tuple(limits)

    def _tasks(self, given: Any, ground: Ground, defaults: Mapping[str, Any]) -> list[TaskDef]:
        tables = self._table("tasks", given)
        if not tables and not self.problems:
            self._fail("tasks", "there is none; a task is a table [tasks.NAME] with run = ...")
        tasks = []
        for name, table in tables.items():
            before = len(self.problems)
            place = within("tasks", name)
            if not name.strip() or name.startswith("#") or "@" in name or "/" in name or not name.isprintable():
                self._fail(place, "a name is a text that is seen, without @ and /, and does not begin with #")
            if name.endswith(".on_failure"):  # which is how a store calls the handler of another
                self._fail(place, "a name does not end with .on_failure")
            tasks.append(self._task(name, place, table, ground, defaults))
            if len(self.problems) > before:
                self._unread.add(name)
        return tasks

    def _task(self, name: str, place: str, table: Any, ground: Ground, defaults: Mapping[str, Any]) -> TaskDef:
        nothing = PythonCall("")  # still, others may name it
        if type(table) is not dict:
            self._fail(place, f'needs a table, such as {{ run = "command" }}, not {seen(table)}')
            self._own[name] = frozenset()
            return TaskDef(name, nothing, place=place)
        own = self._values(place, table, TASK, ground)
        self._own[name] = frozenset(own)
        said = {**defaults, **own}
        if "env" in defaults and "env" in own:
            said["env"] = tuple(sorted({**dict(defaults["env"]), **dict(own["env"])}.items()))
        work = self._work(place, table, own, said)
        when = self._when(place, own.get("when"), ground)
        handler = said.get("on_failure")
        if handler is not None and not isinstance(handler, PythonCall):
            handler = command_of(handler, {key: said[key] for key in said if key not in ("stdin", "success_codes")})
        after_tasks = own.get("after_tasks", ())
        options = {key: value for key, value in said.items() if key in OPTIONS}
        if "run_if" in options and not after_tasks:
            if "run_if" in own and not table.get("after_tasks"):
                self._fail(f"{place}.run_if", "is about the tasks before it, and there are none; give after_tasks")
            del options["run_if"]
        text, description = own.get("when"), own.get("description")
        return TaskDef(name, work or nothing, when, text, after_tasks, options, handler, description, place)

    def _work(self, place: str, table: dict[str, Any], own: dict[str, Any], said: dict[str, Any]) -> Any:
        if "run" in table and "python" in table:
            self._fail(place, "has both run and python; say one of them")
        elif "run" not in table and "python" not in table:
            if not any(near(key, WORK) for key in table if key not in TASK):  # else it is misspelt, and that is told
                self._fail(place, 'says nothing to do; give run = "command", or python = "module:function"')
        elif "run" in table:
            for key in ("args", "kwargs"):
                if key in table:
                    self._fail(f"{place}.{key}", "is for python; the arguments of a command stand in run")
            return command_of(own["run"], said) if "run" in own else None
        else:
            for key in COMMAND:
                if key in table:
                    self._fail(f"{place}.{key}", "is for commands, and this is a Python function")
            if "python" in own:
                return PythonCall(own["python"], own.get("args", ()), own.get("kwargs", {}))
        return None

    def _when(self, place: str, text: str | None, ground: Ground) -> Any:
        if text is None:
            return None
        try:
            return parse(text, tz=ground.zone)
        except RuleError as error:
            self._fail(f"{place}.when", str(error))
            return None
