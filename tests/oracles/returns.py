"""Slow transcriptions of returns and V-trace: one lane, one step at a time."""

from __future__ import annotations

import math

import numpy as np


def n_step_target(reward, discount, value, valid, n, t):
    """Walks at most n valid steps from t; value[k] is V(s_{k+1})."""
    if not valid[t]:
        return 0.0
    total, factor, k = 0.0, 1.0, t
    while k < len(reward) and valid[k] and k < t + n:
        total += factor * reward[k]
        factor *= discount[k]
        k += 1
    return total + factor * value[k - 1]


def n_step_targets(reward, discount, value, valid, n):
    lanes = range(reward.shape[1])
    return np.array(
        [
            [
                n_step_target(
                    reward[:, b], discount[:, b], value[:, b], valid[:, b], n, t
                )
                for b in lanes
            ]
            for t in range(len(reward))
        ]
    )


def vtrace(rho, reward, discount, value, bootstrap, valid, lam, clips):
    """The sum of eq. 1 of the IMPALA paper for one lane; clips = rho, c, pg rho."""
    steps = len(reward)
    rho = np.where(valid, rho, 0.0)
    clip_rho, clip_c, clip_pg = (math.inf if c is None else c for c in clips)
    v = [*value, bootstrap]
    target = list(v)
    for s in range(steps):
        for t in range(s, steps):
            weight = 1.0
            for i in range(s, t):
                weight *= discount[i] * lam * min(clip_c, rho[i])
            delta = min(clip_rho, rho[t]) * (reward[t] + discount[t] * v[t + 1] - v[t])
            target[s] += weight * delta
    advantage = [
        min(clip_pg, rho[t]) * (reward[t] + discount[t] * target[t + 1] - v[t])
        for t in range(steps)
    ]
    return np.array(target[:steps]), np.array(advantage)


def rescale(x, epsilon):
    return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + epsilon * x


def unrescale(y, epsilon):
    """Bisects for the x with rescale(x) = y."""
    high = 1.0
    while rescale(high, epsilon) < abs(y):
        high *= 2
    low = 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if rescale(middle, epsilon) < abs(y) else (low, middle)
        )
    return math.copysign(low, y)


def categorical_project(atoms, probabilities, support):
    """The floor-and-ceil form, one atom at a time, for one sample."""
    result = np.zeros(len(support))
    for z, p in zip(atoms, probabilities, strict=True):
        z = min(max(z, support[0]), support[-1])
        low = int(np.searchsorted(support, z, side='right')) - 1
        low = min(low, len(support) - 2)
        share = (z - support[low]) / (support[low + 1] - support[low])
        result[low] += p * (1 - share)
        result[low + 1] += p * share
    return result
