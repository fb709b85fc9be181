#!/bin/sh
# Makes build/peer-sb3, a virtual environment with Stable-Baselines3. Safe to run again.
set -eu
cd "$(dirname "$0")/../../.."
lock=benchmarks/peers/sb3/requirements.txt
peer=build/peer-sb3
uv=.venv/bin/uv
if [ -f "$peer/.ready" ] && [ ! "$lock" -nt "$peer/.ready" ]; then exit 0; fi
[ -x "$uv" ] || { echo "run make setup first: $uv is missing." >&2; exit 1; }
"$uv" venv --quiet --clear --seed --python .venv/bin/python "$peer"
# By pip, which can be told of a build of torch for CPUs alone.
"$peer/bin/python" -m pip install --quiet -r "$lock"
touch "$peer/.ready"
