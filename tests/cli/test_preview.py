"""What `tickless preview` tells its caller: the page, the JSON, the refusals, the exit code."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import COMMAND, tickless
from tickless.cli import main
from tickless.cli.preview import gap_text
from tickless.rules import cron, from_json

SPRING = ("--tz", "Europe/Berlin", "--from", "2027-03-27T12:00")


def test_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    """The whole of it, as it is read: what it means, the fires with their gaps and notes, the year, the clocks."""
    assert main(["preview", "30 2 * * *", *SPRING, "-n", "3"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "30 2 * * *",
        str(cron("30 2 * * *", tz="Europe/Berlin")),
        "from Sat 2027-03-27 12:00 +01:00",
        "",
        "  Sun 2027-03-28 03:00 +02:00                14 h",
        "      02:30 does not exist on 28 Mar in Europe/Berlin; fires at 03:00",
        "  Mon 2027-03-29 02:30 +02:00         23 h 30 min",
        "  Tue 2027-03-30 02:30 +02:00                 1 d",
        "",
        "fires in 365 days: 365",
        "next clock changes in Europe/Berlin:",
        "  Sun 2027-03-28 02:00 -> 03:00 +02:00",
        "  Sun 2027-10-31 03:00 -> 02:00 +01:00",
    ]
    assert shown.err == ""


def page(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["preview", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_it_is_a_command_of_its_own() -> None:
    """From a shell, with the default start: now."""
    done = tickless("preview", "every 5m", "-n", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert "  5 min" in done.stdout
    assert "fires in 365 days: 105,120" in done.stdout
    assert "no clock changes in UTC" in done.stdout


def test_words_need_no_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    """Only the stars of cron do."""
    assert page(capsys, "every", "2", "weeks", "on", "mon", "-n", "1")[0] == "every 2 weeks on mon"


def test_until_is_inclusive_and_from_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    """As in the schedule itself; and without -n it is all of them."""
    lines = page(capsys, "0 * * * *", "--from", "2027-01-01", "--until", "2027-01-01T12:00")
    hours = [line for line in lines if line.startswith("  Fri 2027-01-01")]
    assert len(hours) == 12
    assert hours[0].startswith("  Fri 2027-01-01 01:00")
    assert hours[-1].startswith("  Fri 2027-01-01 12:00")
    assert not any("and more" in line for line in lines)


def test_what_is_cut_off_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """A list that ends early must not look as if the rule did."""
    lines = page(capsys, "* * * * *", "--from", "2027-01-01", "--until", "2027-01-02", "-n", "5")
    assert "  ... and more up to Sat 2027-01-02 00:00 +00:00" in lines


def test_nothing_to_show_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """An empty page looks like a fault."""
    lines = page(capsys, "0 0 1 1 *", "--from", "2027-02-01", "--until", "2027-03-01")
    assert "  no fire after Mon 2027-02-01 00:00 +00:00 and up to Mon 2027-03-01 00:00 +00:00" in lines


def test_a_date_line_is_shown_with_both_days(capsys: pytest.CaptureFixture[str]) -> None:
    """00:00 -> 00:00 would say nothing."""
    lines = page(capsys, "0 12 * * * Pacific/Apia", "--from", "2011-12-28", "-n", "1")
    assert "  Fri 2011-12-30 00:00 -> Sat 2011-12-31 00:00 +14:00" in lines


def test_a_rule_that_refuses_a_fire_shows_those_before(capsys: pytest.CaptureFixture[str]) -> None:
    """gap="raise" is an error when it comes to it; until then the rule works."""
    lines = page(capsys, "30 2 * * * gap=raise", "--tz", "Europe/Berlin", "--from", "2027-03-26T12:00")
    assert lines[4].startswith("  Sat 2027-03-27 02:30")
    assert lines[5].startswith("  then an error: cron('30 2 * * *'")
    assert "2027-03-28 02:30:00 does not exist" in lines[5]
    assert "fires in 365 days: unknown, since the rule refuses one" in lines


def test_two_rules_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """Before a schedule is changed: which fires go, which come, and when is the first that differs?"""
    lines = page(
        capsys, "*/30 9-10 * * *", "--compare", "0 9-11 * * *", "--from", "2027-01-04", "--until", "2027-01-04T23:00"
    )
    assert lines[0] == "A  */30 9-10 * * *"
    assert lines[2] == "B  0 9-11 * * *"
    assert lines[6:13] == [
        "  A B  Mon 2027-01-04 09:00 +00:00",
        "  A    Mon 2027-01-04 09:30 +00:00",
        "  A B  Mon 2027-01-04 10:00 +00:00",
        "  A    Mon 2027-01-04 10:30 +00:00",
        "    B  Mon 2027-01-04 11:00 +00:00",
        "",
        "first difference: only A fires at Mon 2027-01-04 09:30 +00:00",
    ]
    assert "fires in 365 days: A about 1,460, B about 1,095" in lines


def test_a_rule_without_fires_is_told_in_a_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    """All that is in the list is the other one's, and so is the difference."""
    span = ("--tz", "Europe/Berlin", "--from", "2027-03-28", "--until", "2027-03-29T02:00")
    lines = page(capsys, "30 2 * * * gap=skip", "--compare", "30 2 * * * gap=raise", *span)
    assert lines[6] == "  A  no fire after Sun 2027-03-28 00:00 +01:00 and up to Mon 2027-03-29 02:00 +02:00"
    assert lines[7].startswith("  B  then an error: cron('30 2 * * *'")


