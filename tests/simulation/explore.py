"""Explore programs by number. `python -m tests.simulation.explore SEED` shows one again; with `N..M`, all of those.

Numbers from 1,000,000 on are late programs: see `late`. `--shrink` takes out of a program what its fault does not need.
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from tests.simulation.late import FIRST, Late, late_drawn, lateness_faults, play_late
from tests.simulation.play import Story, play
from tests.simulation.programs import Program, drawn
from tests.simulation.promises import Checker, shown

AnyProgram = Program | Late


def program_of(seed: int) -> AnyProgram:
    """The program of that number; from `late.FIRST` on, a late one."""
    return drawn(seed) if seed < FIRST else late_drawn(seed)


def first_fault(program: AnyProgram) -> tuple[str | None, Story | None]:
    """What is broken first, if anything."""
    try:
        story = play(program) if isinstance(program, Program) else play_late(program)
    except AssertionError as error:
        return f"invariant: {error}", None
    except Exception as error:  # noqa: BLE001 - whatever the library lets out is a fault
        return "".join(traceback.format_exception(error)[-3:]), None
    faults = Checker(story).faults()
    if isinstance(program, Late):
        faults = chain(faults, lateness_faults(story))
    return next(faults, None), story


def explore(seed: int) -> Story:
    """Play the program of that number. Raises AssertionError with all that is needed to see it again."""
    program = program_of(seed)
    fault, story = first_fault(program)
    if fault is not None or story is None:
        raise AssertionError(f"seed {seed}: {fault}\n{program}\npython -m tests.simulation.explore {seed}")
    return story


def kind_of(fault: str) -> str:
    """The fault without its numbers and names."""
    words = fault.split("\n")[0].split()
    return " ".join(word for word in words if not any(c.isdigit() for c in word))[:70]


def smaller(program: AnyProgram) -> Iterator[AnyProgram]:
    """The program with one thing less."""
    if isinstance(program, Program):
        yield from _smaller(program)
        return
    for n in range(len(program.steps)):
        yield replace(program, steps=program.steps[:n] + program.steps[n + 1 :])
    yield from (replace(program, program=less) for less in _smaller(program.program))


def _smaller(program: Program) -> Iterator[Program]:
    for n in range(len(program.drafts)):
        yield replace(program, drafts=program.drafts[:n] + program.drafts[n + 1 :])
    for n in range(len(program.verbs)):
        yield replace(program, verbs=program.verbs[:n] + program.verbs[n + 1 :])
    for n, draft in enumerate(program.drafts):
        less = [replace(draft, acts=())] if draft.acts else []
        less += [replace(draft, options={k: v for k, v in draft.options.items() if k != key}) for key in draft.options]
        if len(draft.spans) > 1:
            less += [replace(draft, spans=(span,)) for span in draft.spans]
        if draft.fails not in (0.0, 1.0):
            less += [replace(draft, fails=0.0), replace(draft, fails=1.0)]
        if draft.scheduled_at:
            less.append(replace(draft, scheduled_at=0.0))
        for one in less:
            yield replace(program, drafts=(*program.drafts[:n], one, *program.drafts[n + 1 :]))
    if program.pools:
        yield replace(program, pools={})
    if program.limits:
        yield replace(program, limits=program.limits[:-1])
    for n, verb in enumerate(program.verbs):
        if verb.at != round(verb.at):
            rounded = replace(verb, at=float(round(verb.at)))
            yield replace(program, verbs=(*program.verbs[:n], rounded, *program.verbs[n + 1 :]))
    if program.until > 5:
        yield replace(program, until=program.until // 2)


def shrunk(program: AnyProgram) -> AnyProgram:
    fault = first_fault(program)[0]
    assert fault is not None
    kind = kind_of(fault)
    while True:
        for less in smaller(program):
            found = first_fault(less)[0]
            if found is not None and kind_of(found) == kind:
                program = less
                break
        else:
            return program


def show(program: AnyProgram) -> None:
    fault, story = first_fault(program)
    lines = [str(program)]
    if story is not None:
        lines += [f"{number:>4} {shown(event)}" for number, event in enumerate(story.events)]
        lines += [f"act {act.seen}..{act.after} {act.verb} refused {act.refused}" for act in story.acts]
    sys.stdout.write("\n".join([*lines, f"FAULT {fault}", ""]))


def main(arguments: list[str]) -> None:
    wanted = next(argument for argument in arguments if not argument.startswith("-"))
    if ".." not in wanted:
        program = program_of(int(wanted))
        show(shrunk(program) if "--shrink" in arguments else program)
        return
    first, last = map(int, wanted.split(".."))
    kinds: Counter[str] = Counter()
    for seed in range(first, last):
        fault, _ = first_fault(program_of(seed))
        if fault is not None:
            kinds[kind_of(fault)] += 1
            if kinds[kind_of(fault)] == 1:
                sys.stdout.write(f"{seed}: {fault}\n")
    sys.stdout.write(f"{kinds.total()} of {last - first}: {dict(kinds)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
