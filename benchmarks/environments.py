"""Throughput of the environments on one core.

python benchmarks/environments.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from machine import describe

from bondic_lab.worlds.glucose import Glucose
from bondic_lab.worlds.glucose_model import Patient, advance
from bondic_lab.worlds.rollout import Rollout
from bondic_lab.worlds.shipped import ENVIRONMENTS, shipped_policy

PATIENTS, MINUTES = 400, 1440
EPISODES = {"cartpole": 10_000, "pendulum": 20_000, "glucose": 400}


def fastest(work: Callable[[], object], repeats: int = 3) -> float:
    """Processor seconds, all threads, of the best of some runs; the first, which compiles, is not counted."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def day(patient: Patient) -> tuple[np.ndarray, np.ndarray]:
    """Basal insulin with a bolus at each of three meals, (PATIENTS, 1440) each."""
    insulin, meals = np.full((PATIENTS, MINUTES), patient.basal), np.zeros((PATIENTS, MINUTES))
    for minute, grams in ((420, 45.0), (720, 65.0), (1140, 70.0)):
        meals[:, minute] = grams
        insulin[:, minute] += grams / 15.0
    return insulin, meals


def main() -> None:
    print(" · ".join(f"{key}: {value}" for key, value in describe().items()))
    for name in ("adult#001", "adolescent#001", "child#001", "adolescent#002"):
        patient = Patient.load(name)
        insulin, meals = day(patient)
        seconds = fastest(lambda p=patient, i=insulin, m=meals: advance(p, p.rest(PATIENTS), i, m))
        print(f"glucose model, {name}: {PATIENTS * MINUTES / seconds:,.0f} patient-minutes per second")
    for name, kind in ENVIRONMENTS.items():
        dynamics, policy, logs = kind(), shipped_policy(name, "good", 1.0), list[Rollout]()

        def roll(dynamics=dynamics, policy=policy, logs=logs, name=name) -> None:  # type: ignore[no-untyped-def]
            logs.append(dynamics.rollout(policy.action_probs, EPISODES[name], rng=np.random.default_rng(0)))

        seconds, rows = fastest(roll), len(logs[-1].rewards)
        extra = f", {rows * Glucose().minutes / seconds:,.0f} patient-minutes per second" if name == "glucose" else ""
        print(f"{name}: {rows:,} rows in {seconds:.2f} s, {rows / seconds:,.0f} rows per second{extra}")


if __name__ == "__main__":
    main()
