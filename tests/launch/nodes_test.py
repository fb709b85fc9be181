"""What a node does before its own work."""

import subprocess
import sys

_CODE = """
import gc
import launchpad as lp
from launchpad import context
from repertory.agents import apex_dqn
from repertory.launch import experiment, nodes
context.set_context(context.LaunchContext())
context.get_context().initialize(lp.LaunchType.LOCAL_MULTI_PROCESSING, None, None)
config = experiment.ExperimentConfig(agent=apex_dqn.Config(), environment='catch')
nodes.configure('actor', nodes.Plan(config, experiment.Topology(), '.', False))
import tensorflow as tf
assert tf.config.threading.get_intra_op_parallelism_threads() == 1
assert gc.isenabled() and gc.get_freeze_count() > 100_000, gc.get_freeze_count()
"""


def test_the_collector_leaves_what_was_imported_alone_and_goes_on():
    done = subprocess.run([sys.executable, '-c', _CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
