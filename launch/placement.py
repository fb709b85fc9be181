"""Where Ray is to place the nodes of a program; nothing here imports Ray."""

from __future__ import annotations

import dataclasses

from repertory.launch import checks


@dataclasses.dataclass(frozen=True, kw_only=True)
class RayConfig:
    """A Ray cluster, and what the processes of each group need of it."""

    address: str | None = None
    """Of the cluster, such as `auto` on one of its machines; None starts
    one on this machine alone, on its loopback address."""

    resources: tuple[str, ...] = ()
    """What each process of a group needs, such as `learner:GPU=1` or
    `actor:CPU=2`, or any resource that a machine was started with. The
    default is one CPU, and none for the coordinator, which runs where
    the launcher does."""

    place_seconds: float = 120.0
    """Seconds until a program that cannot be placed is given up."""

    working_dir: str | None = None
    """A folder of code that is sent to each machine; None where all have it."""

    def __post_init__(self) -> None:
        checks.check_above(self.place_seconds, 0, 'ray.place_seconds')
        self.of_group('')

    def of_group(self, group: str) -> dict[str, float]:
        """Returns the resources that each process of `group` needs, by name.

        Raises:
            ValueError: if one is not given as GROUP:NAME=NUMBER.
        """
        needed = {'CPU': 0.0 if group == 'coordinator' else 1.0}
        for text in self.resources:
            wanted, _, rest = text.partition(':')
            name, _, number = rest.partition('=')
            try:
                amount = float(number)
            except ValueError:
                amount = -1.0
            if not (wanted and name and amount >= 0):
                raise ValueError(
                    'ray.resources must be of the form GROUP:NAME=NUMBER, got '
                    f'{text!r}; for example learner:GPU=1.'
                )
            if wanted == group:
                needed[name] = amount
        return needed
