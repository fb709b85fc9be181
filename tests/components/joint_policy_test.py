import dm_env
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from repertory.components import joint_policy, policies, specs

_LANES, _ACTIONS = 3, 4
_SPEC = specs.EnvironmentSpec(
    observations=dm_env.specs.Array((2,), np.float32),
    actions=dm_env.specs.DiscreteArray(_ACTIONS),
    rewards=dm_env.specs.Array((), np.float32),
    discounts=dm_env.specs.BoundedArray((), np.float32, 0.0, 1.0),
)


def make_policies(epsilons):
    network = snt.Linear(_ACTIONS, w_init=tf.initializers.Identity())
    network(tf.zeros([1, 2]))
    return [
        policies.EpsilonGreedyPolicy(network, [epsilon] * _LANES, _SPEC.actions, seed)
        for seed, epsilon in enumerate(epsilons)
    ]


def test_each_role_keeps_its_own_random_numbers_whoever_else_acts():
    epsilons = 0.2, 0.9, 1.0
    joint = joint_policy.JointPolicy(make_policies(epsilons), _SPEC, _LANES)
    alone = make_policies(epsilons)
    rng = np.random.default_rng(0)
    for _ in range(50):  # More than are drawn in one call.
        roles = np.flatnonzero(rng.random(3) < 0.6)
        if not len(roles):
            continue
        rng.shuffle(roles)
        seen = rng.normal(size=(len(roles), _LANES, 2)).astype(np.float32)
        firsts = [np.zeros(_LANES, bool)] * len(roles)
        outputs = joint(
            roles.tolist(), [[each] for each in seen], firsts, [[]] * len(roles)
        )
        for i, role in enumerate(roles):
            expected = alone[role](tf.constant(seen[i]), ())
            [action] = outputs[i].action
            np.testing.assert_array_equal(action, expected.action)
            for name in ('q_taken', 'q_max'):
                np.testing.assert_allclose(
                    outputs[i].extras[name], expected.extras[name]
                )


def test_roles_that_draw_other_numbers_are_refused():
    with pytest.raises(
        ValueError, match=r'draw\(\) of role 1 must return the structure of role 0'
    ):
        joint_policy.JointPolicy(make_policies([0.5, 0.0]), _SPEC, _LANES)


def test_roles_that_draw_nothing_act_together():
    joint = joint_policy.JointPolicy(make_policies([0.0, 0.0]), _SPEC, _LANES)
    seen = np.random.default_rng(0).normal(size=(2, _LANES, 2)).astype(np.float32)
    firsts = [np.ones(_LANES, bool)] * 2
    outputs = joint([1, 0], [[each] for each in seen], firsts, [[]] * 2)
    [policy] = make_policies([0.0])
    expected = policy(tf.constant(seen.reshape(-1, 2)), ()).action
    actions = np.concatenate([output.action[0] for output in outputs])
    np.testing.assert_array_equal(actions, expected)
