"""The learner: updates, target copies, metrics, faults, checkpoints."""

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tree

from repertory.components import kernels, learner, optimizers, types


class Written(list):
    """Keeps the priorities that it is given."""

    def __call__(self, keys, priorities):
        self.append((keys, priorities))

    def flush(self):
        pass

    def close(self):
        pass


class Networks(NamedTuple):
    linear: snt.Module


@dataclasses.dataclass(frozen=True)
class Config:
    target_update_period: int = 3
    max_gradient_norm: float | None = None


def make_networks():
    linear = snt.Linear(1, with_bias=False)
    linear(tf.zeros([1, 2]))
    return Networks(linear)


def squared_error(online, target, sample, config):
    error = online.linear(sample.data['x'])[:, 0] - sample.data['y']
    return learner.LossOutput(
        loss=tf.reduce_mean(error**2),
        priorities=tf.abs(error),
        metrics={'error': tf.reduce_mean(error)},
    )


def make_sample(x, y, first_key=0):
    x, y = np.asarray(x, np.float32), np.asarray(y, np.float32)
    keys = np.arange(y.size, dtype=np.uint64).reshape(y.shape) + np.uint64(first_key)
    ones = tf.ones(y.shape, tf.float64)
    info = types.SampleInfo(tf.constant(keys), ones, tf.cast(ones, tf.int64), ones)
    return types.Sample(info, {'x': tf.constant(x), 'y': tf.constant(y)})


