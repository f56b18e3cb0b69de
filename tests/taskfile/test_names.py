"""Names of commands: what a person would call the line, and the same whatever stands elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickless.taskfile.crontab import read_crontab
from tickless.taskfile.names import LONGEST, name_of

NAMES = {
    "/usr/local/bin/backup.sh --full": "backup",
    "backup": "backup",
    "Backup_DB.py": "backup-db",
    "$HOME/bin/invoice.py": "invoice",
    '"$HOME"/bin/invoice.py': "invoice",
    "'/opt/my app/run it.sh' x": "run-it",
    "cd /srv/shop && php artisan schedule:run >> /dev/null 2>&1": "artisan",
    "cd / && run-parts --report /etc/cron.hourly": "cron-hourly",
    "test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }": "cron-daily",
    "test -x /usr/sbin/anacron || ( cd / && run-parts --report /etc/cron.daily )": "cron-daily",
    "[ -x /usr/lib/php/sessionclean ] && if [ ! -d /run/systemd/system ]; then /usr/lib/php/sessionclean; fi": (
        "sessionclean"
    ),
    "if ! pgrep -x worker; then /opt/worker start; fi": "pgrep",
    "sudo -u www-data php /var/www/bin/console app:x": "console",
    "flock -n /run/lock/x.lock /usr/local/bin/dump.sh": "dump",
    "flock -n /run/lock/x.lock -c '/usr/local/bin/dump.sh --all'": "dump",
    "timeout -k 30 2h restic check": "restic",
    "nice -n 19 ionice -c3 rsync -a /a /b": "rsync",
    "chronic nice -10 /opt/x": "x",
    "env -i A=1 B=2 /opt/x": "x",
    "A=1 B=2 /opt/x": "x",
    "bash -lc 'cd /app && bundle exec rake db:clean'": "rake",
    "bash -c \"bash -c 'make all'\"": "make",
    "sh /opt/x.sh": "x",
    "python3 -m shop.reports": "shop-reports",
    "python3.12 -u /opt/report.py": "report",
    "/usr/bin/perl -w /x/y.pl": "y",
    ". /etc/profile; /opt/x": "x",
    "export PATH=/a; /opt/x": "x",
    "sleep 30; /opt/x": "x",
    "> /var/log/x.log /opt/y 2>&1": "y",
    "mysqldump --all | gzip > /b/x.gz": "mysqldump",
    "(/opt/a; /opt/b) > /dev/null": "a",
    "cat": "cat",
    "cd /srv": "cd",
    "true": "true",
    "python3": "python3",
    "echo it's": "echo",
    "/opt/": "opt",
    "": "task",
    "'": "task",
    "日本": "task",
}


@pytest.mark.parametrize("run", NAMES)
def test_a_command_is_called_by_what_it_does(run: str) -> None:
    """Not by what it waits for, goes to, or is called through."""
    assert name_of(run) == NAMES[run]


@given(st.text())
def test_every_command_has_a_name(run: str) -> None:
    """Of small letters, digits and hyphens, neither empty nor endless: it is an id, a key and a part of a path."""
    name = name_of(run)
    assert 0 < len(name) <= LONGEST
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert name == name.strip("-")


def names(*commands: str) -> list[str]:
    text = "".join(f"0 5 * * * {run}\n" for run in commands)
    return [task.name for task in read_crontab(Path("crontab"), text, user_column=False, timezone="UTC").tasks]


def test_equal_names_are_numbered() -> None:
    """In their order, and past one that is called so already: two tasks of one name would be one."""
    assert names("x", "x", "y", "x") == ["x", "x-2", "y", "x-3"]
    assert names("x", "x-2", "x") == ["x", "x-2", "x-3"]
    assert names("x-2", "x", "x") == ["x-2", "x", "x-3"]


def test_a_name_does_not_depend_on_other_commands() -> None:
    """In life: a line comes in above, and every task below is a new one without a history."""
    assert names("new --now", "dump --all", "tidy") == ["new", *names("dump --all", "tidy")]


def test_a_name_does_not_depend_on_the_time_and_the_arguments() -> None:
    """Those are what one changes."""
    assert names("dump --to /a") == names("dump --to /b -v")
