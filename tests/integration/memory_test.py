"""A replay of frames takes what was said beforehand."""

import json
import subprocess
import sys

import pytest

_CODE = """
import json
import numpy as np
from dm_env import specs as dm_specs
from repertory.components import specs, types
from repertory.launch import provenance
from repertory.replay import limits, rows, server, tables
from repertory.replay.adders import transition

SIZE, N_STEP = 4000, 3
spec = specs.EnvironmentSpec(
    dm_specs.Array((84, 84, 4), np.uint8), dm_specs.DiscreteArray(4),
    dm_specs.Array((), np.float32), dm_specs.BoundedArray((), np.float32, 0, 1))
codec = rows.RowCodec(rows.make_row_spec(spec, {}))
table = tables.TableSpec(name='t', sampler='uniform', max_size=SIZE,
    rate_limit=limits.RateLimit(), signature=tables.signature(codec, N_STEP + 1))
random = np.random.default_rng(0)
with server.ReplayServer([table]) as replay:
    adder = transition.TransitionAdder(replay.address, 't', codec, N_STEP, 0.99, 1,
        lambda reason, seconds: None)
    def add(step_type):
        adder.add(types.Row(
            random.integers(0, 256, (1, 84, 84, 4), np.uint8), np.zeros(1, np.int32),
            np.zeros(1, np.float32), np.ones(1, np.float32),
            np.array([step_type], np.uint8), {}))
    add(types.StepType.FIRST)
    for _ in range(100): add(types.StepType.MID)
    adder.flush()
    before = provenance.resident_gib()
    while adder.num_items < SIZE:
        add(types.StepType.MID)
        adder.flush()
    taken = provenance.resident_gib() - before
    print(json.dumps([taken * 2**30, table.estimated_bytes * (SIZE - 100) / SIZE]))
"""


@pytest.mark.slow
def test_a_replay_of_frames_is_as_large_as_estimated():
    done = subprocess.run(
        [sys.executable, '-c', _CODE], capture_output=True, text=True, check=True
    )
    measured, estimated = json.loads(done.stdout)
    assert 0.7 < measured / estimated < 1.3, (measured, estimated)
