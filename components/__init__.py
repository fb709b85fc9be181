"""Repertory: components."""

if __name__ != 'repertory.components':
    raise ImportError(
        'import repertory.components, not components: the folder is one part of '
        'the package.'
    )
