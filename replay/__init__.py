"""Repertory: replay."""

if __name__ != 'repertory.replay':
    raise ImportError(
        'import repertory.replay, not replay: the folder is one part of the package.'
    )
