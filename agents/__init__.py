"""Repertory: agents."""

if __name__ != 'repertory.agents':
    raise ImportError(
        'import repertory.agents, not agents: the folder is one part of the package.'
    )
