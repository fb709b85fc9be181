"""A replay of frames takes what was said beforehand."""

import json
import subprocess
import sys

import pytest

_CODE = """
import json
import sys
import numpy as np
from dm_env import specs as dm_specs
from repertory.components import specs, types
from repertory.launch import provenance
from repertory.replay import limits, rows, server, tables
from repertory.replay.adders import transition

SIZE, N_STEP = 8000, 3
KIND = {'stack': specs.StackedFrames, 'whole': dm_specs.BoundedArray}[sys.argv[1]]
spec = specs.EnvironmentSpec(
    KIND((84, 84, 4), np.uint8, 0, 255), dm_specs.DiscreteArray(4),
    dm_specs.Array((), np.float32), dm_specs.BoundedArray((), np.float32, 0, 1))
codec = rows.RowCodec(rows.make_row_spec(spec, {}))
table = tables.TableSpec(name='t', sampler='uniform', max_size=SIZE,
    rate_limit=limits.RateLimit(), signature=tables.signature(codec, N_STEP + 1))
random = np.random.default_rng(0)
with server.ReplayServer([table]) as replay:
    adder = transition.TransitionAdder(replay.address, 't', codec, N_STEP, 0.99, 1,
        lambda reason, seconds: None)
    stack = np.empty((1, 84, 84, 4), np.uint8)
    def add(step_type):
        global stack
        frame = random.integers(0, 256, (1, 84, 84, 1), np.uint8)
        older = frame if step_type == types.StepType.FIRST else stack[..., 1:]
        stack = np.concatenate([older] * (4 - older.shape[-1]) + [frame], -1)
        adder.add(types.Row(
            stack, np.zeros(1, np.int32), np.zeros(1, np.float32),
            np.ones(1, np.float32), np.array([step_type], np.uint8), {}))
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
@pytest.mark.parametrize('kind', ['stack', 'whole'])
def test_a_replay_of_frames_is_as_large_as_estimated(kind):
    done = subprocess.run(
        [sys.executable, '-c', _CODE, kind], capture_output=True, text=True, check=True
    )
    measured, estimated = json.loads(done.stdout)
    print(measured / 2**20, estimated / 2**20)
    assert 0.7 < measured / estimated < 1.3, (measured, estimated)
