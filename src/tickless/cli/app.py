"""The commands by their names; each is imported when it is called, and what it raises becomes an exit code."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from tickless import __version__
from tickless.cli.settings import Settings, place_options, places_of, shown_options, wants_json
from tickless.cli.streams import give_up_output
from tickless.control.documents import VERSION
from tickless.control.refusals import Code, Refusal, refusal_of
from tickless.errors import TicklessError
from tickless.observe.text import printable

ON_SIGNAL = 130

COMMANDS = {
    "run": ("tickless.cli.run", "Run a task file, a crontab, or the scheduler of a Python file."),
    "demo": ("tickless.cli.demo", "Five seconds of a scheduler at work."),
    "preview": ("tickless.cli.preview", "Show when a rule, or every task of a file, fires next."),
    "ls": ("tickless.cli.look", "List the tasks."),
    "show": ("tickless.cli.look", "Show one task, flow or round."),
    "runs": ("tickless.cli.look", "Show what ran, and how it ended."),
    "logs": ("tickless.cli.look", "Show what the runs of a task have printed."),
    "run-now": ("tickless.cli.change", "Have a task run now."),
    "retry": ("tickless.cli.change", "Have what failed tried again."),
    "cancel": ("tickless.cli.change", "Take tasks' future away."),
    "pause": ("tickless.cli.change", "Hold tasks."),
    "resume": ("tickless.cli.change", "End a pause."),
    "backfill": ("tickless.cli.backfill", "Run a task for fires of the past."),
    "graph": ("tickless.cli.graph", "Draw what waits for what."),
    "events": ("tickless.cli.events", "Show what happens, as it happens."),
    "db": ("tickless.cli.db", "Look after a store."),
    "import": ("tickless.cli.imports", "Write a task file from a crontab."),
    "health": ("tickless.cli.health", "Ask a running scheduler whether all is well."),
    "doctor": ("tickless.cli.doctor", "Look for what is wrong with this machine, a file or a store."),
}
"""Name -> where it is, and what it does, in the order of the help. The names of its functions have `_` for `-`."""

EPILOG = """\b
Where commands look: --app, --file, --store or --socket. Without one of them
it is tasks.toml in this folder, or else the one scheduler of yours that runs.

\b
exit codes: 0 done; 1 it failed; 2 usage; 3 no such task or run;
4 an app or a file cannot be loaded; 5 a store or scheduler cannot be reached;
6 refused; 7 timed out; 8 findings; 130, 143 signals
"""


class Commands(click.Group):
    """A group whose commands are imported when they are needed, and not to list them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        command = getattr(module, {"import": "import_"}.get(cmd_name, cmd_name.replace("-", "_")))
        assert isinstance(command, click.Command)
        return with_options(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f" (did you mean {near[0]}?)" if near else "; tickless --help lists them"
            ctx.fail(f"there is no command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)


def with_options(command: click.Command) -> click.Command:
    """The command with the options of every command, once."""
    if isinstance(command, click.Group):
        for one in command.commands.values():
            with_options(one)
    there = {name for parameter in command.params for name in parameter.opts}
    more = [*place_options(places_of(command)), *shown_options()]
    command.params += [option for option in more if not there.intersection(option.opts)]
    return command


def group() -> click.Group:
    """The whole command, with all that belongs to it."""

    @click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
    @click.version_option(__version__, prog_name="tickless", message="%(prog)s %(version)s")
    def tickless() -> None:
        """Run tasks at their time, in order, once.

        A task file or a crontab: tickless run tasks.toml. A scheduler in Python: tickless run FILE.py:scheduler.
        """

    tickless.params += shown_options()
    return tickless


def run_command(arguments: list[str]) -> int:
    """Run the command; gives its exit code. What goes wrong is told on standard error."""
    said = Settings(json=wants_json(arguments))
    try:
        # Not by `main`, which writes an empty line for a Ctrl-C.
        command = group()
        with command.make_context("tickless", arguments, obj=said) as entered:
            code = command.invoke(entered)
        sys.stdout.flush()
        return code if isinstance(code, int) else Code.DONE
    except click.exceptions.Exit as asked:  # --help, --version
        return asked.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return Code.USAGE
    except click.ClickException as error:
        context = error.ctx if isinstance(error, click.UsageError) else None
        hint = "" if context is None else f"; {context.command_path} --help"
        return tell(said, Refusal(Code.USAGE, "usage", f"{error.format_message().rstrip('.')}{hint}"))
    except (KeyboardInterrupt, click.Abort):
        return ON_SIGNAL
    except TicklessError as error:
        return tell(said, _refusal_of(error))
    except OSError as error:  # a full disk under standard output; what is about files of ours is caught where it is
        give_up_output()
        return tell(said, Refusal(Code.FAILED, "system", f"cannot write: {error.strerror or error}"))


def _refusal_of(error: TicklessError) -> Refusal:
    from tickless.taskfile.values import FileError  # only where something went wrong

    if isinstance(error, FileError):
        return Refusal(Code.NOT_LOADED, "file", str(error))
    return refusal_of(error)


def tell(said: Settings, refusal: Refusal) -> int:
    """Say what went wrong. Gives the exit code."""
    if said.json:
        import json  # what needs no JSON begins sooner without it

        error = {"code": int(refusal.code), "word": refusal.word, "message": str(refusal)}
        print(json.dumps({"v": VERSION, "kind": "error", "error": error}), file=sys.stderr)
    else:
        sys.stderr.write(getattr(refusal, "traceback", ""))
        for line in str(refusal).split("\n"):
            print(f"tickless: {printable(line, 1_000)}", file=sys.stderr)
    return int(refusal.code)
