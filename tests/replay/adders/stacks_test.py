"""What a learner gets of stacked frames is, bit for bit, what the actor acted on."""

import numpy as np
import pytest
import tree
from dm_env import specs as dm_specs

from repertory.components import specs, types
from repertory.components.environments import vector
from repertory.components.environments.wrappers import (
    frame_stack,
    observation_action_reward,
)
from repertory.replay import datasets, rows, tables
from repertory.replay.adders import sequence, transition, unroll
from tests import fakes
from tests.replay import scripts

STATE = rows.NestCodec((dm_specs.Array((2,), np.float32),), 'state')
# Steps of each lane's episodes, over and over, and whether they are truncated.
LANES = [
    ([1, 2, 3, 5, 12], [False, True, True, False, True]),
    ([4, 1, 1, 7, 2], [True, True, False, False, True]),
    ([30], [True]),
]
NUM_ROWS = 80


class Lane(fakes.ScriptedEnvironment):
    """Tells lane, episode and step in two leaves of different dtypes."""

    def __init__(self, lane):
        lengths, truncated = LANES[lane]
        super().__init__([[1.0] * length for length in lengths], truncated)
        self._lane = lane

    def observation_spec(self):
        return {
            'pixels': dm_specs.BoundedArray((2, 3), np.uint8, 0, 255, 'pixels'),
            'tag': dm_specs.Array((3,), np.float64, 'tag'),
        }

    def _tag(self):
        tag = np.array([self._lane, self._episode, self._step])
        pixels = np.stack([tag, 255 - tag]).astype(np.uint8)
        return {'pixels': pixels, 'tag': tag / 7}


def act(num_frames, num_rows=NUM_ROWS):
    """Returns the spec, the rows [N] that an actor hands over, and what it saw.

    The last is by lane, episode and step; a row's state is (episode, step).
    """
    lanes = vector.SerialVectorEnvironment(
        [
            observation_action_reward.wrap(
                frame_stack.FrameStack(Lane(lane), num_frames)
            )
            for lane in range(len(LANES))
        ]
    )
    played, seen = [], {}
    step, action = lanes.reset(), np.zeros(len(LANES), np.int32)
    for _ in range(num_rows):
        tags = tags_of(step.observation)
        for lane, tag in enumerate(tags):
            seen[tuple(tag)] = tree.map_structure(
                lambda leaf, at=lane: leaf[at], step.observation
            )
        extras = {'state': (tags[:, 1:].astype(np.float32),)}
        played.append(
            types.Row(
                step.observation,
                action,
                step.reward,
                step.discount,
                step.step_type,
                extras,
            )
        )
        step, action = lanes.step(action), 1 - action
    return lanes.spec, played, seen


def tags_of(observation):
    """Returns int [..., 3]: lane, episode and step of the newest frame."""
    newest = np.asarray(observation['observation']['pixels'])[..., -1]
    return newest[..., 0, :].astype(int)


def write(serve, make_adder, played, signature):
    """Returns the items that the adder made of the rows, packed."""
    address = serve(scripts.fifo(signature)).address
    with make_adder(address) as adder:
        for row in played:
            adder.add(row)
        adder.flush()
        num_items = adder.num_items
    return scripts.read(address, num_items)[0]


def check(observation, expected):
    """Compares a nest of tensors [...] with one of arrays, bit for bit."""

    def same(actual, wanted):
        actual = np.asarray(actual)
        assert actual.dtype == wanted.dtype
        np.testing.assert_array_equal(actual, wanted)

    tree.map_structure(same, observation, expected)


def at(nest, *index):
    return tree.map_structure(lambda leaf: np.asarray(leaf)[index], nest)


@pytest.mark.parametrize('num_frames', [1, 2, 4])
@pytest.mark.parametrize('n_step', [1, 3])
def test_transitions_have_the_stacks_that_were_acted_on(serve, n_step, num_frames):
    spec, played, seen = act(num_frames)
    codec = rows.RowCodec(rows.make_row_spec(spec, {}))

    def make_adder(address):
        return transition.TransitionAdder(
            address, 't', codec, n_step, 0.9, len(LANES), wait=scripts.never
        )

    packed = write(serve, make_adder, played, tables.signature(codec, n_step + 1))
    items = datasets.to_transition(packed['rows'], codec, 0.9)
    starts = set()
    for i, (lane, episode, step) in enumerate(tags_of(items.observation)):
        lengths = LANES[lane][0]
        last = min(step + n_step, lengths[episode % len(lengths)])
        check(at(items.observation, i), seen[lane, episode, step])
        check(at(items.next_observation, i), seen[lane, episode, last])
        starts.add((lane, episode, step))
    assert len(starts) == len(items.reward)
    assert {(0, 0, 0), (0, 1, 1), (0, 4, 11), (0, 5, 0), (2, 0, 29)} <= starts


