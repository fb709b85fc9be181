import pytest

from repertory.launch import keeping, restarts


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ('fields', 'error', 'message'),
    [
        ({'max_restarts': 0}, ValueError, 'max_restarts must be >= 1, got 0; leave'),
        ({'max_restarts': 1.5}, TypeError, 'max_restarts must be an integer, got 1.5'),
        ({'window_seconds': 0}, ValueError, 'window_seconds must be > 0, got 0'),
        ({'backoff_seconds': -1}, ValueError, 'backoff_seconds must be >= 0, got -1'),
    ],
)
def test_a_policy_that_cannot_work_is_refused(fields, error, message):
    with pytest.raises(error, match=message):
        restarts.RestartPolicy(**fields)


def test_restarts_come_later_each_time_and_are_given_back_with_time():
    clock = Clock()
    budget = restarts.RestartBudget(
        restarts.RestartPolicy(max_restarts=3, window_seconds=100, backoff_seconds=2),
        clock,
    )
    assert [budget.spend() for _ in range(4)] == [2, 4, 8, None]
    clock.now = 101
    assert [budget.spend() for _ in range(4)] == [2, 4, 8, None]


def test_the_wait_before_a_restart_has_a_bound():
    policy = restarts.RestartPolicy(max_restarts=20, window_seconds=1e9)
    budget = restarts.RestartBudget(policy, Clock())
    assert [budget.spend() for _ in range(20)][-1] == 30.0


class Fake:
    """A node whose outcomes are given."""

    name, roles, pid = 'actor_0', ['actor_0'], 7

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.starts = 0
        self.asked = False

    def start(self):
        self.starts += 1
        self.outcome = self.outcomes.pop(0)

    def poll(self):
        return '' if self.asked and self.outcome is None else self.outcome

    def terminate(self):
        self.asked = True

    def kill(self):
        self.asked = True
        return True


def keep(fake, clock, is_over=lambda: False, **policy):
    reports = []
    node = keeping.KeptNode(
        fake,
        restarts.RestartPolicy(**policy),
        is_over,
        lambda *report: reports.append(report),
        clock,
    )
    node.start()
    return node, reports


def test_a_failed_node_starts_again_after_its_backoff():
    clock, fake = Clock(), Fake('was killed', None)
    node, reports = keep(fake, clock, backoff_seconds=5)
    assert node.poll() is None and fake.starts == 1
    clock.now = 4.9
    assert node.poll() is None and fake.starts == 1
    clock.now = 5.1
    assert node.poll() is None and fake.starts == 2
    assert reports == [
        ('actor_0', 'was killed', 'starts again in 5 s, restart 1 of 5 within 300 s')
    ]


def test_a_node_that_fails_too_often_fails():
    clock, fake = Clock(), Fake('one', 'two', 'three')
    node, reports = keep(fake, clock, max_restarts=2, backoff_seconds=0)
    outcomes = []
    for clock.now in range(5):
        outcomes.append(node.poll())
    assert outcomes[:2] == [None, None]
    assert 'three' in outcomes and fake.starts == 3
    assert reports[-1] == ('actor_0', 'three', 'it fails too often: the run ends')


def test_nodes_of_a_kind_start_again_together_on_one_budget():
    clock, others, reports = Clock(), [], []
    fakes = Fake('was killed', None, None), Fake(None, 'raised', None)
    policy = restarts.TogetherPolicy(max_restarts=2, backoff_seconds=1)
    nodes = [
        keeping.KeptNode(
            fake,
            policy,
            lambda: False,
            lambda *report: reports.append(report),
            clock,
            others,
        )
        for fake in fakes
    ]
    for node in nodes:
        node.start()

    def poll_until(now):
        clock.now = now
        return [node.poll() for node in nodes for _ in range(2)]

    poll_until(0.5)
    assert fakes[1].asked and [fake.starts for fake in fakes] == [1, 1]
    fakes[1].outcome = ''  # It is gone.
    poll_until(1.6)  # Now the second one fails as well.
    assert [fake.starts for fake in fakes] == [2, 2]
    fakes[0].outcome = ''
    poll_until(5)
    assert [fake.starts for fake in fakes] == [3, 3]
    assert [report[1] for report in reports] == ['was killed', 'raised']
    fakes[0].outcome = 'again'
    assert 'again' in poll_until(6)


def test_when_the_program_ends_one_of_a_group_starts_again_alone():
    ends, clock, others = [], Clock(), []
    fakes = Fake(None), Fake('was killed', None)
    nodes = [
        keeping.KeptNode(
            fake,
            restarts.TogetherPolicy(backoff_seconds=0),
            lambda: False,
            lambda *report: None,
            clock,
            others,
            lambda: bool(ends),
        )
        for fake in fakes
    ]
    for node in nodes:
        node.start()
    ends.append(True)
    for clock.now in 1, 2:
        assert [node.poll() for node in nodes] == [None, None]
    assert not fakes[0].asked and [fake.starts for fake in fakes] == [1, 2]


def test_a_node_that_ends_well_stays_ended():
    fake = Fake('')
    node, reports = keep(fake, Clock())
    assert node.poll() == '' and fake.starts == 1 and not reports


@pytest.mark.parametrize('ask', ['terminate', 'kill'])
def test_a_node_that_is_asked_to_stop_is_not_started_again(ask):
    fake = Fake('was killed', None)
    node, _ = keep(fake, Clock())
    assert node.poll() is None
    getattr(node, ask)()
    assert node.poll() == '' and fake.starts == 1


def test_when_the_program_is_over_nothing_starts_again():
    over = []
    fake = Fake('was killed')
    node, reports = keep(fake, Clock(), is_over=lambda: bool(over))
    over.append(True)
    assert node.poll() == 'was killed' and not reports


def test_one_of_several_learners_is_not_restarted_alone():
    alone = {'learner': restarts.RestartPolicy()}
    with pytest.raises(ValueError, match='restarts must have a TogetherPolicy for'):
        restarts.check(alone, 'processes', {'learner': 2})
    restarts.check(alone, 'processes', {'learner': 1})
    together = {'learner': restarts.TogetherPolicy()}
    restarts.check(together, 'processes', {'learner': 2})