def batches(num, updates, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(num):
        x = rng.normal(size=(updates, 4, 2))
        yield make_sample(x, x[..., 0] - 2 * x[..., 1])


def make_learner(
    samples, config=Config(), loss=squared_error, optimizer=None, **kwargs
):
    online, target = make_networks(), make_networks()
    online.linear.w.assign([[0.5], [0.25]])
    made = learner.SGDLearner(
        loss=loss,
        online=online,
        target=target,
        trained=[online.linear],
        acting=[online.linear],
        targets=[(online.linear, target.linear)],
        config=config,
        optimizer=optimizer or optimizers.Adam(0.1),
        samples=iter(samples),
        **kwargs,
    )
    return made, online, target


@pytest.mark.parametrize('max_size, as_branch', [(2, True), (1, False)])
def test_wide_layers_leave_the_branch_for_onednn(monkeypatch, max_size, as_branch):
    monkeypatch.setattr(kernels, 'WIDE', max_size)
    made, *_ = make_learner(batches(1, 2))  # Of weights [2, 1].
    made.step()
    has_gpu = bool(tf.config.list_logical_devices('GPU'))
    assert made._step._as_branch == (as_branch and not has_gpu)


def test_several_updates_a_call_equal_single_ones():
    one, online, target = make_learner(batches(6, 1))
    singles = [one.step() for _ in range(6)]
    grouped_batches = [
        make_sample(*(np.concatenate([s.data[k] for s in group]) for k in 'xy'))
        for group in zip(*[batches(6, 1)] * 3)
    ]
    many, many_online, many_target = make_learner(grouped_batches)
    grouped = [many.step() for _ in range(2)]
    assert one.steps == many.steps == 6
    np.testing.assert_allclose(many_online.linear.w, online.linear.w, rtol=1e-6)
    np.testing.assert_allclose(many_target.linear.w, target.linear.w, rtol=1e-6)
    for metric in 'loss', 'gradient_norm', 'error':
        means = np.reshape([s[metric] for s in singles], [2, 3]).mean(axis=1)
        np.testing.assert_allclose([g[metric] for g in grouped], means, rtol=1e-5)


class Taken(list):
    """Yields samples, and keeps those that it has yielded."""

    def __init__(self, samples, element_spec):
        self._samples, self.element_spec = samples, element_spec

    def __iter__(self):
        return self

    def __next__(self):
        self.append(next(self._samples))
        return self[-1]


def whole_spec():
    return tree.map_structure(tf.TensorSpec.from_tensor, next(batches(1, 2)))


def partial_spec():
    spec = whole_spec()
    return spec._replace(data={**spec.data, 'x': tf.TensorSpec([2, None, 2])})


@pytest.mark.parametrize(
    ('make_spec', 'taken_before'),
    [(whole_spec, 0), (partial_spec, 1), (lambda: None, 1)],
)
def test_a_prepared_learner_is_traced_before_its_first_sample(make_spec, taken_before):
    traced, samples = [], Taken(batches(3, 2), make_spec())

    def loss(*args):
        traced.append(len(samples))
        return squared_error(*args)

    prepared, online, _ = make_learner(samples, loss=loss)
    for _ in range(2):
        prepared.prepare()
    for _ in range(3):
        prepared.step()
    assert traced == [taken_before]
    other, other_online, _ = make_learner(batches(3, 2))
    for _ in range(3):
        other.step()
    np.testing.assert_array_equal(online.linear.w, other_online.linear.w)


def test_target_is_copied_at_the_start_and_each_period():
    one, online, target = make_learner(batches(7, 1))
    np.testing.assert_array_equal(target.linear.w, [[0.5], [0.25]])
    for step in range(1, 8):
        before = target.linear.w.numpy()
        one.step()
        expected = online.linear.w.numpy() if step % 3 == 0 else before
        np.testing.assert_array_equal(target.linear.w, expected)
        assert step % 3 == 0 or not np.array_equal(online.linear.w, target.linear.w)


def test_priorities_are_handed_over_with_their_keys():
    written = Written()
    x = np.ones([2, 3, 2])
    sample = make_sample(x, [[0, 1, 2], [3, 4, 5]], first_key=2**63)
    one, online, _ = make_learner([sample], update_priorities=written)
    one.step()
    [(keys, priorities)] = written
    assert keys.dtype == np.uint64 and keys.tolist() == [2**63 + i for i in range(6)]
    np.testing.assert_allclose(priorities[:3], [0.75, 0.25, 1.25], rtol=1e-6)


@pytest.mark.parametrize('bad', [np.nan, np.inf])
def test_a_loss_that_is_not_finite_changes_nothing(bad):
    written = Written()
    sample = make_sample(np.ones([1, 3, 2]), [[0, bad, 2]])
    one, online, _ = make_learner([sample], update_priorities=written)
    with pytest.raises(FloatingPointError, match='loss and gradient must be finite'):
        one.step()
    np.testing.assert_array_equal(online.linear.w, [[0.5], [0.25]])
    assert one.steps == 0 and not written


def test_an_error_in_a_later_update_of_a_call_names_its_step():
    sample = make_sample(np.ones([3, 3, 2]), [[0, 1, 2], [0, np.nan, 2], [0, 1, 2]])
    one, *_ = make_learner([sample])
    with pytest.raises(FloatingPointError, match='learner step 2, .* as of step 0'):
        one.step()


def test_gradients_are_clipped_by_their_global_norm():
    config = Config(max_gradient_norm=0.5)
    one, online, _ = make_learner(
        [make_sample([[[3, 4]]], [[0]])], config, optimizer=Descent()
    )
    metrics = one.step()
    step = np.array([0.5, 0.25]) - online.linear.w.numpy()[:, 0]
    np.testing.assert_allclose(np.linalg.norm(step), 0.5, rtol=1e-5)
    np.testing.assert_allclose(metrics['gradient_norm'], 2 * 2.5 * 5, rtol=1e-5)


class Descent(optimizers.Optimizer):
    """Plain gradient descent with a learning rate of 1."""

    def __init__(self):
        super().__init__(1.0)

    def apply(self, gradients, variables):
        for gradient, variable in zip(gradients, variables):
            variable.assign_sub(gradient)

    def _initial_slots(self):
        return {}

    def _update(self, *args):
        raise NotImplementedError


def test_a_restored_learner_goes_on_as_the_saved_one():
    first, online, target = make_learner(batches(10, 1))
    for _ in range(4):
        first.step()
    state = {name: value.copy() for name, value in first.state().items()}
    rest = list(batches(10, 1))[4:]
    second, other, other_target = make_learner(rest)
    second.restore(state)
    assert second.steps == 4
    for _ in range(6):
        assert first.step() == second.step()
    np.testing.assert_array_equal(online.linear.w, other.linear.w)
    np.testing.assert_array_equal(target.linear.w, other_target.linear.w)


def test_a_checkpoint_that_does_not_fit_is_refused_by_name():
    one, _, _ = make_learner([])
    state = one.state()
    name = next(name for name in state if name.startswith('online'))
    with pytest.raises(
        ValueError, match=rf'got \[\] too many and .*{name}.* too few; re'
    ):
        one.restore({k: v for k, v in state.items() if k != name})
    with pytest.raises(ValueError, match=rf'{name}.*float32\[2, 1\].*float32\[3\]'):
        one.restore({**state, name: np.zeros(3, np.float32)})


def test_published_parameters_are_copies():
    one, online, _ = make_learner(batches(2, 1))
    one.step()
    version, [weights] = one.get_variables()
    before = weights.copy()
    one.step()
    assert version == 1
    np.testing.assert_array_equal(weights, before)
    assert not np.array_equal(weights, online.linear.w)


class TwoNetworks(NamedTuple):
    critic: snt.Module
    policy: snt.Module


def test_two_losses_move_their_own_modules_with_clips_of_their_own():
    online = TwoNetworks(make_networks().linear, make_networks().linear)
    online.critic.w.assign([[1.0], [2.0]])
    online.policy.w.assign([[3.0], [4.0]])

    def loss(online, target, sample, config):
        critic, policy = tf.reduce_sum(online.critic.w), tf.reduce_sum(online.policy.w)
        return learner.LossOutput(
            loss={'critic': 100 * critic * policy, 'policy': policy - 1000 * critic},
            priorities=tf.zeros([0]),
            metrics={},
        )

    one = learner.SGDLearner(
        loss=loss,
        online=online,
        target=online,
        trained={'critic': [online.critic], 'policy': [online.policy]},
        acting=[online.policy],
        targets=[],
        config=Config(max_gradient_norm=2**0.5),
        optimizer={'critic': Descent(), 'policy': Descent()},
        samples=iter([make_sample(np.ones([1, 3, 2]), [[0, 1, 2]])]),
    )
    metrics = one.step()
    # The critic's gradient, 700 each, is clipped to 1; the policy's is 1 and stays.
    np.testing.assert_allclose(online.critic.w, [[0.0], [1.0]], atol=1e-5)
    np.testing.assert_allclose(online.policy.w, [[2.0], [3.0]], atol=1e-5)
    np.testing.assert_allclose(metrics['critic_gradient_norm'], 700 * 2**0.5, rtol=1e-5)
    np.testing.assert_allclose(metrics['policy_gradient_norm'], 2**0.5, rtol=1e-5)
    assert {name for name in one.state() if name.startswith('online')} == {
        'online/0/linear/w:0',
        'online/1/linear/w:0',
    }


def test_policy_lag_is_counted_in_learner_steps_since_the_actors_parameters():
    def loss(online, target, sample, config):
        output = squared_error(online, target, sample, config)
        return output._replace(versions=tf.constant([[-1, 0], [0, 1]], tf.int64))

    one, *_ = make_learner(batches(2, updates=2), loss=loss)
    # The mean over the call's two steps, which begin with 0 and with 1 step done.
    assert one.step()['policy_lag'] == 0.5
    metrics = one.step()
    assert (metrics['policy_lag'], metrics['policy_lag_max']) == (2.5, 3.5)


def test_of_two_losses_the_one_that_is_not_finite_is_named():
    online = TwoNetworks(make_networks().linear, make_networks().linear)

    def loss(online, target, sample, config):
        return learner.LossOutput(
            loss={
                'critic': tf.reduce_sum(online.critic.w),
                'policy': np.nan * tf.reduce_sum(online.policy.w),
            },
            priorities=tf.zeros([0]),
            metrics={},
        )

    one = learner.SGDLearner(
        loss=loss,
        online=online,
        target=online,
        trained={'critic': [online.critic], 'policy': [online.policy]},
        acting=[online.policy],
        targets=[],
        config=Config(),
        optimizer={'critic': Descent(), 'policy': Descent()},
        samples=iter([make_sample(np.ones([1, 3, 2]), [[0, 1, 2]])]),
    )
    before = online.critic.w.numpy()
    with pytest.raises(FloatingPointError, match='policy_loss'):
        one.step()
    np.testing.assert_array_equal(online.critic.w, before)
