"""`repertory sweep AGENT`: one run for each setting and seed, then a table."""

from __future__ import annotations

import collections
import itertools
import json
import math
import pathlib
import random
from collections.abc import Sequence
from typing import Annotated

import tyro

from repertory.launch import records, run_folder
from repertory.launch.cli import calling, names, request, trials

_Values = tyro.conf.UseAppendAction[tuple[tuple[str, ...], ...]]


def sweep(
    agent: tyro.conf.Positional[str],
    vary: Annotated[_Values, tyro.conf.arg(metavar='FIELD VALUE [VALUE ...]')] = (),
    seeds: tuple[int, ...] = (0,),
    samples: int | None = None,
    parallel: int = 1,
    output: Annotated[pathlib.Path, tyro.conf.arg(aliases=['-o'])] = pathlib.Path(
        'sweep'
    ),
    resume: bool = False,
) -> tuple[list[trials.Trial], int, pathlib.Path, bool]:
    """Trains with several settings and seeds; ends with a table and a picture.

    Args:
        agent: as `repertory agents` lists them; its flags, such as --env, follow.
        vary: a setting and its values; may be given again for another. In a random
            sweep also LOW:HIGH, of which logarithms are drawn evenly.
        seeds: of each setting.
        samples: draws so many settings at random; by default all combinations.
        parallel: runs at once.
        output: a new folder for the runs, sweep.csv and sweep.png.
        resume: goes on in `output` with the runs that are missing, were interrupted or
            failed; the other arguments must be those of before.
    """
    names.check_agent(agent)
    choices = {}
    for field, *values in vary:
        if not values:
            raise ValueError(f'vary must name values of {field}, got none.')
        choices[field.replace('-', '_')] = values
    if samples is None:
        settings = [
            dict(zip(choices, values))
            for values in itertools.product(*choices.values())
        ]
    else:
        draw = random.Random(min(seeds, default=0))
        settings = [
            {field: _draw(draw, values) for field, values in choices.items()}
            for _ in range(samples)
        ]
    folders = [trials.folder_name(setting, s) for setting in settings for s in seeds]
    twice = [name for name, n in collections.Counter(folders).items() if n > 1]
    if twice:
        raise ValueError(
            f'settings and seeds must differ, got {twice[0]} twice; name each value '
            'once, or draw fewer samples or from a range, as 1e-4:1e-2.'
        )
    made = [
        trials.Trial(agent, setting, seed, output / trials.folder_name(setting, seed))
        for setting in settings
        for seed in seeds
    ]
    if not made:
        raise ValueError('seeds and samples must give a run at least, got none.')
    if parallel < 1:
        raise ValueError(f'parallel must be >= 1, got {parallel}.')
    return made, parallel, output, resume


def _draw(draw: random.Random, values: Sequence[str]) -> str:
    value = draw.choice(values)
    low, colon, high = value.partition(':')
    if not colon:
        return value
    try:
        bounds = float(low), float(high)
    except ValueError:
        bounds = (0.0, 0.0)
    if not 0 < bounds[0] < bounds[1]:
        raise ValueError(
            f'vary must have 0 < LOW < HIGH in a range LOW:HIGH, got {value!r}.'
        )
    drawn = math.exp(draw.uniform(*map(math.log, bounds)))
    return str(round(drawn)) if low.isdigit() and high.isdigit() else f'{drawn:.4g}'


def _check_same(trial: trials.Trial, asked: request.Request) -> None:
    """Refuses to go on with other settings than the run was begun with."""
    folder = run_folder.RunFolder(trial.run_dir)
    in_one = json.loads(folder.run.read_text())['starts'][-1]['one_thread']
    differences = {}
    if in_one != (asked.launch == 'sync'):
        differences['launch'] = 'sync' if in_one else 'a program', asked.launch
    for path, now in (
        (folder.config, asked.experiment),
        (folder.topology, asked.topology),
    ):
        if path.exists():
            encoded = json.loads(json.dumps(records.encode(now)))
            before = json.loads(path.read_text())
            differences.update(records.differences(before, encoded))
    for name, (old, new) in differences.items():
        raise ValueError(
            f'{name} must be {old!r} to resume {trial.run_dir}, as it was begun, got '
            f'{new!r}; use the old value, or another --output.'
        )


def main(arguments: Sequence[str]) -> int:
    (made, parallel, output, resume), flags = calling.call(
        sweep,
        'repertory sweep',
        arguments,
        [
            'repertory sweep apex-dqn --env catch --vary n_step 1 3 --seeds 0 1 2 '
            '--launch sync --parallel 2',
            'repertory sweep d4pg --env gym:Pendulum-v1 --preset pendulum --samples 8 '
            '--vary critic_learning_rate 1e-4:1e-2 --vary n_step 1 3 5',
        ],
        others_allowed=True,
    )
    for trial in made:  # A wrong flag is found before the first run.
        asked = request.parse(trial.arguments(flags))
        asked.experiment.agent.check_spec(asked.experiment.environment_spec())
        if resume and trial.started:
            _check_same(trial, asked)
    if not resume and output.exists() and any(output.iterdir()):
        raise FileExistsError(
            f'output must be a new or empty folder, got {output}, which is not empty; '
            'name another, or go on with what is in it by --resume.'
        )
    output.mkdir(parents=True, exist_ok=True)
    return trials.run_all(made, flags, parallel, output)
