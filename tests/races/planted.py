"""Races put in on purpose: the line that closes a race is taken out of the library's own source.

By text, so that the rest of the function is always the one in use. A line that has moved is an error of the test: then
write the plant anew.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from tests.races import programs
from tests.races.programs import Program


class Plant(NamedTuple):
    """`where` is `module:function` or `module:Class.method`; each text of `swaps` stands there once."""

    name: str
    where: str
    swaps: tuple[tuple[str, str], ...]
    program: Program
    slots: int = 1
    held: bool = False


PLANTS = (
    Plant(
        "no look after linking a child",
        "core.graph:link",
        (("            if parent._run is None or not ended(parent):", "            if True:"),),
        programs.linking,
    ),
    Plant(
        "no look for children after a plain end",
        "stores.memory:MemoryStore._finish_plain",
        (("if task._more is not None or task._children is not None or shared:", "if False:"),),
        programs.linking,
    ),
    Plant(
        "no look at the end after registering a waiter",
        "stores.memory:MemoryStore.await_end",
        (("if not ended(task):  # the look", "if True:  # the look"),),
        programs.waiting,
    ),
    Plant(
        "no look after leaving the lock",
        "stores.memory:_hold_of",
        (("if unsettled or ", "if "),),
        programs.settling,
        slots=2,
    ),
    Plant(
        "two settle at once",
        "stores.memory:MemoryStore.finish",
        (("map(self.lock.acquire, _NO_WAIT)", "(True,)"), ("self.lock.release()", "pass")),
        programs.settling,
        slots=2,
    ),
    Plant(
        "no look whether it was asked to stop once the run is there",
        "stores.memory:MemoryStore.take",
        (("if machine.to_stop or self._always_hold:", "if False:"),),
        programs.claiming,
    ),
    Plant(
        "a task that ends is nowhere for a moment",
        "stores.memory:MemoryStore._finish_plain",
        (("if task._seq in registry.live:", "if registry.live.pop(task._seq, None) is not None:"),),
        programs.finding,
        slots=2,
    ),
    Plant(
        "an update looks for the end before it looks for the run",
        "core.update:_stays",
        (
            (
                "    if _busy(there) or _has_crew(there):\n"
                "        return there._rule is not None and new._rule is not None\n"
                "    return not ended(there)\n",
                "    if ended(there):\n        return False\n"
                "    return not _busy(there) or (there._rule is not None and new._rule is not None)\n",
            ),
        ),
        programs.updating,
    ),
    Plant(
        "close asks only runs that are there to stop",
        "stores.memory:MemoryStore.stop_running",
        (("self._is_taken(task)", "task._run is not None and task._run.state is State.RUNNING"),),
        programs.stopping,
    ),
    Plant(
        "a run is shown with facts of its end before it has ended",
        "core.snapshots:run_of",
        (("finished_us=run.finished if over else None", "finished_us=run.finished"),),
        programs.showing,
    ),
    Plant(
        "a ring that nobody waits for is forgotten",
        "bell:Bell.wait",
        (("gate = self._gate\n", "gate = self._gate = _shut_gate()\n"),),
        programs.ringing,
    ),
    Plant(
        "a worker takes without the claim",
        "core.ready:ReadyQueue.take",
        (("if claims.pop(task, False):", "if claims.pop(task, False) or True:"),),
        programs.claiming,
    ),
    Plant(
        "a cancel takes without the claim",
        "core.ready:ReadyQueue.claim",
        (("if not self.claims.pop(task, False):", "if self.claims.pop(task, False) is None:"),),
        programs.claiming,
    ),
    Plant(
        "no look after giving the slot back",
        "pools.drain:DrainHand._drain",
        (("self.start()", "pass"),),
        programs.leaving,
    ),
    Plant(
        "the dispatcher sleeps on what it settled itself",
        "dispatcher:Dispatcher._turn",
        (("not signs.stirred and ", ""),),
        programs.handing,
    ),
    Plant(
        "idle waiters are woken outside the lock",
        "stores.memory:MemoryStore._finish_plain",
        (("with self._hold, self.lock:", "if True:"), ("if not registry.live:", "if True:")),
        programs.idling,
    ),
    Plant(
        "a task may be forgotten before the look for its children",
        "stores.memory:MemoryStore._finish_plain",
        (("shared = ", "machine.retire(task)\n    shared = "),),
        programs.forgetting,
    ),
    Plant(
        "a run times out though its worker had come back in time",
        "core.special:RunExtra.ring",
        ((" and self.returned is None", ""),),
        programs.timing_out,
        slots=2,
    ),
    Plant(
        "a pause takes without the claim",
        "core.pauses:hold",
        (("queue_of(one, machine.ready).claim(one)", "(queue_of(one, machine.ready).claim(one) or True)"),),
        programs.pausing,
    ),
)


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """While inside, the library has the race."""
    module_name, _, path = plant.where.partition(":")
    module = importlib.import_module(f"tickless.{module_name}")
    owner: Any = module
    *classes, name = path.split(".")
    for part in classes:
        owner = getattr(owner, part)
    whole = getattr(owner, name)
    text = textwrap.dedent(inspect.getsource(whole))
    for old, new in plant.swaps:
        assert text.count(old) == 1, f"{plant.name}: {old!r} stands {text.count(old)} times in {plant.where}, not once"
        text = text.replace(old, new)
    _, first_line = inspect.getsourcelines(whole)
    found: dict[str, Any] = {}
    # The same file and line numbers: the weaver goes by the file, and the story by the line.
    exec(compile("\n" * (first_line - 1) + text, module.__file__ or "", "exec"), vars(module), found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, found[name])
        yield
