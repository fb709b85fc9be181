"""Atari 2600 games through ale-py, with the usual preprocessing."""

from __future__ import annotations

import ale_py
import dm_env
import numpy as np
from ale_py import roms
from dm_env import specs
from PIL import Image

from repertory.components.environments.wrappers import frame_stack

MAX_FRAMES = 108_000  # of an episode: 30 minutes at 60 frames a second
_SIZE = 84  # pixels, height and width


class AtariFrames(dm_env.Environment):
    """A game, in single frames: uint8 [84, 84], grey.

    An action is held for 4 frames, and the observation is the pixel-wise maximum of
    the last two, since games draw some objects in every other frame only. An episode
    begins with up to `max_noops` frames of no action. Losing a life gives discount 0
    and the episode goes on: values do not reach over it, while returns, also an
    evaluator's, are those of whole games. The cap on frames is a truncation.

    Reference: Mnih et al. (2015), "Human-level control through deep reinforcement
    learning", Methods; resized with Pillow's bilinear filter.

    Args:
        game: as in ale-py, such as 'pong' or 'space_invaders'; also 'SpaceInvaders'.
        seed: in [0, 2^31).
        full_action_set: all 18 actions, or those that the game knows.
        action_repeat: frames for each action.
        max_noops: frames, at most, before an episode; drawn evenly from 0.
        life_loss_discount: the discount where a life is lost, in [0, 1].
        clip_rewards: to [-1, 1], also for an evaluator.
        sticky_actions: chance of a frame to repeat the previous frame's action.
        max_frames: of one episode, counted with the first no-ops.

    Raises:
        ValueError: if there is no such game or its ROM is missing.
    """

    def __init__(
        self,
        game: str,
        seed: int,
        *,
        full_action_set: bool = False,
        action_repeat: int = 4,
        max_noops: int = 30,
        life_loss_discount: float = 0.0,
        clip_rewards: bool = False,
        sticky_actions: float = 0.0,
        max_frames: int = MAX_FRAMES,
    ):
        rom = roms.get_rom_path(rom_name(game))
        if rom is None:
            raise ValueError(
                f'game must be one whose ROM is installed, got {game!r}; install '
                'ale-py anew.'
            )
        self._random = np.random.default_rng(seed)
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self._ale = ale_py.ALEInterface()
        self._ale.setInt('random_seed', seed)
        self._ale.setFloat('repeat_action_probability', sticky_actions)
        self._ale.loadROM(rom)
        self._actions = (
            self._ale.getLegalActionSet()
            if full_action_set
            else self._ale.getMinimalActionSet()
        )
        self._action_repeat = action_repeat
        self._max_noops = max_noops
        self._life_loss_discount = life_loss_discount
        self._clip_rewards = clip_rewards
        self._max_frames = max_frames
        # The screens of the last two frames of a step.
        self._screens = np.zeros((2, *self._ale.getScreenDims()), np.uint8)
        self._lives = 0
        self._ended = True

    def reset(self) -> dm_env.TimeStep:
        self._ale.reset_game()
        for _ in range(self._random.integers(self._max_noops + 1)):
            self._ale.act(ale_py.Action.NOOP)
            if self._ale.game_over():
                self._ale.reset_game()
        self._ale.getScreenGrayscale(self._screens[1])
        self._screens[0] = self._screens[1]
        self._lives = self._ale.lives()
        self._ended = False
        return dm_env.restart(self._observation())

    def step(self, action) -> dm_env.TimeStep:
        if self._ended:
            return self.reset()
        reward = self._act(self._actions[int(action)])
        if self._clip_rewards:
            reward = min(max(reward, -1), 1)
        lives, previous = self._ale.lives(), self._lives
        self._lives = lives
        over = self._ale.game_over()
        capped = self._ale.getEpisodeFrameNumber() >= self._max_frames
        discount = self._life_loss_discount if lives < previous else 1.0
        self._ended = over or capped
        return dm_env.TimeStep(
            dm_env.StepType.LAST if self._ended else dm_env.StepType.MID,
            np.float32(reward),
            np.float32(0 if over else discount),
            self._observation(),
        )

    def render(self) -> np.ndarray:
        """Returns the screen: uint8 [210, 160, 3], mostly."""
        return self._ale.getScreenRGB()

    def observation_spec(self) -> specs.BoundedArray:
        return specs.BoundedArray((_SIZE, _SIZE), np.uint8, 0, 255, 'frame')

    def action_spec(self) -> specs.DiscreteArray:
        return specs.DiscreteArray(len(self._actions), name='action')

    def reward_spec(self) -> specs.Array:
        return specs.Array((), np.float32, 'reward')

    def discount_spec(self) -> specs.BoundedArray:
        return specs.BoundedArray((), np.float32, 0, 1, 'discount')

    def _act(self, action: ale_py.Action) -> float:
        """Holds `action`, keeps the last two screens, and returns the reward."""
        reward = 0.0
        # The frame before, for where this step has only one.
        self._screens[0] = self._screens[1]
        for frame in range(self._action_repeat):
            reward += self._ale.act(action)
            if frame == self._action_repeat - 2:
                self._ale.getScreenGrayscale(self._screens[0])
            if self._ale.game_over():
                break
        self._ale.getScreenGrayscale(self._screens[1])
        return reward

    def _observation(self) -> np.ndarray:
        image = Image.fromarray(np.maximum(*self._screens))
        return np.asarray(image.resize((_SIZE, _SIZE), Image.Resampling.BILINEAR))


def make(
    game: str, seed: int, *, num_frames: int = 4, **options
) -> frame_stack.FrameStack:
    """Returns `AtariFrames(game, seed, **options)`, stacked: uint8 [84, 84, frames]."""
    return frame_stack.FrameStack(AtariFrames(game, seed, **options), num_frames)


def rom_name(game: str) -> str:
    """Returns ale-py's id of `game`, which may also be written as 'SpaceInvaders'.

    Raises:
        ValueError: if there is no such game.
    """
    wanted = game.replace('_', '').lower()
    for rom in roms.get_all_rom_ids():
        if rom.replace('_', '') == wanted:
            return rom
    raise ValueError(f'game must be one of ale-py, got {game!r}.')
