"""Tasks that `after_tasks` joins are one flow, which has the time of its root; all others stand alone."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.taskfile.good import file_of
from tests.taskfile.test_mistakes import told_of
from tickless.rules import every
from tickless.taskfile.read import read
from tickless.taskfile.values import ABOUT_FIRES, FlowDef, TaskDef, TaskFile, part_id

HOURLY = 'when = "every 1h"'


def file_with(**tasks: str) -> str:
    """A task file: name -> what stands in its table besides a command."""
    return "".join(f'[tasks.{name}]\nrun = "x"\n{lines}\n' for name, lines in tasks.items())


def read_with(**tasks: str) -> TaskFile:
    return read(Path("tasks.toml"), file_with(**tasks))


def shape(file: TaskFile) -> list[str | list[str]]:
    """A name for a lone task, the names of its tasks for a flow."""
    return [[task.name for task in part.tasks] if isinstance(part, FlowDef) else part.name for part in file.parts]


def flow_of(file: TaskFile) -> FlowDef:
    flow = next(part for part in file.parts if isinstance(part, FlowDef))
    assert isinstance(flow, FlowDef)
    return flow


def test_what_is_joined_is_one_flow_with_the_name_and_the_time_of_its_root() -> None:
    """The child of a task that recurs has no time of its own: it comes in each round."""
    file = read_with(a=HOURLY, b='after_tasks = ["a"]', c='after_tasks = ["b"]', d=HOURLY)
    assert shape(file) == [["a", "b", "c"], "d"]
    flow = flow_of(file)
    assert (flow.id, flow.when) == ("a", every(hours=1))
    assert all(task.when is None and task.when_text is None for task in flow.tasks)


def test_parents_may_stand_below_their_children() -> None:
    """The order of the file is the reader's; a flow is defined parents first."""
    assert shape(read_with(c='after_tasks = ["b", "a"]', b='after_tasks = ["a"]', x="", a=HOURLY)) == [
        ["a", "b", "c"],
        "x",
    ]


def test_two_roots_with_one_time_are_one_flow() -> None:
    """Fetch from two places, then merge."""
    file = read_with(a=HOURLY, b=HOURLY, c='after_tasks = ["a", "b"]')
    assert shape(file) == [["a", "b", "c"]]
    assert flow_of(file).id == "a"


def test_a_root_without_a_time_begins_with_the_one_that_has_one() -> None:
    """It is the flow's time; the flow has the name of the task that says it."""
    file = read_with(a="", b=HOURLY, c='after_tasks = ["a", "b"]')
    assert (flow_of(file).id, flow_of(file).when) == ("b", every(hours=1))


def test_times_are_the_same_however_they_are_written() -> None:
    """`60m` and `1h` are no two times."""
    assert shape(read_with(a=HOURLY, b='when = "every 60m"', c='after_tasks = ["a", "b"]')) == [["a", "b", "c"]]


def test_a_flow_without_a_time_has_one_round() -> None:
    """At the start, as a task without a time runs once."""
    assert flow_of(read_with(a="", b='after_tasks = ["a"]')).when is None


def test_options_about_fires_are_the_flow_s_and_all_others_stay_with_their_tasks() -> None:
    """A timeout of the root that would stop the whole round; an overlap that nobody minds."""
    root = f'{HOURLY}\noverlap = "queue"\ngrace = 60\nmax_runs = 3\ntimeout = 5\nretry = 2\npriority = 1'
    flow = flow_of(read_with(a=root, b='after_tasks = ["a"]\ntimeout = 7'))
    assert set(flow.options) == {"overlap", "grace", "max_runs"}
    assert [set(task.options) for task in flow.tasks] == [{"timeout", "retry", "priority"}, {"timeout"}]


