"""List defects of dequeues that pass beside a gate, which tests/concurrency/test_beside_gate.py must notice."""

from __future__ import annotations

from .defect import Defect
from .limits import SIDE

DEFECTS = (
    Defect("dequeues pass beside the gate until it is full", "enter_beside", "v_count + 8 <=", "v_count + 1 <="),
    Defect(
        "leases beside the gate are not counted", "enter_beside", "v_gate.held || v_held", "v_gate.held",
        also=(("queue_allowance", "v_gate.held || pgqueue_beside_gate(p_queue)", "v_gate.held"),),
    ),
    Defect("the gate does not hold its sides", "lock_gate", SIDE, "true"),
    Defect(
        "a transaction passes beside the gate again and again", "enter_beside",
        "pg_current_xact_id_if_assigned() IS NOT NULL", "false",
    ),
)  # fmt: skip
