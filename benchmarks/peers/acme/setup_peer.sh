#!/bin/sh
# Makes build/peer-acme, a virtual environment with dm-acme 0.4.0, and this checkout
# linked into it so that both sides step the same environment. Safe to run again.
set -eu
cd "$(dirname "$0")/../../.."
lock=benchmarks/peers/acme/requirements.txt
peer=build/peer-acme
python=$peer/bin/python
uv=.venv/bin/uv
if [ -f "$peer/.ready" ] && [ ! "$lock" -nt "$peer/.ready" ]; then exit 0; fi
[ -x "$uv" ] || { echo "run make setup first: $uv is missing." >&2; exit 1; }
"$uv" venv --quiet --clear --python .venv/bin/python "$peer"
install() {
  "$uv" pip install --quiet --python "$python" --no-deps --no-build-isolation "$@"
}
# First what builds the rest: some of it comes as source.
awk '/^[a-z]/ { on = /^(setuptools|wheel)==/ } on' "$lock" > "$peer/first.txt"
install --require-hashes -r "$peer/first.txt"
install --require-hashes -r "$lock"
install -e .
touch "$peer/.ready"
