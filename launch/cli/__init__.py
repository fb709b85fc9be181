"""The `repertory` command; importing it imports no TensorFlow."""
