from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from repertory.components.losses import rewards

REWARDS = [-10.0, -1.0, -0.1, 0.1, 1.0, 10.0]


@pytest.mark.parametrize(
    'name, expected',
    [
        ('none', REWARDS),
        ('clip', [-1, -1, -0.1, 0.1, 1, 1]),
        ('tanh', [-1.0, -0.7616, -0.0997, 0.0997, 0.7616, 1.0]),
        ('asymmetric_paper', [-0.3, -0.2285, -0.0299, 0.4983, 3.808, 5.0]),
        ('asymmetric', [-1.446, -0.2961, -0.03, 0.1, 0.9869, 4.8201]),
    ],
)
def test_transforms_match_the_published_table(name, expected):
    actual = rewards.TRANSFORMS[name](tf.constant(REWARDS))
    np.testing.assert_allclose(actual, expected, atol=6e-5)
