"""Which tests run on SQLite in `make test`, and which of them may not: what is rightly different, each with its reason.

A name without brackets stands for all its parameters, one with an open bracket for those that begin so.
`everywhere.py` obeys this; `test_differences.py` finds names that there are not.
"""

from __future__ import annotations

MODULES = frozenset(
    {
        "cases/test_clock_jumps.py",
        "cases/test_misfires.py",
        "cases/test_overlap.py",
        "cases/test_parents.py",
        "cases/test_pauses.py",
        "cases/test_pools.py",
        "cases/test_retries.py",
        "cases/test_timeouts.py",
        "cases/test_updates.py",
        "cases/test_verbs_inside.py",
        "cases/test_works.py",
        "faults/test_fork.py",
        "faults/test_hostile_results.py",
        "faults/test_policy_clocks.py",
        "observe/test_journal.py",
        "policies/test_table.py",
        "simulation/test_found.py",
        "stores/sql/test_differences.py",
        "stores/sql/test_programs.py",
        "test_backfill.py",
        "test_changes.py",
        "test_close_waits.py",
        "test_lifetime.py",
        "test_flow_attacks.py",
        "test_flow_rounds.py",
        "test_output.py",
        "test_policy_attacks.py",
        "test_policy_groups.py",
        "test_policy_shown.py",
        "test_policy_verbs.py",
        "test_stop_flag.py",
        "test_task.py",
        "test_verbs_at_the_door.py",
        "test_worker.py",
    }
)
"""Below `tests`. Not among them is what drives no store; what takes long on a file and shows nothing that these do not;
races (the weaver owns every thread, and a file's doorbell has one of its own); rules of a user's own; and what an
argument or a value is kept by, which in these tests is `Keepsakes`."""

_CLOSE = "close keeps what waits, and cancels nothing"
_KEPT = "`Keepsakes` keeps the values and arguments of all tasks, so nothing is let go of"
_INSIDE = "it looks at records of the machine, which are loaded by need and dropped"
_ASKED = "a run that was taken, and is cancelled before it begins, answers ASKED and never runs"
_OUTPUT = "an output anywhere in the arguments is stored as one"
_DOWN = "a pool that says that it is shut down or broken costs no run: faults/test_durable_pools.py"
_SLOW = "it is about 10,000 of something in little time; benchmarks/durable.py measures that"

DIFFERENCES = {
    "cases/test_misfires.py::test_BUG_013_fires_of_a_catch_up_that_a_stop_cuts_short_are_not_lost_without_a_word": (
        _CLOSE
    ),
    "cases/test_parents.py::test_BUG_055_child_that_is_added_while_its_parent_ends_runs_exactly_once": _SLOW,
    "cases/test_pauses.py::test_BUG_022_edit_by_the_verbs_touches_its_own_task_and_no_slot_of_another": _INSIDE,
    "cases/test_pools.py::test_BUG_042_pool_that_always_refuses_fails_each_run_once_and_nothing_hangs[R": (_DOWN),
    "cases/test_pools.py::test_BUG_042_pool_that_always_refuses_fails_each_run_once_and_nothing_hangs[B": (_DOWN),
    "cases/test_retries.py::test_BUG_042_other_pool_of_the_same_scheduler_does_not_notice": _DOWN,
    "cases/test_pools.py::test_BUG_042_pool_that_its_owner_shuts_down_fails_what_comes_and_is_told_as_failures": _DOWN,
    "cases/test_pools.py::test_BUG_042_pool_that_was_shut_down_before_the_start_is_no_hang": _DOWN,
    "cases/test_pools.py::test_BUG_042_runs_that_a_pool_drops_at_its_shutdown_do_not_hang": _DOWN,
    "cases/test_retries.py::test_BUG_052_retries_end_at_their_number_whatever_made_them_necessary[is rejected": _DOWN,
    "cases/test_retries.py::test_BUG_042_rejected_run_is_tried_as_often_as_its_retry_says_and_no_oftener[R": (_DOWN),
    "cases/test_retries.py::test_BUG_042_refusal_that_passes_costs_an_attempt_and_not_the_run[<lambda>-2_0-R": (_DOWN),
    "cases/test_retries.py::test_BUG_042_refusal_that_passes_costs_an_attempt_and_not_the_run[<lambda>-2_1-R": (_DOWN),
    "cases/test_retries.py::test_BUG_042_refusal_that_passes_costs_an_attempt_and_not_the_run[<lambda>-3-R": (_DOWN),
    "cases/test_retries.py::test_BUG_042_rejected_run_is_tried_as_often_as_its_retry_says_and_no_oftener[B": (_DOWN),
    "cases/test_retries.py::test_BUG_042_refusal_that_passes_costs_an_attempt_and_not_the_run[<lambda>-2_0-B": (_DOWN),
    "cases/test_retries.py::test_BUG_042_refusal_that_passes_costs_an_attempt_and_not_the_run[<lambda>-2_1-B": (_DOWN),
    "cases/test_retries.py::test_BUG_042_refusal_that_passes_costs_an_attempt_and_not_the_run[<lambda>-3-B": (_DOWN),
    "cases/test_updates.py::test_BUG_022_change_of_one_rule_is_in_force_at_once_and_touches_nobody_else": _INSIDE,
    "policies/test_table.py::test_the_task_does_what_the_table_says[close ": _CLOSE,
    "test_close_waits.py::test_close_from_outside_waits_for_a_task_that_has_closed_itself": _CLOSE,
    "test_close_waits.py::test_close_keeps_to_its_time_while_a_submit_blocks": _CLOSE,
    "test_close_waits.py::test_close_keeps_to_its_time_while_an_observer_is_slow": _CLOSE,
    "test_flow_attacks.py::test_what_is_kept_of_rounds_does_not_grow": "it looks at what memory holds",
    "test_flow_rounds.py::test_a_close_ends_what_waits_in_a_round": _CLOSE,
    "test_lifetime.py::test_a_closed_scheduler_refuses_what_is_new_and_answers_what_was": _CLOSE,
    "test_lifetime.py::test_a_recurring_task_that_runs_at_the_close_is_cancelled_when_its_run_ends": _CLOSE,
    "test_lifetime.py::test_a_signal_ends_run_and_the_programs_own_handlers_are_put_back": _CLOSE,
    "test_lifetime.py::test_a_stop_that_was_requested_before_run_ends_it_at_once": _CLOSE,
    "test_lifetime.py::test_close_waits_for_what_runs_and_cancels_what_waits": _CLOSE,
    "test_lifetime.py::test_closing_before_the_start_cancels_what_waits_and_is_final": _CLOSE,
    "test_lifetime.py::test_events_up_to_the_close_are_delivered_before_it_returns": _CLOSE,
    "test_lifetime.py::test_the_with_block_closes_when_its_body_raises_and_the_error_comes_out": _CLOSE,
    "test_output.py::test_an_output_deeper_inside_is_passed_as_it_is": _OUTPUT,
    "test_output.py::test_one_output_may_go_to_many_children_and_one_child_may_take_it_many_times": _KEPT,
    "test_policy_shown.py::test_a_handler_that_comes_at_close_is_told_as_skipped": _CLOSE,
    "test_task.py::test_cancel_of_what_a_worker_may_just_take_never_runs_it_when_it_says_cancelled": _ASKED,
    "test_task.py::test_result_in_a_handle_that_was_made_after_the_end_is_gone": "a task has one handle a process",
}
