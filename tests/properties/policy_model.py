"""One task under every policy, played second by second as the contract says it in words: lists, and no arithmetic.

`came` are the fires whose second has come and that nothing was decided about. What a fire fell into ("overlap", or
"paused") is written beside it only when its second is over, since an end at the instant of a fire does not overlap it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

HERE = ("ready", "held", "running", "retry")
ENDS = {"succeeds": "succeeded", "fails": "failed", "stops": "cancelled"}


@dataclass(eq=False)
class Run:
    due: int
    place: str = "ready"
    reason: str | None = None
    count: int = 1
    tries: int = 0  # failed ones before
    at: int = 0  # when this try began, or the next one begins
    stop: bool = False
    permit: bool = False
    by_hand: bool = False
    queued: bool = False  # it found no permit


@dataclass(eq=False)
class Policy:
    overlap: str = "skip"
    max_running: int = 1
    grace: int | None = None
    catch_up: str = "latest"
    max_catch_up: int = 100
    delays: tuple[int, ...] = ()
    timeout: int | None = None
    release: bool = False
    pause_after: int | None = None
    limited: bool = False


@dataclass(eq=False)
class Model:
    policy: Policy
    first: int
    step: int = 0  # 0: fires once
    now: int = 0
    came: dict[int, str] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    ready: list[Run] = field(default_factory=list)  # by readiness, held ones too
    zombies: list[Run] = field(default_factory=list)
    waiter: list[int] = field(default_factory=list)  # overlap="queue": the fire, or run_now, that waits
    chain: list[int] = field(default_factory=list)  # catch_up="all": those still to run,
    caught: Run | None = None  # and the one that runs for it
    chain_is_over: bool = False
    others: bool = False  # somebody else has the permit
    over_pause: bool = False  # a run by hand of the paused task goes on
    paused: bool = False
    until: int | None = None
    failures: int = 0
    end: tuple[str, str | None] | None = None  # of a cancelled task that runs on, too

    # What is so

    def busy(self) -> list[Run]:
        return [run for run in self.runs if run.place in HERE or (run in self.zombies and not self.policy.release)]

    def full(self) -> bool:
        return self.caught is not None or len(self.busy()) >= self.policy.max_running

    def takes_none(self) -> bool:
        """Whether a fire that comes could only be skipped: then none is planned."""
        full = self.full() if self.policy.overlap in ("skip", "allow") else bool(self.waiter)
        return self.step > 0 and (full or self.caught is not None)

    def state(self) -> str:
        places = [run.place for run in self.runs]
        going = next((place for place in ("running", "ready") if place in places), "pending")
        return self.end[0] if self.end and not any(place in HERE for place in places) else going

    def next_fire(self) -> int | None:
        if self.paused or self.end or self.came or (not self.step and self.runs) or self.takes_none():
            return None
        return self.planned()

    def planned(self) -> int:
        return next(t for t in range(self.now + 1, self.now + 1000) if self.fires_at(t))

    def fires_at(self, t: int) -> bool:
        return t == self.first or (self.step > 0 and t in range(self.first, t + 1, self.step))

    # Time

    def second(self, looks: bool = True) -> None:
        for due, why in self.came.items():
            self.came[due] = why or ("overlap" if self.takes_none() else "paused" if self.paused else "missed")
        self.now += 1
        if self.fires_at(self.now) and not self.end:
            self.came[self.now] = ""
        if self.until == self.now:
            self.unpause("none")
        if looks:
            self.look()

    def look(self, catch_up: str | None = None) -> None:
        """What is due, in the order of its instants; of equal ones the fire is first: it was there before the run."""
        for run in self.runs:
            late = run.at + (self.policy.timeout or 0)
            if run.place == "running" and self.policy.timeout and late <= self.now:
                if self.came and min(self.came) <= late:
                    self.judge(catch_up)
                self.zombies.append(run)
                self.ended(run, "failed", "timed_out")
        for run in self.runs:
            if run.place == "retry" and run.at <= self.now and not self.awaits(run) and not self.paused:
                if self.came and min(self.came) <= run.at:
                    self.judge(catch_up)
                if run.place == "retry":
                    self.make_ready(run)
        if self.over_pause and not self.full():  # what came since the pause is of the pause, if that is not over
            self.over_pause = False
            self.came = {due: why and ("paused" if self.paused else "overlap") for due, why in self.came.items()}
        if self.waiter and not self.busy():
            self.waiter_goes()
        if self.caught and self.caught not in self.busy() and not self.end:
            self.chain_is_over = not self.chain
            self.caught = self.start(self.chain.pop(0)) if self.chain else None
        if self.paused and self.policy.overlap in ("skip", "allow") and not self.full():
            self.skip("overlap", [due for due, why in self.came.items() if why == "overlap"])
        self.judge(catch_up)

    def awaits(self, run: Run) -> bool:
        """Whether the thread of its last try goes on, and keeps it from the next one."""
        return run in self.zombies and not self.policy.release

    # Fires

    def judge(self, resumed: str | None) -> None:
        """The fires that have come, where the overlap policy leaves room for one."""
        if self.end or self.caught:
            return
        overlap, fell = self.policy.overlap, [due for due, why in self.came.items() if why == "overlap"]
        if self.chain_is_over and self.paused and fell and overlap == "replace" and self.now in self.came:
            self.skip("replaced", [due for due in self.came if due != self.now])  # by one that falls into the pause
        elif self.chain_is_over and fell and overlap in ("queue", "replace"):  # one of them has waited, paused or not
            self.waiter = [fell[0]]
            self.came = {due: why for due, why in self.came.items() if due not in self.waiter}
            self.waiter_goes()
        self.chain_is_over = False
        if self.paused:
            return
        if self.waiter or (overlap in ("skip", "allow") and self.full()):
            return
        if overlap in ("skip", "allow"):
            self.skip("overlap", fell)
        kept = self.those_that_run(resumed or self.policy.catch_up, "paused" if resumed else "coalesced")
        if not kept:
            if not self.step and self.runs:
                self.finished()
            return
        self.chain = kept[1:]
        if overlap == "replace":
            self.make_way()
        if overlap in ("queue", "replace") and self.busy():
            self.waiter = kept[:1]
        else:
            run = self.start(kept[0])
            self.caught = run if self.chain else None

    def waiter_goes(self) -> None:
        """With "replace" the newest that has come goes in its place."""
        if self.policy.overlap == "replace" and self.came and not self.chain:
            newest = max(self.came)
            self.skip("replaced", [due for due in self.came if due != newest], self.waiter)
            self.came, self.waiter = {}, [newest]
        run = self.start(self.waiter.pop())
        self.caught = run if self.chain else None
        if not self.caught:
            self.skip("overlap", [due for due, why in self.came.items() if why == "overlap"])

    def those_that_run(self, catch_up: str, dropped: str) -> list[int]:
        """Of several that were missed, and of one that is late."""
        grace = self.policy.grace
        self.skip("misfire", [due for due in self.came if grace is not None and self.now > due + grace])
        dues, limit = sorted(self.came), self.policy.max_catch_up if catch_up == "all" else 1
        if catch_up == "none" and dues and self.now > dues[-1] + (1 if grace is None else grace):
            limit = 0
        kept = dues[max(0, len(dues) - limit) :]
        self.skip(dropped, dues[: len(dues) - len(kept)])
        self.came.clear()
        return kept

    def make_way(self) -> None:
        for run in self.busy():
            run.stop = True
            if run.place in ("ready", "held", "retry"):
                self.drop(run, "cancelled" if run.tries else "skipped", "replaced")

    def skip(self, reason: str, dues: list[int], waiter: list[int] | None = None) -> None:
        """One record for fires that have come, and for one that waits."""
        all_of_them = dues + (waiter or [])
        if all_of_them:
            self.runs.append(Run(min(all_of_them), "skipped", reason, len(all_of_them)))
        self.came = {due: why for due, why in self.came.items() if due not in dues}

    # Runs

    def start(self, due: int, by_hand: bool = False) -> Run:
        self.runs.append(run := Run(due))
        self.make_ready(run, by_hand)
        return run

    def make_ready(self, run: Run, by_hand: bool = False) -> None:
        run.place, run.by_hand = "held" if self.paused and not by_hand else "ready", by_hand
        if run.place == "ready":
            self.queue_up(run)
        self.ready.append(run)

    def queue_up(self, run: Run) -> None:
        """It gets a permit, or stands in the limit's queue until it does."""
        run.permit = run.permit or (self.policy.limited and not self.has_no_permit())
        run.queued = self.policy.limited and not run.permit

    def has_no_permit(self) -> bool:
        return self.policy.limited and (self.others or any(run.permit for run in self.runs))

    def take(self) -> Run | None:
        """A worker comes: what is too late does not start."""
        dropped = False
        for run in [run for run in self.ready if run.place == "ready" and not run.queued]:
            first_try = not run.tries and not run.by_hand
            if first_try and self.policy.grace is not None and self.now > run.due + self.policy.grace:
                self.drop(run, "skipped", "misfire")
                self.finished()
                dropped = True
                continue
            self.ready.remove(run)
            run.place, run.at = "running", self.now
            self.look()
            return run
        if dropped:
            self.look()
            return self.take()
        return None

    def finish(self, run: Run, how: str) -> None:
        self.ended(run, ENDS[how], "stopped" if how == "stops" else None)
        self.look()

    def comes_back(self, run: Run) -> None:
        """A zombie."""
        self.zombies.remove(run)
        if not self.policy.release:
            self.let_go(run)
        self.look()

    def ended(self, run: Run, place: str, reason: str | None) -> None:
        if place == "failed" and run.tries < len(self.policy.delays) and not self.end and not run.stop:
            run.place, run.reason, run.at = "retry", None, self.now + self.policy.delays[run.tries]
            run.tries += 1
        else:
            run.place, run.reason = place, reason
            self.failures = {"failed": self.failures + 1, "succeeded": 0}.get(place, self.failures)
            if self.failures == self.policy.pause_after:
                self.failures = 0
                if not self.paused and not self.end:
                    self.pause()
        if run not in self.zombies or self.policy.release:
            self.let_go(run)
        self.finished()

    def drop(self, run: Run, place: str, reason: str) -> None:
        """It never starts, or never again."""
        run.place, run.reason = place, reason
        if run in self.ready:
            self.ready.remove(run)
        if run not in self.zombies or self.policy.release:
            self.let_go(run)

    def let_go(self, run: Run) -> None:
        if run.permit:
            run.permit = False
            self.permit_is_free()
        run.queued = False

    def permit_is_free(self) -> None:
        for run in [run for run in self.ready if run.queued][:1]:
            run.permit, run.queued = True, False

    def finished(self) -> None:
        if not self.step and not self.end and self.first <= self.now and not self.came:
            last = self.runs[-1]
            if last.place not in HERE:
                self.end = last.place, last.reason

    # Verbs

    def pause(self, until: int | None = None) -> None:
        self.until, self.paused = until, True
        for run in self.ready:
            run.place = "held"
            self.let_go(run)

    def resume(self, catch_up: str) -> None:
        self.unpause(catch_up)
        self.look(catch_up if self.step else None)

    def unpause(self, catch_up: str) -> None:
        if not self.paused:
            return
        self.paused, self.until = False, None
        held = [run for run in self.runs if run.place == "held"]  # in order of their fires
        self.ready = [run for run in self.ready if run.place == "ready"] + held
        for run in held:
            run.place = "ready"
            self.queue_up(run)
        if self.step and catch_up == "none" and not self.over_pause:
            self.skip("paused", [due for due, why in self.came.items() if why == "paused"])
        for due, why in self.came.items():
            self.came[due] = "missed" if why == "paused" else why

    def run_now(self) -> str | None:
        """What is refused, or skipped, is told."""
        going = [run for run in self.runs if run.place in HERE]
        if self.end:
            return "ended" if self.state() == self.end[0] or self.policy.overlap != "skip" else None
        if not self.step and not going:
            self.came.clear()
            self.first = self.now
            self.start(self.now, by_hand=True)
            if self.policy.overlap == "allow" and self.full():
                self.skip("paused", [due for due, why in self.came.items() if why == "paused"])
        elif (
            self.policy.overlap == "skip"
            and going
            and going[0].place in ("held", "retry")
            and not self.awaits(going[0])
        ):
            self.ready = []
            self.make_ready(going[0], by_hand=True)
        elif self.step and not self.full():
            self.over_pause = self.paused and self.policy.overlap == "skip"
            self.start(self.now, by_hand=True)
            if self.policy.overlap == "allow" and self.full():
                self.skip("paused", [due for due, why in self.came.items() if why == "paused"])
        elif not self.step:
            return None
        elif self.policy.overlap == "queue" and not self.waiter:
            self.skip("paused", [due for due, why in self.came.items() if why == "paused"])
            self.waiter = [self.now]
        elif self.policy.overlap == "replace":
            self.make_way()
            self.skip("replaced", [due for due, why in self.came.items() if why == "overlap"], self.waiter)
            if self.busy():
                self.skip("paused", [due for due, why in self.came.items() if why == "paused"])
                self.waiter = [self.now]
            else:
                self.start(self.now, by_hand=True)
        else:
            self.runs.append(Run(self.now, "skipped", "overlap"))
        return None

    def reschedule(self, first: int, step: int) -> None:
        for run in [run for run in self.ready if not self.step]:  # its only run is to come at another time
            self.ready.remove(run)
            self.runs.remove(run)
            self.let_go(run)
        lost = [due for due in self.came if self.step and due < self.now]  # the new rule knows nothing of them
        if self.step and (self.chain or self.caught):
            self.skip("replaced", lost, [due for due in self.chain if due < self.now])
        else:
            self.skip("overlap" if self.takes_none() else "paused", lost)
        self.first, self.step = first, step
        self.came.clear()
        self.chain.clear()

    def cancel(self) -> str:
        if self.end:
            return "too_late" if self.state() == self.end[0] else "asked"
        going = [run for run in self.runs if run.place in HERE]
        if not going and not self.takes_none():
            self.runs.append(Run(min(self.came or [self.planned()]), "cancelled", "cancelled"))
        self.came.clear()
        self.skip("cancelled", [], self.waiter)
        self.waiter, self.chain = [], []
        for run in going:
            run.stop = True
            if run.place != "running":
                self.drop(run, "cancelled", "cancelled")
        running = [run for run in going if run.place == "running"]
        if self.step or not running:
            self.end = "cancelled", "cancelled"
        return "asked" if running else "cancelled"