def test_equal_rules_are_told_to_be_equal(capsys: pytest.CaptureFixture[str]) -> None:
    """Two spellings of one schedule, whatever lies beyond what is shown."""
    lines = page(capsys, "0 9 * * mon-fri", "--compare", "0 9 * * 1-5", "--from", "2027-01-04")
    assert "no difference among the fires shown" in lines


def test_a_list_that_was_cut_off_makes_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the sparse rule ten fires are known for years, of the dense one for minutes: beyond them nothing differs."""
    lines = page(capsys, "0 * * * *", "--compare", "0 0 * * *", "--from", "2027-01-01T12:00", "-n", "3")
    assert lines[6:9] == [
        "  A    Fri 2027-01-01 13:00 +00:00",
        "  A    Fri 2027-01-01 14:00 +00:00",
        "  A    Fri 2027-01-01 15:00 +00:00",
    ]


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["preview", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    """For programs: instants in UTC and in the zone, gaps in seconds, and the rule as it is stored."""
    shown = as_json(capsys, "30 2 * * *", *SPRING, "-n", "2")
    rule = cron("30 2 * * *", tz="Europe/Berlin")
    assert from_json(shown.pop("rule")) == rule
    assert shown.pop("words") == str(rule)
    assert shown == {
        "v": 1,
        "kind": "preview",
        "tz": "Europe/Berlin",
        "from": "2027-03-27T12:00:00+01:00",
        "until": None,
        "clock_changes": [
            {"at": "2027-03-28T03:00:00+02:00", "before_us": 3_600_000_000, "after_us": 7_200_000_000},
            {"at": "2027-10-31T02:00:00+01:00", "before_us": 7_200_000_000, "after_us": 3_600_000_000},
        ],
        "expr": "30 2 * * *",
        "recurring": True,
        "fires": [
            {
                "due": "2027-03-28T01:00:00Z",
                "local": "2027-03-28T03:00:00+02:00",
                "gap_s": 50_400.0,
                "notes": ["02:30 does not exist on 28 Mar in Europe/Berlin; fires at 03:00"],
            },
            {"due": "2027-03-29T00:30:00Z", "local": "2027-03-29T02:30:00+02:00", "gap_s": 84_600.0, "notes": []},
        ],
        "more": True,
        "failure": None,
        "fires_in_365_days": {"fires": 365, "known": "exactly"},
    }


def test_the_json_of_a_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    """The second rule stands beside the first, in the same form, and shows the same zone."""
    shown = as_json(capsys, "0 9 * * * Asia/Tokyo", "--compare", "0 9 * * *", "--from", "2027-01-01", "-n", "1")
    assert [fire["local"] for fire in shown["fires"]] == ["2027-01-01T09:00:00+09:00"]
    assert [fire["local"] for fire in shown["compare"]["fires"]] == ["2027-01-01T18:00:00+09:00"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["evry 5m"], "did you mean 'every'?\n  evry 5m\n  ^"),
        (["every 5 minuts"], "did you mean 'minutes'?\n  every 5 minuts\n          ^"),
        (["0 9 * * *", "--compare", "0 9 * *"], "4 fields"),
        (["Makefile", "README.md", "9"], "put it in quotes"),
        (["0 9 * * *", "--tz", "Europe/Berln"], "did you mean 'Europe/Berlin'"),
        (["0 9 * * *", "--from", "tomorrow"], "--from needs a date"),
        (["0 9 * * *", "--from", "2027-01-01T09:00 Europe/Berlin"], "for a zone give --tz"),
        (["0 9 * * *", "--from", "2027-01-02", "--until", "2027-01-01"], "lies before the start"),
        (["0 9 * * *", "--until", "1970-01-01"], "lies before the start"),
        (["0 9 * * *", "-n", "0"], "between 1 and 10000 fires"),
        (["0 9 * * *", "-n", "10001"], "between 1 and 10000 fires"),
        (["0 9 * * *", "--tz", "Pacific/Apia", "--from", "2011-12-30T12:00"], "does not exist in Pacific/Apia"),
        (["\x1b[31m"], r"\x1b[31m"),
    ],
)
def test_what_is_refused_is_told_on_standard_error(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """Exit code 2, nothing on standard output, and no traceback."""
    assert main(["preview", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert words in shown.err
    assert shown.err.startswith("tickless: ")
    assert "Traceback" not in shown.err
    assert "\x1b" not in shown.err


def test_wrong_usage_is_told_by_the_parser(capsys: pytest.CaptureFixture[str]) -> None:
    """As for every command."""
    for arguments in ([], ["0 9 * * *", "-n", "many"], ["0 9 * * *", "--colour"]):
        assert main(["preview", *arguments]) == 2
        assert capsys.readouterr().err.endswith("; tickless preview --help\n")


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(milliseconds=250), "0.25 s"),
        (timedelta(seconds=59), "59 s"),
        (timedelta(minutes=5), "5 min"),
        (timedelta(minutes=5, seconds=7), "5 min 7 s"),
        (timedelta(hours=23, minutes=30), "23 h 30 min"),
        (timedelta(days=1), "1 d"),
        (timedelta(days=1461, hours=1, seconds=5), "1,461 d 1 h"),
    ],
)
def test_a_gap_is_short(span: timedelta, text: str) -> None:
    """It stands in a column."""
    assert gap_text(span // timedelta(microseconds=1)) == text


def test_it_begins_quickly() -> None:
    """Under 200 ms is the promise, most of which is import: what one page does not need stays out of it."""
    code = (
        "import sys; from tickless.cli import main; main(['preview', '0 9 * * *']); "
        "print(*sorted({'json', 'asyncio', 'dateutil', 'multiprocessing', 'unittest'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == ""


def test_the_ends_of_the_calendar_are_shown_in_utc(capsys: pytest.CaptureFixture[str]) -> None:
    """In the zone they have no wall time: it was a traceback."""
    assert "  Fri 9999-12-31 23:30 +00:00" in "\n".join(page(capsys, "at 9999-12-31T23:30Z", "--tz", "Asia/Tokyo"))
    late = ("every day", "--from", "9999-12-31T23:30Z", "--tz", "Asia/Tokyo")
    assert page(capsys, *late)[2] == "from Fri 9999-12-31 23:30 +00:00"
    assert json.loads("".join(page(capsys, *late, "--json")))["from"] == "9999-12-31T23:30:00Z"
    cron_page = page(capsys, "30 * * * *", "--from", "9999-12-31T13:00Z", "--tz", "Asia/Tokyo")
    assert [line[2:29] for line in cron_page[4:6]] == ["Fri 9999-12-31 22:30 +09:00", "Fri 9999-12-31 23:30 +09:00"]


class Full(io.StringIO):
    """An output that raises at each write."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str, /) -> int:
        raise self.error