@pytest.mark.parametrize('num_frames', [1, 2, 4])
@pytest.mark.parametrize('burn_in', [0, 3])
def test_sequences_have_the_stacks_that_were_acted_on(serve, burn_in, num_frames):
    spec, played, seen = act(num_frames)
    codec = rows.RowCodec(rows.make_row_spec(spec, {}))
    trace, period, length = 4, 2, burn_in + 5

    def make_adder(address):
        return sequence.SequenceAdder(
            address,
            't',
            codec,
            burn_in,
            trace,
            period,
            len(LANES),
            wait=scripts.never,
            state_codec=STATE,
        )

    packed = write(serve, make_adder, played, tables.signature(codec, length, STATE))
    data = datasets.to_trajectory(packed, codec, STATE)
    assert data.rows.reward.shape[1] == length
    num_padding = 0
    for i, tags in enumerate(tags_of(data.rows.observation)):
        # Padding repeats the observation of the nearest row of the episode.
        assert len(set(map(tuple, tags[:, :2]))) == 1
        for t, tag in enumerate(tags):
            check(at(data.rows.observation, i, t), seen[tuple(tag)])
        num_padding += (data.rows.step_type[i] == types.StepType.PADDING).numpy().sum()
        np.testing.assert_array_equal(data.state[0][i], tags[0, 1:])
    assert num_padding


@pytest.mark.parametrize('num_frames', [1, 2, 4])
@pytest.mark.parametrize('length', [1, 2, 7])
def test_unrolls_have_the_stacks_that_were_acted_on(serve, length, num_frames):
    spec, played, seen = act(num_frames)
    codec = rows.RowCodec(rows.make_row_spec(spec, {}))

    def make_adder(address):
        return unroll.UnrollAdder(
            address, 't', codec, length, wait=scripts.never, state_codec=STATE
        )

    signature = tables.signature(codec, length + 1, STATE, len(LANES))
    packed = write(serve, make_adder, played, signature)
    data = datasets.to_trajectory(packed, codec, STATE, len(LANES))
    num_items = (NUM_ROWS - 1) // length
    tags = tags_of(data.rows.observation)
    assert tags.shape == (num_items * len(LANES), length + 1, 3)
    written = np.stack([tags_of(row.observation) for row in played], axis=1)
    for i in range(len(tags)):
        number, lane = divmod(i, len(LANES))
        start = number * length
        np.testing.assert_array_equal(
            tags[i], written[lane, start : start + length + 1]
        )
        np.testing.assert_array_equal(data.state[0][i], tags[i, 0, 1:])
        for t, tag in enumerate(tags[i]):
            check(at(data.rows.observation, i, t), seen[tuple(tag)])


def test_unroll_that_begins_within_an_episode_is_refused(serve):
    spec, played, _ = act(2, num_rows=2)
    codec = rows.RowCodec(rows.make_row_spec(spec, {}))
    signature = tables.signature(codec, 2, None, len(LANES))
    address = serve(scripts.fifo(signature)).address
    with (
        unroll.UnrollAdder(address, 't', codec, 1, wait=scripts.never) as adder,
        pytest.raises(ValueError, match='first row must be FIRST'),
    ):
        adder.add(played[1])


@pytest.mark.parametrize('break_at', [1, 50])
def test_a_stack_that_skips_frames_is_refused(serve, break_at):
    spec, played, _ = act(3)
    codec = rows.RowCodec(rows.make_row_spec(spec, {}))
    address = serve(scripts.fifo(tables.signature(codec, 2))).address
    with (
        transition.TransitionAdder(
            address, 't', codec, 1, 0.9, len(LANES), wait=scripts.never
        ) as adder,
        pytest.raises(
            ValueError,
            match='observation.observation.pixels of lane . must be a stack of the '
            'newest 3 frames',
        ),
    ):
        for number, row in enumerate(played):
            if number >= break_at:
                row.observation['observation']['pixels'][..., 1] += 1
            adder.add(row)


def test_arrays_that_are_no_stack_of_frames_are_stored_whole():
    spec, _, _ = act(3, num_rows=1)
    plain = specs.EnvironmentSpec(
        specs.unstacked(spec.observations), spec.actions, spec.rewards, spec.discounts
    )
    stacked, whole = (
        rows.RowCodec(rows.make_row_spec(one, {})) for one in (spec, plain)
    )
    assert (stacked.num_context, whole.num_context) == (2, 0)
    assert whole.num_bytes - stacked.num_bytes == 2 * (6 + 3 * 4)