def test_what_is_said_of_all_about_fires_is_said_of_the_flow_once() -> None:
    """And is no mistake of its children, which did not say it."""
    text = '[defaults]\noverlap = "queue"\njitter = 5\ntimeout = 9\n'
    file = read(Path("tasks.toml"), text + file_with(a=HOURLY, b='after_tasks = ["a"]', c=""))
    flow, lone = file.parts
    assert isinstance(flow, FlowDef)
    assert isinstance(lone, TaskDef)
    assert set(flow.options) == {"overlap", "jitter"}
    assert [set(task.options) for task in flow.tasks] == [{"timeout"}, {"timeout"}]
    assert set(lone.options) == {"timeout"}


def test_the_tasks_of_a_file_have_the_options_that_count() -> None:
    """What is shown of a task, and compared at a reload, is what it does."""
    root, child = read(
        Path("tasks.toml"),
        '[defaults]\noverlap = "queue"\n' + file_with(a=HOURLY, b='after_tasks = ["a"]\ntimeout = 7'),
    ).tasks
    assert set(root.options) == {"overlap"}
    assert (root.when, root.when_text) == (every(hours=1), "every 1h")
    assert set(child.options) == {"timeout"}


@pytest.mark.parametrize("key", [key for key in ABOUT_FIRES if key != "tags"])
def test_a_child_cannot_say_what_is_about_the_time_of_its_root(key: str) -> None:
    """It would be said, and nothing would come of it."""
    value = {"overlap": '"queue"', "catch_up": '"all"', "start": "2027-01-01", "until": "2027-01-01"}.get(key, "2")
    told = told_of(file_with(a=HOURLY, b=f'after_tasks = ["a"]\n{key} = {value}'))
    assert told == [f"tasks.b.{key}: is about the time of a: say it there"]


def test_the_tags_of_the_root_are_the_flow_s_and_those_of_others_are_theirs() -> None:
    """By its tags a flow is paused as a whole."""
    flow = flow_of(read_with(a=f'{HOURLY}\ntags = ["shop"]', b='after_tasks = ["a"]\ntags = ["far"]'))
    assert flow.options == {"tags": ("shop",)}
    assert [task.options for task in flow.tasks] == [{}, {"tags": ("far",)}]


def test_every_circle_is_told() -> None:
    """One that hides the others is a walk through the file for each."""
    text = file_with(
        a='after_tasks = ["b"]',
        b='after_tasks = ["a", "c"]',
        c='after_tasks = ["d", "nobody"]',
        d='after_tasks = ["c"]',
    )
    assert told_of(text) == [
        "tasks.a.after_tasks: each waits for the next, in a circle: a -> b -> a",
        'tasks.c.after_tasks: no task named "nobody"',
        "tasks.c.after_tasks: each waits for the next, in a circle: c -> d -> c",
    ]


@given(st.integers(1, 12), st.randoms(use_true_random=False))
def test_however_tasks_are_joined_each_is_in_one_part_behind_its_parents(count: int, lots: random.Random) -> None:
    """In words: parts share no task and miss none; what one task comes after is in its part, and earlier there."""
    names = [f"t{number}" for number in range(count)]
    parents = {name: lots.sample(names[:number], lots.randint(0, min(2, number))) for number, name in enumerate(names)}
    order = lots.sample(names, count)
    file = read_with(**{name: f"after_tasks = {parents[name]}" for name in order})
    groups = [part.tasks if isinstance(part, FlowDef) else (part,) for part in file.parts]
    assert sorted(task.name for group in groups for task in group) == sorted(names)
    for group in groups:
        place = {task.name: number for number, task in enumerate(group)}
        for task in group:
            assert all(place[parent] < place[task.name] for parent in task.after_tasks)


def test_parts_come_in_the_order_of_their_first_tasks() -> None:
    """So that a listing looks like the file."""
    file = read_with(z="", b='after_tasks = ["c"]', a="", c=HOURLY)
    assert [part_id(part) for part in file.parts] == ["z", "c", "a"]


def test_the_flow_of_the_page() -> None:
    """Dump, two things with it, upload, and an alarm when that fails."""
    assert shape(file_of("flow.toml")) == [["dump", "compress", "check", "upload", "alarm"], "tidy"]
