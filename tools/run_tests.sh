#!/usr/bin/env bash
# All tests in two lanes: Spark's compute, at low priority, while those of real brokers mostly wait.
set -uo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"; kill "$compute" 2>/dev/null' EXIT
nice -n 15 .venv/bin/pytest -p no:cacheprovider -m "spark and not lab and not ondemand" >"$log" 2>&1 &
compute=$!
.venv/bin/pytest -m "(not spark or lab) and not ondemand"
waits=$?
wait "$compute"
computes=$?
cat "$log"
exit $((waits || computes))
