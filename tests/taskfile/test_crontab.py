"""Single facts of crontabs, and what is wrong with one: each problem has its line, and all are told at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.taskfile.fixtures import command
from tickless.taskfile import machine
from tickless.taskfile.crontab import read_crontab
from tickless.taskfile.machine import users
from tickless.taskfile.values import FileError, TaskDef, TaskFile

HERE = Path("crontab")


def read(text: str, *, path: Path = HERE, user_column: bool | None = False, timezone: str | None = "UTC") -> TaskFile:
    return read_crontab(path, text, user_column=user_column, timezone=timezone)


def only(text: str, *, user_column: bool | None = False) -> TaskDef:
    (task,) = read(text, user_column=user_column).tasks
    return task


def problems(text: str, *, user_column: bool | None = False) -> list[str]:
    with pytest.raises(FileError) as caught:
        read(text, user_column=user_column)
    return [str(problem) for problem in caught.value.problems]


# What is wrong

NO_ENTRY = "needs five fields and a command, or NAME=value"
MISTAKES = {
    "": "has no entry",
    "# nothing\n\nA=1\n": "has no entry",
    "hello": f"line 1: 'hello': {NO_ENTRY}",
    "every 5 m of day x": f"line 1: 'every 5 m of day x': {NO_ENTRY}",
    "* * * *": f"line 1: '* * * *': {NO_ENTRY}",
    "-": f"line 1: '': {NO_ENTRY}",
    "* * * * *": "line 1: has a time, and no command behind it",
    "* * * * *   \t": "line 1: has a time, and no command behind it",
    "* * * * * %input": "line 1: has a time, and no command behind it",
    "@daily": "line 1: has a time, and no command behind it",
    "@dayly x": "line 1: there is no @dayly (did you mean @daily?)",
    "@rebot x": "line 1: there is no @rebot (did you mean @reboot?)",
    "@ x": "line 1: there is no @",
    "@every_minute x": "line 1: there is no @every_minute",
    "A='x": "line 1: A: the quote ' is not closed",
    "A=\"x'": 'line 1: A: the quote " is not closed',
    'A="x" y': "line 1: A: ' y' follows the closing quote; quote the whole value, with the other quotes",
    '""=x': "line 1: '' is no name of a variable",
    "'a=b' = x": "line 1: 'a=b' is no name of a variable",
    "* * * * * a\0b": "line 1: holds a NUL, which no command can be given",
    "A=\0": "line 1: holds a NUL, which no command can be given",
    "CRON_TZ=Nowhere/At": "line 1: CRON_TZ: 'Nowhere/At' is no zone of the database; give a key such as "
    "'Europe/Berlin', or 'UTC'",
    "CRON_TZ=localtime": "line 1: CRON_TZ: 'localtime' would be another zone on another machine; name it, e.g. "
    "'Europe/Berlin'",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_told_with_its_line(text: str) -> None:
    """In life: cron writes to a log that nobody reads, and leaves the line out."""
    assert problems(text) == [MISTAKES[text]]


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("61 * * * * x", "position 1: cron('61 * * * *')"),
        ("0 0 31 2 * x", "never fires"),
        ("0 0 * foo * x", "position 7"),
        ("0 0 0 1 1 ? x", "write *"),
        ("5-1 * * * * x", "position 1"),
        ("* * * * UTC x", "cron("),
        ("*|* * * * * x", "|"),
    ],
)
def test_a_time_that_cannot_be_is_told_as_its_rule_tells_it(line: str, part: str) -> None:
    """With the position within the fields."""
    (problem,) = problems(f"\n{line}")
    assert problem.startswith("line 2: ")
    assert part in problem


def test_all_problems_are_told_at_once_and_in_order() -> None:
    """In life: one error a try, and ten tries."""
    text = "* * * * *\n0 5 * * * fine\n@hurly x\nA='\n"
    assert [problem.partition(":")[0] for problem in problems(text)] == ["line 1", "line 3", "line 4"]


def test_an_error_is_one_line_a_problem() -> None:
    """Also when the text has line ends of other kinds in it."""
    with pytest.raises(FileError) as caught:
        read("a\x0bb\x85c\u2028d\n@x\ry z\n")
    assert len(str(caught.value).splitlines()) == len(caught.value.problems) == 2


# Variables


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("A=b", "A", "b"),
        ("  A  =  b c  ", "A", "b c"),
        ("\tA\t=\tb\t", "A", "b"),
        ('A="b "', "A", "b "),
        ("A='\"'", "A", '"'),
        ('A=b "c"', "A", 'b "c"'),
        ("A=", "A", ""),
        ('A=""', "A", ""),
        ("A=$HOME/x", "A", "$HOME/x"),
        ("A=b # c", "A", "b # c"),
        ("A=b=c", "A", "b=c"),
        ("A=100%", "A", "100%"),
        ('"A B"=c', "A B", "c"),
        ("'A'='c'", "A", "c"),
        ("a.b-c=d", "a.b-c", "d"),
    ],
)
def test_a_variable_is_what_stands_there_and_nothing_is_expanded(line: str, name: str, value: str) -> None:
    """As crontab(5) has it: no variables in values, no comments behind them."""
    assert command(only(f"{line}\n* * * * * x")).env == ((name, value),)


def test_variables_count_from_their_line_on() -> None:
    """The one above has the old value, the one below the new."""
    one, two = read("A=1\n* * * * * x\nA=2\n* * * * * y").tasks
    assert (command(one).env, command(two).env) == ((("A", "1"),), (("A", "2"),))


@pytest.mark.parametrize("line", ["* * * * * A=1 x", "@daily A=1 x", "-* * * * * A=1 x", "0 5 * * * x --a=b"])
def test_an_assignment_behind_a_time_is_part_of_the_command(line: str) -> None:
    """It holds an equals sign, and is no variable of the crontab."""
    task = only(line)
    assert command(task).env == ()
    assert "=" in str(command(task).run)


def test_the_shell_and_the_home_are_where_and_by_what_it_runs() -> None:
    """And the environment has them, too."""
    found = command(only("SHELL=/bin/zsh\nHOME=/srv/x/\n* * * * * y"))
    assert (found.shell, found.cwd) == ("/bin/zsh", "/srv/x")
    assert dict(found.env) == {"SHELL": "/bin/zsh", "HOME": "/srv/x/"}


@pytest.mark.parametrize("line", ["SHELL=", "SHELL='  '"])
def test_an_empty_shell_is_the_usual_one(line: str) -> None:
    """It could start nothing."""
    assert command(only(f"{line}\n* * * * * y")).shell == "/bin/sh"


def test_mail_is_told_of_once_and_is_not_sent() -> None:
    """And MAILTO="", which asks for none, is nothing to speak of."""
    text = "MAILTO=a@example.org\n* * * * * x\nMAILTO=''\n* * * * * y\nMAILTO=a@example.org\n* * * * * z"
    file = read(text)
    assert file.warnings == ("MAILTO=a@example.org: no mail is sent; outputs are kept, and on_failure can send one",)
    assert [command(task).env for task in file.tasks] == [(), (), ()]


def test_what_cron_would_do_and_is_not_done_is_told() -> None:
    """A random delay that is gone is a herd that comes together."""
    warnings = read("RANDOM_DELAY=30\nSTART_HOURS_RANGE=3-22\nTZ=Asia/Tokyo\n* * * * * x").warnings
    assert [line.partition(":")[0] for line in warnings] == [
        "RANDOM_DELAY=30",
        "START_HOURS_RANGE=3-22",
        "TZ=Asia/Tokyo",
    ]


def test_bytes_that_are_no_utf_8_are_told_unless_they_are_in_a_comment() -> None:
    """In life: a path in Latin-1, and the task file has another one."""
    (warning,) = read("# caf\udce9\n0 5 * * * cat caf\udce9").warnings
    assert warning.startswith("line 2: holds bytes that are no UTF-8")


# The zone


def test_without_a_zone_times_are_those_of_the_machine_and_a_warning_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """In life: a crontab of Berlin is run in UTC, and the nightly dump comes at four."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    file = read("30 2 * * * x", timezone=None)
    assert file.timezone == getattr(file.tasks[0].when, "tz", None) == "Europe/Berlin"
    assert file.warnings == (
        "times are read in Europe/Berlin, the zone of this machine; CRON_TZ=Europe/Berlin says so for good",
    )


