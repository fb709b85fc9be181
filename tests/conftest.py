"""What every test runs under."""

from __future__ import annotations

import os

# Before TensorFlow is first imported, here or in a child process.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
