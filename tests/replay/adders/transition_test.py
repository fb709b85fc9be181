import numpy as np
import pytest

from repertory.components import types
from repertory.replay import datasets, limits, rows, tables
from repertory.replay.adders import transition
from tests import golden
from tests.replay import scripts
from tests.replay.scripts import Episode

GAMMA = 0.9


def make_table(serve, n_step, codec=scripts.CODEC):
    spec = scripts.fifo(tables.signature(codec, n_step + 1))
    return serve(spec).address


def make_adder(address, n_step, num_lanes, codec=scripts.CODEC, **options):
    return transition.TransitionAdder(
        address, 't', codec, n_step, GAMMA, num_lanes, wait=scripts.never, **options
    )


def read(address, num_items, codec=scripts.CODEC, discount=GAMMA):
    """Returns all the items as the learner gets them: priorities and transitions."""
    if not num_items:
        return [], []
    packed, priorities = scripts.read(address, num_items)
    return priorities, datasets.to_transition(packed['rows'], codec, discount)


def write(serve, lanes, num_rows, n_step, **options):
    address = make_table(serve, n_step)
    with make_adder(address, n_step, len(lanes), **options) as adder:
        for row in scripts.play(lanes, num_rows):
            adder.add(row)
        adder.flush()
        num_items = adder.num_items
    return read(address, num_items)


@pytest.mark.parametrize(
    ('discount', 'expected'),
    [
        (0.0, [(5.23, 0.729), (7.94, 0), (6.6, 0), (4.0, 0)]),
        (1.0, [(5.23, 0.729), (7.94, 0.729), (6.6, 0.81), (4.0, 0.9)]),
    ],
)
def test_golden_episode_of_four_steps(serve, discount, expected):
    _, items = write(serve, [[Episode([1, 2, 3, 4], discount)]], num_rows=5, n_step=3)
    np.testing.assert_allclose(items.reward, [r for r, _ in expected], rtol=1e-6)
    np.testing.assert_allclose(items.discount, [d for _, d in expected], rtol=1e-6)
    np.testing.assert_array_equal(items.observation[:, 2], [0, 1, 2, 3])
    np.testing.assert_array_equal(items.next_observation[:, 2], [3, 4, 4, 4])


def test_first_reward_is_not_discounted(serve):
    address = make_table(serve, 3)
    with transition.TransitionAdder(
        address, 't', scripts.CODEC, 3, 0.5, 1, wait=scripts.never
    ) as adder:
        for row in scripts.play([[Episode([1, 10, 100, 0])]], num_rows=4):
            adder.add(row)
        adder.flush()
    _, items = read(address, 1, discount=0.5)
    assert items.reward == 31


@pytest.mark.parametrize('n_step', [1, 2, 3, 5])
@pytest.mark.parametrize('end', [0.0, 1.0, 0.5])
def test_lanes_of_different_lengths_give_each_step_once(serve, n_step, end):
    lanes = [
        [Episode([1, 2, 3, 4, 5], end), Episode([6], end)],
        [Episode([1], end)],
        [Episode([7, 8], end), Episode([9, 1, 2], 1.0)],
    ]
    _, items = write(serve, lanes, num_rows=60, n_step=n_step)
    seen = set()
    for first, last, action, reward, discount in zip(
        *(np.asarray(x) for x in (items.observation, items.next_observation)),
        items.action.numpy(),
        items.reward.numpy(),
        items.discount.numpy(),
        strict=True,
    ):
        lane, number, start = first.astype(int)
        episode = lanes[lane][number % len(lanes[lane])]
        m = min(n_step, len(episode.rewards) - start)
        assert tuple(last) == (lane, number, start + m)  # Its own episode's.
        assert action == 10 * number + start
        rewards = episode.rewards[start : start + m]
        expected = sum(GAMMA**k * r for k, r in enumerate(rewards))
        factor = episode.discount if start + m == len(episode.rewards) else 1.0
        np.testing.assert_allclose(reward, expected, rtol=1e-5)
        np.testing.assert_allclose(discount, GAMMA**m * factor, rtol=1e-5)
        assert (lane, number, start) not in seen
        seen.add((lane, number, start))
    ended = {
        (lane, number)
        for lane, episodes in enumerate(lanes)
        for number in range(60)
        if 60
        >= sum(len(episodes[i % len(episodes)].rewards) + 1 for i in range(number + 1))
    }
    for lane, number in ended:
        length = len(lanes[lane][number % len(lanes[lane])].rewards)
        steps = [s for a, b, s in seen if (a, b) == (lane, number)]
        assert sorted(steps) == list(range(length))