def test_ctrl_c_is_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As of every command: 130, and nothing said."""
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", Full(KeyboardInterrupt()))
        assert main(["preview", "every 5m"]) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_full_disk_is_one_line_and_an_exit_code(more: tuple[str, ...]) -> None:
    """Whoever writes the page into a file must learn that it is not there; not by two tracebacks."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [*COMMAND, "preview", "every 5m", *more], stdout=full, stderr=subprocess.PIPE, encoding="utf-8", check=False
        )
    assert done.returncode == 1
    message = "cannot write: No space left on device"
    error = {"v": 1, "kind": "error", "error": {"code": 1, "word": "system", "message": message}}
    assert done.stderr.splitlines() == [json.dumps(error) if more else f"tickless: {message}"]


def test_a_gap_beyond_until_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Only what is asked about may be refused."""
    lines = page(capsys, "30 2 * * * gap=raise", *SPRING, "--until", "2027-03-28T00:00")
    assert "then an error" not in "\n".join(lines)
    assert "then an error" in "\n".join(page(capsys, "30 2 * * * gap=raise", *SPRING, "--until", "2027-03-28T12:00"))


def test_no_difference_is_claimed_where_one_side_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a sliding rule only the next fire is known: "only A fires at" of a later one is made up."""
    lines = page(capsys, "every 1h", "--compare", "every 1h sliding", *SPRING)
    assert "no difference as far as the fires of both are known" in lines
    lines = page(capsys, "every 30m", "--compare", "every 1h sliding", *SPRING)
    assert "first difference: only A fires at Sat 2027-03-27 12:30 +01:00" in lines


def test_a_one_shot_that_is_due_is_a_fire_of_the_year(capsys: pytest.CaptureFixture[str]) -> None:
    """It runs at once, says the note beside it."""
    assert "fires in 365 days: 1" in page(capsys, "at 2020-01-01T00:00Z", *SPRING)
