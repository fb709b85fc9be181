"""The notebook runs from top to bottom."""

import pathlib
import re

import nbclient
import nbformat
import pytest

_PATH = pathlib.Path(__file__).resolve().parents[2] / 'examples' / 'first_steps.ipynb'


@pytest.mark.ci_slow
@pytest.mark.timeout(300)
def test_the_notebook_runs_and_its_policy_catches():
    notebook = nbformat.read(_PATH, as_version=4)
    for cell in notebook.cells:
        assert not cell.get('outputs'), 'save it without outputs'
    nbclient.NotebookClient(notebook, timeout=250, kernel_name='python3').execute()
    outputs = [output for cell in notebook.cells for output in cell.get('outputs', [])]
    text = ''.join(output.get('text', '') for output in outputs)
    mean = float(re.search(r'over 50 episodes: (-?[\d.]+)', text)[1])
    assert mean >= 0.8
    assert sum('image/png' in output.get('data', {}) for output in outputs) == 2
    # What libraries chatter about goes to the run's logs.
    assert not [output for output in outputs if output.get('name') == 'stderr']
