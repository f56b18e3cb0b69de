"""The figures as Markdown: first what is asked and what was reached, then every figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from harness import Experiment, Figures, Goal, NotMeasured

Measured = Sequence[tuple[Experiment, Figures]]


LIMIT = "**limit** = `heappop` + `ThreadPoolExecutor(4).submit`, no records, no results, no cancel."


def document(machine: str, rounds: int, measured: Measured, legend: str = LIMIT) -> str:
    """All of it, as one text that ends with a newline. `legend` says what the contenders are."""
    missed = sum(row[-1] == "MISSED" for row in _goal_rows(measured))
    lines = [
        f"Machine: {machine}.",
        "",
        f"Rounds: {rounds}, of which the median counts unless the title says otherwise. Each measure ran in a process"
        f" of its own, contenders taking turns. {legend}",
        "",
        "## What is asked",
        "",
        *_table(("experiment", "what", "measured", "asked", "stretch", "verdict"), _goal_rows(measured)),
        "",
        f"{missed} missed." if missed else "None of the measured ones missed.",
        "",
        "## All figures",
        "",
    ]
    for experiment, figures in measured:
        if figures.rounds or figures.failed:
            lines += [f"### {experiment.title}", "", *_figures(experiment, figures), ""]
    return "\n".join(lines)


def _goal_rows(measured: Measured) -> list[tuple[str, ...]]:
    return [_goal_row(experiment, goal, figures) for experiment, figures in measured for goal in experiment.goals]


def _goal_row(experiment: Experiment, goal: Goal, figures: Figures) -> tuple[str, ...]:
    sign = "≥" if goal.at_least else "≤"
    stretch = "" if goal.stretch is None else f"{sign} {goal.stretch:g}{goal.unit}"
    head = (experiment.key, goal.what)
    try:
        value = goal.value(figures)
        asked = goal.asked(figures) if callable(goal.asked) else goal.asked
    except NotMeasured:
        asked_text = "" if callable(goal.asked) else f"{sign} {goal.asked:g}{goal.unit}"
        return (*head, "-", asked_text, stretch, "not measured")
    measured = f"{_digits(value)}{goal.unit}"
    return (*head, measured, f"{sign} {_digits(asked)}{goal.unit}", stretch, _verdict(goal, value, asked))


def _verdict(goal: Goal, value: float, asked: float) -> str:
    def reached(bound: float) -> bool:
        return value >= bound if goal.at_least else value <= bound

    if not reached(asked):
        return "MISSED"
    return "stretch met" if goal.stretch is not None and reached(goal.stretch) else "met"


def _figures(experiment: Experiment, figures: Figures) -> list[str]:
    """One row a contender: its figures, the range of the first of them, and x the first contender."""
    first = next(iter(experiment.contenders))
    rows = []
    for name in experiment.contenders:
        if name in figures.failed:
            rows.append((name, f"failed: {figures.failed[name]}", "", ""))
        elif name in figures.rounds:
            of_name = figures.rounds[name]
            kind = next(iter(of_name))
            texts = [SHOW[kind](figures.get(name, kind)) for kind in of_name]
            spread = f"{_digits(min(of_name[kind]))} to {_digits(max(of_name[kind]))}"
            rows.append((name, "; ".join(texts), spread, _over(figures, name, first, kind)))
    return list(_table(("contender", "figures", "lowest to highest round", f"x {first}"), rows))


def _over(figures: Figures, name: str, first: str, kind: str) -> str:
    try:
        return "" if name == first else _digits(figures.get(name, kind) / figures.get(first, kind))
    except (NotMeasured, ZeroDivisionError):
        return ""


def _per_s(figure: float) -> str:
    return f"{figure:,.0f}/s ({1e6 / figure:.2f} us)"


SHOW: dict[str, Callable[[float], str]] = {
    "per_s": _per_s,
    "flushed_per_s": lambda figure: f"until the last event is delivered {figure:,.0f}/s",
    "delivered": lambda figure: f"{figure:.1%} of the events delivered, the others counted",
    "whole_per_s": lambda figure: f"with the scheduling {_per_s(figure)}",
    "bytes": lambda figure: f"{figure:,.0f} bytes",
    "entries_share": lambda figure: f"at most {figure:.2f} x (2 x live + 64) entries",
    "grown_mb": lambda figure: f"grown {figure:.2f} MB",
    "p50_us": lambda figure: f"p50 {figure:,.0f} us",
    "p99_us": lambda figure: f"p99 {figure:,.0f} us",
    "p50_ms": lambda figure: f"p50 {figure:,.2f} ms",
    "p99_ms": lambda figure: f"p99 {figure:,.2f} ms",
    "ms": lambda figure: f"{figure:.2f} ms",
    "share": lambda figure: f"{figure:.3f} of the ideal",
    "cpu_s": lambda figure: f"{figure:.2f} s CPU",
    "cpu_us_per_fire": lambda figure: f"{figure:.2f} us CPU a fire",
    "cpu_us_per_task": lambda figure: f"{figure:,.1f} us CPU a task",
    "statements": lambda figure: f"{figure:,.0f} SQL statements",
    "switches": lambda figure: f"{figure:.0f} voluntary switches",
    "cpu_us": lambda figure: f"{figure:.1f} us CPU",
    "us_per_node": lambda figure: f"{figure:.2f} us a node",
}
"""How each kind of figure reads."""


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    """Columns of equal width, so that it reads as plain text too."""
    lines = [list(head), *[list(row) for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for number, line in enumerate(lines):
        yield "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        if number == 0:
            yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
