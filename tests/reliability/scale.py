"""How much the reliability tests do: enough for every push in `make test`, more in `make soak`."""

import os
from typing import NamedTuple


class Scale(NamedTuple):
    """One figure per harness."""

    kills: int
    load_seconds: float
    first_starts: int
    cuts: int
    full_disks: int
    machines: int
    steps: int
    queries: int
    literals: int
    secrets: int
    thread_rounds: int
    chaos_seconds: float
    damaged_copies: int


SHORT = Scale(
    kills=40,
    load_seconds=5.0,
    first_starts=8,
    cuts=40,
    full_disks=8,
    machines=20,
    steps=30,
    queries=500,
    literals=300,
    secrets=60,
    thread_rounds=25,
    chaos_seconds=10.0,
    damaged_copies=33,
)
LONG = Scale(
    kills=300,
    load_seconds=60.0,
    first_starts=40,
    cuts=150,
    full_disks=30,
    machines=200,
    steps=40,
    queries=10_000,
    literals=2_000,
    secrets=1_000,
    thread_rounds=200,
    chaos_seconds=600.0,
    damaged_copies=2_200,
)

SOAK = os.environ.get("PLAIT_SOAK") == "1"
SCALE = LONG if SOAK else SHORT
