"""A flow under its policies: the model of one task (`policy_model`), whose runs are rounds (`flow_model`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.properties.flow_model import Node
from tests.properties.policy_model import HERE, Model, Policy, Run
from tests.simulation.dags import Twin, those_to_copy

Params = dict[str, Any]


@dataclass(eq=False)
class Made:
    """A round that was made, opened or not."""

    run: Run
    nodes: tuple[Node, ...]
    params: Params
    due: int
    copied: dict[str, str] = field(default_factory=dict)
    twin: Twin | None = None
    handle: Any = None
    """The library's."""
    opened_at: int = 0
    is_over: bool = False

    @property
    def is_open(self) -> bool:
        return self.twin is not None and not self.is_over


@dataclass
class Asked:
    """What somebody said who asked for a round by hand."""

    params: Params
    of: Made | None = None


class FlowModel(Model):
    """Says what becomes of rounds beside what becomes of fires. Seconds, as there."""

    def __init__(self, policy: Policy, step: int, nodes: Iterable[Node], params: Params, timeout: int | None) -> None:
        super().__init__(policy, first=step, step=step)
        self.nodes, self.params, self.round_timeout = tuple(nodes), params, timeout
        self.rounds: list[Made] = []
        self.said: dict[int, Asked] = {}
        """Fire -> what was said of it that waits."""
        self.saying: Asked | None = None
        self.doing: Callable[[], None] = lambda: None

    def open_rounds(self) -> list[Made]:
        return [made for made in self.rounds if made.is_open]

    # Rounds begin

    def start(self, due: int, by_hand: bool = False) -> Run:
        asked = self.saying if by_hand else self.said.pop(due, None)
        run = super().start(due, by_hand)
        old = asked.of if asked else None
        if old is not None and old.twin is not None:
            made = Made(run, old.nodes, old.params, old.due, those_to_copy(old.nodes, old.twin.values))
        else:
            made = Made(run, self.nodes, {**self.params, **(asked.params if asked else {})}, due)
        self.rounds.append(made)
        return run

    def run_now(self, asked: Asked | None = None) -> str | None:
        self.saying, before = asked or Asked({}), list(self.waiter)
        refused = super().run_now()
        if self.waiter and (self.waiter != before or self.policy.overlap == "replace"):
            self.said = {self.waiter[0]: self.saying}
        self.saying = None
        return refused

    def open(self, made: Made) -> None:
        """A worker has come to it."""
        made.twin = Twin(made.nodes, f"{self.rounds.index(made)}:", made.copied)
        made.opened_at = self.now
        self.is_it_over(made)
        self.look()

    # Rounds end

    def is_it_over(self, made: Made) -> None:
        assert made.twin is not None
        state, stopped = made.twin.model.state, made.twin.model.stopped
        if state != "running" and not made.is_over:
            made.is_over = True
            cancelled = (stopped or "cancelled") if state == "cancelled" else None
            reason = "timed_out" if stopped == "timed_out" else cancelled
            self.ended(made.run, state, reason)

    def acted(self) -> None:
        """Something has ended in a round, or was cancelled in it."""
        for made in self.open_rounds():
            self.is_it_over(made)
        self.look()

    def stop_rounds(self, reason: str) -> None:
        """What was asked to stop starts nothing any more."""
        for made in self.open_rounds():
            if made.run.stop and made.twin is not None and not made.twin.model.stopped:
                made.twin.model.cancel_all(reason)
                self.is_it_over(made)

    def make_way(self) -> None:
        super().make_way()
        self.stop_rounds("replaced")

    def cancel(self) -> str:
        answer = super().cancel()
        self.stop_rounds("cancelled")
        self.finished_by_cancel()
        return answer

    def finished_by_cancel(self) -> None:
        if self.end and not any(run.place in HERE for run in self.runs):
            self.look()

    def look(self, catch_up: str | None = None) -> None:
        for made in self.open_rounds():
            assert made.twin is not None
            made.twin.model.time_is(self.now)
            at = made.opened_at + (self.round_timeout or 0)
            if self.round_timeout and at <= self.now and not made.twin.model.stopped:
                if self.came and min(self.came) <= at:
                    self.judge(catch_up)  # which may have it make way first
                if not made.twin.model.stopped:
                    made.twin.model.time_out()
                    self.is_it_over(made)
        super().look(catch_up)