@pytest.mark.parametrize('num_steps', [2, 3, 4])
def test_running_episode_gives_only_full_windows(serve, num_steps):
    _, items = write(serve, [[Episode([1.0] * 9)]], num_rows=num_steps + 1, n_step=3)
    assert len(items.reward if items else []) == max(num_steps - 2, 0)


def test_windows_that_hold_the_termination_are_those_of_discount_zero(serve):
    _, items = write(serve, [[Episode([1.0] * 8, 0.0)]], num_rows=9, n_step=3)
    assert len(items.discount) == 8
    np.testing.assert_array_equal(items.discount.numpy() == 0, [False] * 5 + [True] * 3)


@pytest.mark.parametrize('case', golden.cases('adders', 'n_step_transition'))
def test_agrees_with_recorded_adders(serve, case):
    # They write short windows at an episode's start as well, and leave one factor of
    # gamma to the learner; `discount_with_all_gammas` has it.
    timesteps, params = case.inputs['timesteps'], case.params
    n_step = params['n_step']
    expected = case.expected['items']
    expected = expected[~expected['short_at_start'] | expected['short_at_end']]
    first_of_episode = timesteps['t'][expected['start']] == 0
    length = np.array(
        [(timesteps['episode'] == e).sum() - 1 for e in timesteps['episode']]
    )[expected['start']]
    is_ours = expected['steps'] == np.minimum(
        n_step, length - timesteps['t'][expected['start']]
    )
    expected = expected[is_ours]
    assert len(expected) == (timesteps['step_type'] != 0).sum(), first_of_episode
    address = make_table(serve, n_step)

    def priority(first, reward, discount, last):
        return np.abs(reward) + 1

    with transition.TransitionAdder(
        address,
        't',
        scripts.CODEC,
        n_step,
        params['discount'],
        1,
        wait=scripts.never,
        priority_fn=priority if 'priority' in params else None,
    ) as adder:
        for step in timesteps:
            is_first = step['step_type'] == 0
            adder.add(
                types.Row(
                    observation=np.array([[*step['observation'], 0]], np.float32),
                    action=np.array([step['action']], np.int32),
                    reward=np.array([0 if is_first else step['reward']], np.float32),
                    discount=np.array(
                        [1 if is_first else step['discount']], np.float32
                    ),
                    step_type=np.array([step['step_type']], np.uint8),
                    extras={},
                )
            )
        adder.flush()
    assert adder.num_items == len(expected)
    order = np.argsort(expected['start'], kind='stable')
    expected = expected[order]
    priorities, items = read(address, len(expected), discount=params['discount'])
    for actual, field in [
        (items.observation[:, :2], 'observation'),
        (items.next_observation[:, :2], 'next_observation'),
        (items.action, 'action'),
        (items.reward, 'reward'),
        (items.discount, 'discount_with_all_gammas'),
        (priorities, 'priority'),
    ]:
        np.testing.assert_allclose(actual, expected[field], rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize('n_step', [1, 3, 5])
def test_priorities_come_from_the_window_that_the_learner_sees(serve, n_step):
    lanes = [[Episode([1, 2, 3, 4, 5], 0.0), Episode([6], 1.0)], [Episode([7, 8], 1.0)]]

    def priority(first, reward, discount, last):
        return np.abs(reward + discount * last['q'] - first['q']) + 1e-6

    priorities, items = write(
        serve, lanes, num_rows=40, n_step=n_step, priority_fn=priority
    )

    def q(observation):
        return 100 * observation[:, 1] + observation[:, 2]

    expected = abs(
        items.reward + items.discount * q(items.next_observation) - q(items.observation)
    )
    np.testing.assert_allclose(priorities, expected + 1e-6, rtol=1e-5)


@pytest.mark.parametrize('bad', [np.nan, np.inf])
def test_priority_that_is_not_finite_is_refused(serve, bad):
    address = make_table(serve, 1)

    def priority(first, reward, discount, last):
        return np.where(np.arange(len(reward)) == 1, bad, 1.0)

    with make_adder(address, 1, 2, priority_fn=priority) as adder:
        first, second = scripts.play([[Episode([1, 2])]] * 2, num_rows=2)
        adder.add(first)
        with pytest.raises(FloatingPointError, match=f'got {bad} in lane 1'):
            adder.add(second)
        assert adder.num_items == 0


def test_priority_of_zero_and_of_another_shape_are_refused(serve):
    address = make_table(serve, 1)
    for value, message in [
        (np.zeros(1), 'priorities must be > 0, got 0.0 in lane 0'),
        (np.ones((1, 1)), r'must be of shape \[1\], .* got \[1, 1\]'),
    ]:
        with make_adder(address, 1, 1, priority_fn=lambda *_, v=value: v) as adder:
            first, second = scripts.play([[Episode([1, 2])]], num_rows=2)
            adder.add(first)
            with pytest.raises(ValueError, match=message):
                adder.add(second)


def test_rows_before_a_reset_are_refused(serve):
    with make_adder(make_table(serve, 1), 1, 2) as adder:
        _, second = scripts.play([[Episode([1, 2])]] * 2, num_rows=2)
        with pytest.raises(ValueError, match=r'must be FIRST, .* lanes \[0, 1\]'):
            adder.add(second)


def test_arguments_out_of_range_are_refused():
    with pytest.raises(ValueError, match='n_step must be >= 1, got 0'):
        make_adder('localhost:1', 0, 1)
    with pytest.raises(ValueError, match=r'discount must be in \[0, 1\], got 1.5'):
        transition.TransitionAdder(
            'localhost:1', 't', scripts.CODEC, 1, 1.5, 1, wait=scripts.never
        )


def test_items_stay_whole_while_old_ones_are_removed(serve):
    codec = scripts.CODEC
    spec = tables.TableSpec(
        name='t',
        sampler='uniform',
        max_size=16,
        signature=tables.signature(codec, 4),
        rate_limit=limits.RateLimit(),
    )
    address = serve(spec).address
    lanes = [[Episode([1, 2, 3]), Episode([1, 2, 3, 4, 5], 1.0)]]
    with make_adder(address, 3, 1) as adder:
        for i, row in enumerate(scripts.play(lanes, num_rows=200)):
            adder.add(row)
            if i % 20 == 19:
                adder.flush()
                _, items = read(address, 100)
                first, last = items.observation.numpy(), items.next_observation.numpy()
                np.testing.assert_array_equal(first[:, :2], last[:, :2])
                lengths = np.where(first[:, 1] % 2, 5, 3)
                np.testing.assert_array_equal(
                    last[:, 2], np.minimum(first[:, 2] + 3, lengths)
                )


def test_extra_that_the_policy_did_not_give_is_named(serve):
    spec = rows.make_row_spec(
        scripts.ENVIRONMENT, {'log_prob': scripts.ENVIRONMENT.rewards}, ['log_prob']
    )
    codec = rows.RowCodec(spec)
    with make_adder(make_table(serve, 1, codec), 1, 1, codec) as adder:
        [row] = scripts.play([[Episode([1])]], num_rows=1)
        with pytest.raises(ValueError, match=r"did not give \['log_prob'\]"):
            adder.add(row)
