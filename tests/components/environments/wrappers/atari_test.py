from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip('ale_py')

from repertory.components.environments.wrappers import atari  # noqa: E402
from tests import conformance  # noqa: E402


def play(environment, num_steps, seed=0):
    random = np.random.default_rng(seed)
    num_actions = environment.action_spec().num_values
    steps = [environment.reset()]
    for action in random.integers(num_actions, size=num_steps):
        steps.append(environment.step(action))
    return steps


def test_it_conforms_to_dm_env():
    conformance.check(lambda: atari.make('pong', 0))


def test_observations_are_stacks_of_grey_frames():
    environment = atari.make('pong', 0)
    step = play(environment, 30)[-1]
    assert step.observation.shape == (84, 84, 4)
    assert step.observation.dtype == np.uint8
    newest = [step.observation[..., frame] for frame in range(4)]
    assert not np.array_equal(newest[0], newest[3])


def test_action_sets():
    assert atari.make('pong', 0).action_spec().num_values == 6
    full = atari.make('pong', 0, full_action_set=True)
    assert full.action_spec().num_values == 18


def test_an_observation_is_the_maximum_of_the_last_two_frames():
    environment = atari.AtariFrames('pong', 0)
    environment.reset()
    screens = []
    act = environment._ale.act

    class Recording:
        def __getattr__(self, name):
            return getattr(ale, name)

        def act(self, action):
            reward = act(action)
            screens.append(ale.getScreenGrayscale())
            return reward

    ale, environment._ale = environment._ale, Recording()
    for _ in range(20):
        environment.step(2)
    assert len(screens) == 80
    np.testing.assert_array_equal(environment._screens[0], screens[-2])
    np.testing.assert_array_equal(environment._screens[1], screens[-1])


def test_without_action_repeat_the_frame_before_counts():
    environment = atari.AtariFrames('pong', 0, action_repeat=1)
    environment.reset()
    for _ in range(60):
        before = environment._ale.getScreenGrayscale()
        environment.step(2)
        np.testing.assert_array_equal(environment._screens[0], before)


def test_starts_differ_by_up_to_30_frames():
    environment = atari.AtariFrames('pong', 0)
    starts = set()
    for _ in range(60):
        environment.reset()
        starts.add(environment._ale.getEpisodeFrameNumber())
    assert min(starts) >= 0 and max(starts) <= 30
    assert len(starts) > 15


def test_the_cap_on_frames_truncates():
    environment = atari.AtariFrames('pong', 0, max_frames=100, max_noops=0)
    steps = play(environment, 25)
    assert [step.last() for step in steps] == [False] * 25 + [True]
    assert steps[-1].discount == 1


@pytest.mark.parametrize('life_loss_discount', [0.0, 1.0])
def test_a_lost_life_gives_its_discount_and_the_game_goes_on(life_loss_discount):
    environment = atari.AtariFrames(
        'breakout', 0, life_loss_discount=life_loss_discount
    )
    steps = play(environment, 600)
    lost = [step for step in steps[1:] if step.mid() and step.discount != 1]
    ends = [step for step in steps if step.last()]
    assert ends and all(step.discount == 0 for step in ends)
    assert bool(lost) == (life_loss_discount == 0)


def test_rewards_are_clipped_only_if_asked():
    raw = play(atari.AtariFrames('space_invaders', 0), 400)
    clipped = play(atari.AtariFrames('space_invaders', 0, clip_rewards=True), 400)
    raw, clipped = (
        [float(step.reward) for step in steps if not step.first()]
        for steps in (raw, clipped)
    )
    assert max(raw) > 1
    assert clipped == np.clip(raw, -1, 1).tolist()


def test_seeds_repeat_and_differ():
    frames = [
        np.stack([step.observation for step in play(atari.make('pong', seed), 40)])
        for seed in (3, 3, 4)
    ]
    np.testing.assert_array_equal(frames[0], frames[1])
    assert not np.array_equal(frames[0], frames[2])


def test_games_are_known_by_both_spellings():
    assert atari.rom_name('SpaceInvaders') == atari.rom_name('space_invaders')
    with pytest.raises(ValueError, match="game must be one of ale-py, got 'Go'"):
        atari.rom_name('Go')
