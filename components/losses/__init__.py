"""Pure functions of tensors, without state."""
