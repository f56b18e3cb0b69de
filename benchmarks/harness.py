"""Runs measures in processes of their own, turn by turn, and picks the figure out of the rounds."""

from __future__ import annotations

import importlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Measure:
    """One thing to measure: `module.function` of this directory, with its parameters."""

    function: str
    params: Mapping[str, Any] = field(default_factory=dict)
    warm: Mapping[str, Any] | None = None
    """Parameters to run it once with before, where the first calls would weigh on a short measure."""
    pinned: bool = False
    """On one core only."""
    rounds_max: int = 99
    """For what is too slow to be repeated."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One line of the table: a figure, or a ratio of two, and what it should be."""

    what: str
    value: Callable[[Figures], float]
    asked: float | Callable[[Figures], float]
    stretch: float | None = None
    at_least: bool = True
    unit: str = "x"


@dataclass(frozen=True, slots=True)
class Experiment:
    """Contenders that are measured side by side, and what is asked of ours."""

    key: str
    title: str
    contenders: Mapping[str, Measure]
    goals: Sequence[Goal]
    pick: Callable[[Sequence[float]], float] = median


class NotMeasured(Exception):
    """A figure that a goal needs is missing: filtered out, or its process failed."""


class Figures:
    """What an experiment gave: for each contender and kind of figure one number a round."""

    def __init__(self, pick: Callable[[Sequence[float]], float]) -> None:
        self._pick = pick
        self.rounds: dict[str, dict[str, list[float]]] = {}
        self.failed: dict[str, str] = {}

    def add(self, contender: str, figures: Mapping[str, float]) -> None:
        of_contender = self.rounds.setdefault(contender, {})
        for kind, figure in figures.items():
            of_contender.setdefault(kind, []).append(figure)

    def get(self, contender: str, kind: str) -> float:
        """The median of the rounds, or what the experiment picks instead."""
        try:
            return self._pick(self.rounds[contender][kind])
        except KeyError:
            raise NotMeasured(f"{contender}: {kind}") from None


def run(experiment: Experiment, rounds: int, wanted: Sequence[str], say: Callable[[str], None]) -> Figures:
    """All contenders once, then all again: a noisy minute on the machine falls on all of them.

    `wanted`: only contenders with one of these words in their name; none means all. One that fails is not run again.
    """
    figures = Figures(experiment.pick)
    for turn in range(rounds):
        for name, measure in experiment.contenders.items():
            if turn >= measure.rounds_max or name in figures.failed:
                continue
            if wanted and not any(word in name for word in wanted):
                continue
            say(f"{experiment.key}: round {turn + 1} of {rounds}: {name}")
            try:
                figures.add(name, in_process(measure))
            except subprocess.CalledProcessError as error:
                figures.failed[name] = _last_line(error.stderr)
                say(f"{experiment.key}: {name} FAILED\n{error.stderr}")
    return figures


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"


def in_process(measure: Measure) -> dict[str, float]:
    """The measure in a fresh process, so that no contender inherits another's memory, threads or garbage."""
    return end(begin(measure))


def begin(measure: Measure) -> subprocess.Popen[str]:
    """The process of a measure, which goes on beside this one until `end`."""
    order = json.dumps([measure.function, dict(measure.params), measure.warm and dict(measure.warm), measure.pinned])
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join((str(HERE), str(HERE.parent / "src"))))
    return subprocess.Popen(
        [sys.executable, str(HERE / "harness.py"), order],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> dict[str, float]:
    """Its figures. Raises CalledProcessError, with what it said, when it failed."""
    try:
        out, err = process.communicate()
    except BaseException:  # Ctrl-C: no process of ours stays behind
        process.kill()
        raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args, out, err)
    figures: dict[str, float] = json.loads(out.splitlines()[-1])
    return figures


def _child(order: str) -> None:
    function, params, warm, pinned = json.loads(order)
    if pinned:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    module, name = function.split(".")
    measure = getattr(importlib.import_module(module), name)
    if warm is not None:
        measure(**{**params, **warm})
    print(json.dumps(measure(**params)))


def machine() -> str:
    """One line on where and when the figures were taken."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            model = next(line.split(":", 1)[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    python = f"{platform.python_implementation()} {platform.python_version()}"
    system = f"{platform.system()} {platform.release().split('-')[0]}"
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{model}, {cores} cores, {system}, {python}; {when}; load at the start {load:.2f}"


if __name__ == "__main__":
    _child(sys.argv[1])