@pytest.mark.parametrize("name", ["UTC", "Etc/UTC", ":UTC"])
def test_a_machine_in_utc_is_nothing_to_speak_of(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most servers are."""
    monkeypatch.setenv("TZ", name)
    file = read("30 2 * * * x", timezone=None)
    assert (file.timezone, file.warnings) == ("UTC", ())


def test_a_zone_that_is_said_counts_more_than_that_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """CRON_TZ before what is given, and that before the machine's."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    given, said = read("1 2 * * * x\nCRON_TZ=Asia/Tokyo\n1 2 * * * y", timezone="Europe/Paris").tasks
    assert (getattr(given.when, "tz", ""), getattr(said.when, "tz", "")) == ("Europe/Paris", "Asia/Tokyo")
    assert (given.when_text, said.when_text) == ("1 2 * * *", "1 2 * * * Asia/Tokyo")


def test_a_machine_that_says_no_zone_is_told_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In life: a bare image, in which clocks show UTC, and nobody has said so."""
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(machine, "_LOCALTIME", tmp_path / "none")
    monkeypatch.setattr(machine, "_TIMEZONE", tmp_path / "none")
    file = read("30 2 * * * x", timezone=None)
    assert file.timezone == "UTC"
    assert file.warnings == (
        "times are read in UTC, since nothing says the zone of this machine; CRON_TZ=Area/City does",
    )


def test_a_crontab_without_times_asks_for_no_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start is at the start everywhere."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    assert read("@reboot x", timezone=None).warnings == ()


# Users


def test_the_system_s_crontabs_name_users() -> None:
    """They are known by where they are."""
    for path in ("/etc/crontab", "/etc/cron.d/backup"):
        (task,) = read("0 5 * * * nobody-known /bin/x", path=Path(path), user_column=None).tasks
        assert (command(task).user, command(task).run) == ("nobody-known", "/bin/x")
    (task,) = read("0 5 * * * nobody-known /bin/x", path=Path("/etc/cron.d/a/b"), user_column=None).tasks
    assert command(task).user is None


def test_users_are_seen_where_every_entry_names_one() -> None:
    """A copy of /etc/crontab has another path; and it is told, since it is a guess."""
    text = "A=1\n# root\n0 5 * * * root /bin/x\n@daily\troot\t/bin/y\n-*/5 * * * * * root z"
    file = read(text, user_column=None)
    assert {command(task).user for task in file.tasks} == {"root"}
    assert [command(task).run for task in file.tasks] == ["/bin/x", "/bin/y", "z"]
    assert len(file.warnings) == 1
    assert "names a user" in file.warnings[0] or "user of this machine" in file.warnings[0]


@pytest.mark.parametrize("other", ["0 5 * * * /bin/y", "0 5 * * * root", "0 5 * * * roots /bin/y", "@daily x root"])
def test_one_entry_without_a_user_and_none_has_one(other: str) -> None:
    """`root` may be a command, and a word that every line has is none by chance."""
    file = read(f"0 5 * * * root /bin/x\n{other}", user_column=None)
    assert [command(task).user for task in file.tasks] == [None, None]


def test_whether_there_are_users_can_be_said() -> None:
    """Whatever it looks like."""
    assert command(only("0 5 * * * root x", user_column=False)).run == "root x"
    assert command(only("0 5 * * *\tshop\tx", user_column=True)).user == "shop"
    assert problems("0 5 * * * root", user_column=True) == ["line 1: has a time and a user, and no command behind"]


def test_a_user_that_is_not_there_is_told() -> None:
    """In life: a crontab comes from another machine."""
    assert "shop" not in users()
    (warning,) = read("0 5 * * * shop x", user_column=True).warnings
    assert warning == "line 1: there is no user shop on this machine, and only there can it run"


def test_a_command_of_a_user_runs_in_their_home() -> None:
    """Not in that of who runs the file; in none where there is no such user."""
    pwd = pytest.importorskip("pwd")
    assert command(only("0 5 * * * root x", user_column=True)).cwd == pwd.getpwnam("root").pw_dir
    assert command(only("0 5 * * * shop x", user_column=True)).cwd is None


# Percent signs


@pytest.mark.parametrize(
    ("text", "run", "stdin"),
    [
        ("x", "x", None),
        ("x%", "x", None),
        ("x %", "x", None),
        ("x%a", "x", "a\n"),
        ("x%a%", "x", "a\n"),
        ("x%a%%", "x", "a\n\n"),
        ("x%%", "x", "\n"),
        ("x%a%b", "x", "a\nb\n"),
        (r"x \%", "x %", None),
        (r"x \\%a", r"x \\", "a\n"),
        (r"x \\\%a", r"x \\%a", None),
        (r"x \n%a", r"x \n", "a\n"),
        (r"x%\%", "x", "%\n"),
        (r"x%\\%", "x", "\\%\n"),
        (r"x%a\b", "x", "a\\b\n"),
        ("x% a ", "x", " a \n"),
        ("x%\\", "x", "\\\n"),
        ("x\\ ", "x\\ ", None),
    ],
)
def test_percent_signs_are_what_cron_makes_of_them(text: str, run: str, stdin: str | None) -> None:
    """In life: `date +%F` runs `date +`, and reads F."""
    found = command(only(f"* * * * * {text}"))
    assert (found.run, found.stdin) == (run, stdin)


# Times


@pytest.mark.parametrize(
    ("line", "when", "run"),
    [
        ("* * * * * 5 x", "* * * * * 5", "x"),
        ("* * * * * MON x", "* * * * * MON", "x"),
        ("* * * * * mon,wed-fri x", "* * * * * mon,wed-fri", "x"),
        ("* * * * * 6L x", "* * * * * 6L", "x"),
        ("* * * * * tue#2 x", "* * * * * tue#2", "x"),
        ("* * * * * */2 x", "* * * * * */2", "x"),
        ("* * * * * monitor x", "* * * * *", "monitor x"),
        ("* * * * * ./5 x", "* * * * *", "./5 x"),
        ("* * * * * 7z x", "* * * * *", "7z x"),
        ("* * * * * sun", "* * * * *", "sun"),
        ("*\t*\t*  * \t *\tx\ty", "* * * * *", "x\ty"),
        ("-*/5 * * * * x", "*/5 * * * *", "x"),
        ("- */5 * * * * x", "*/5 * * * *", "x"),
        ("-@daily x", "@daily", "x"),
        ("@DAILY x", "@daily", "x"),
    ],
)
def test_a_sixth_field_is_one_when_it_is_no_command(line: str, when: str, run: str) -> None:
    """And a hyphen, tabs and capitals change nothing."""
    task = only(line)
    assert (task.when_text, command(task).run) == (when, run)


def test_at_the_start_is_no_time() -> None:
    """@reboot is a task without `when`."""
    task = only("@reboot x")
    assert (task.when, task.when_text) == (None, None)


# Descriptions


@pytest.mark.parametrize(
    ("above", "description"),
    [
        ("# one", "one"),
        ("#one", "one"),
        ("# one\n# two", "one two"),
        ("# other\n\n# one", "one"),
        ("# other\n#\n# one", "one"),
        ("# ------\n# one\n# ------", "one"),
        ("######\n## one ##\n######", "one"),
        ("# other\nA=1", None),
        ("# one\n ", None),
        ("# m h  dom mon dow   command", None),
        ("# other\n#0 5 * * * old", None),
        ("# END ANSIBLE MANAGED BLOCK", None),
        ("# DO NOT EDIT THIS FILE - edit the master and reinstall.\n# (x installed on Mon Nov 30 10:00:00 2026)", None),
        ("# End of the month", "End of the month"),
        ("# Begin early", "Begin early"),
    ],
)
def test_a_comment_right_above_is_a_description(above: str, description: str | None) -> None:
    """Unless it says nothing of the entry, or is about another."""
    assert only(f"{above}\n0 5 * * * x").description == description


def test_a_comment_is_of_one_entry_only() -> None:
    """The next one has none."""
    one, two = read("# one\n0 5 * * * x\n0 6 * * * y").tasks
    assert (one.description, two.description) == ("one", None)
