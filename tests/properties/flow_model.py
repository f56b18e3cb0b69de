"""One round of a flow, as section 3 of the design says it in words: what has ended how, and what may run when.

Nothing here is quick or clever.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

LIVE = ("pending", "ready", "running")
DOOM = {"failed": "parent_failed", "cancelled": "parent_cancelled", "neutral": "parent_skipped"}
"""How a parent ended -> why its child is skipped, the worst first."""


@dataclass(frozen=True)
class Node:
    """A task of the definition. `ends` and `spans` are of its attempts; the last of them holds for all further ones."""

    name: str
    parents: tuple[str, ...] = ()
    run_if: str = "all_succeeded"
    attempts: int = 1
    delay: int = 0
    priority: int = 0
    ends: tuple[str, ...] = ("succeeds",)
    spans: tuple[int, ...] = (0,)


@dataclass(eq=False)
class Part:
    """A task of the round."""

    node: Node
    state: str = "pending"
    reason: str | None = None
    tries: int = 0
    """Attempts that began."""
    again: int | None = None
    """When the next attempt may begin, while it waits for that."""
    stop: bool = False
    ready_since: int = 0
    """The number of the act that made it ready."""

    @property
    def kind(self) -> str:
        """failed = FAILED or SKIPPED (parent_failed); cancelled likewise; other skips are neutral."""
        if self.state == "skipped":
            return {"parent_failed": "failed", "parent_cancelled": "cancelled"}.get(self.reason or "", "neutral")
        return self.state


class Round:
    """The tasks of one round from its opening on. Every verb is an act; `copied` succeeded in the one before."""

    def __init__(self, nodes: Iterable[Node], copied: Iterable[str] = ()) -> None:
        self.parts = {node.name: Part(node) for node in nodes}
        self.acts = 0
        self.stopped: str | None = None
        """Why nothing of it starts any more."""
        self.told: set[str] = set()
        """Of whose end the children know."""
        for name in copied:
            self.parts[name].state, self.parts[name].reason = "succeeded", "copied"
        self._tell(*self.at("succeeded"))
        for part in self.parts.values():
            if part.state == "pending" and not part.node.parents:
                self._make_ready(part)

    # What is so

    @property
    def state(self) -> str:
        """FAILED when a task FAILED, else CANCELLED when one was CANCELLED, else SUCCEEDED. A round that was cancelled
        itself before something of it could start is CANCELLED."""
        states = [part.state for part in self.parts.values()]
        if any(state in LIVE for state in states):
            return "running"
        if self.stopped == "timed_out":
            return "failed"
        worst = ("cancelled", "failed") if self.stopped else ("failed", "cancelled")
        return next((state for state in worst if state in states), "succeeded")

    def at(self, *states: str) -> list[str]:
        return [name for name, part in self.parts.items() if part.state in states]

    def next_to_run(self) -> list[str]:
        """By priority, then by the order of becoming ready; those that one act made ready are equal."""
        ready = [self.parts[name] for name in self.at("ready")]
        first = min(((-part.node.priority, part.ready_since) for part in ready), default=None)
        return [part.node.name for part in ready if (-part.node.priority, part.ready_since) == first]

    def next_retry(self) -> int | None:
        return min((part.again for part in self.parts.values() if part.again is not None), default=None)

    # Acts

    def time_is(self, now: int) -> None:
        for part in sorted(self.parts.values(), key=lambda part: part.again or 0):
            if part.again is not None and part.again <= now:
                self._make_ready(part)

    def start(self, name: str) -> None:
        part = self.parts[name]
        assert part.state == "ready", f"{name} is {part.state}"
        part.state, part.tries = "running", part.tries + 1

    def end(self, name: str, now: int, how: str) -> None:
        """A work that returned, raised, or raised `Stopped`. What was asked to stop is not tried again."""
        part = self.parts[name]
        assert part.state == "running", f"{name} is {part.state}"
        if how == "fails" and part.tries < part.node.attempts and not part.stop:
            part.state, part.again = "pending", now + part.node.delay
            self.time_is(now)
        else:
            part.state = {"succeeds": "succeeded", "fails": "failed", "stops": "cancelled"}[how]
            part.reason = "stopped" if how == "stops" else None
            self._tell(name)

    def cancel(self, name: str) -> str:
        answer = self._cancel(self.parts[name])
        if answer == "cancelled":
            self._tell(name)
        return answer

    def cancel_all(self, reason: str = "cancelled") -> str:
        """What has not started never starts, whatever its condition; what runs is asked to stop."""
        self.stopped = self.stopped or reason
        answers = {self._cancel(part, reason) for part in self.parts.values()}
        return next((answer for answer in ("asked", "cancelled") if answer in answers), "too_late")

    def time_out(self) -> None:
        if self.state == "running":
            self.cancel_all("timed_out")

    def _cancel(self, part: Part, reason: str = "cancelled") -> str:
        if part.state == "running":
            part.stop = True
            return "asked"
        if part.state in LIVE:
            part.state, part.reason, part.again = "cancelled", reason, None
            return "cancelled"
        return "too_late"

    # Conditions

    def _tell(self, *names: str) -> None:
        """These have ended: their children hear of it one by one, and so do the children of those that are skipped."""
        self.acts += 1
        queue = list(names)
        for name in queue:
            self.told.add(name)
            for part in self.parts.values():
                if name in part.node.parents and part.state == "pending" and part.again is None:
                    self._decide(part)
                    if part.state == "skipped":
                        queue.append(part.node.name)

    def _decide(self, part: Part) -> None:
        ends = [self.parts[name].kind for name in part.node.parents if name in self.told]
        answer = verdict(part.node.run_if, ends, len(part.node.parents))
        if answer == "run":
            self._make_ready(part)
        elif answer != "wait":
            part.state, part.reason = "skipped", answer

    def _make_ready(self, part: Part) -> None:
        part.state, part.again, part.ready_since = "ready", None, self.acts


def verdict(run_if: str, ends: list[str], parents: int) -> str:
    """`wait`, `run`, or the reason why it is skipped: so did those of its parents end that have ended."""
    last = len(ends) == parents
    doom = next((reason for end, reason in DOOM.items() if end in ends), "run_if")
    at_the_last = "run" if last else "wait"
    match run_if:
        case "all_succeeded":
            return doom if any(end != "succeeded" for end in ends) else at_the_last
        case "all_done":
            return at_the_last
        case "any_succeeded":
            return "run" if "succeeded" in ends else doom if last else "wait"
        case "any_failed":
            return "run" if "failed" in ends else "run_if" if last else "wait"
        case _:
            assert run_if == "none_failed"
            return "parent_failed" if "failed" in ends else at_the_last
