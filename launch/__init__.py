"""Repertory: launch."""

if __name__ != 'repertory.launch':
    raise ImportError(
        'import repertory.launch, not launch: the folder is one part of the package.'
    )
