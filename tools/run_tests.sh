#!/usr/bin/env bash
# All tests in two lanes: what computes (Spark, the unit tests on other Pythons) at low priority,
# while those of real brokers mostly wait.
set -uo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
# A session of its own, so that the end of this script ends all of it.
trap 'rm -f "$log"; kill -- -"$compute" 2>/dev/null' EXIT
setsid nice -n 15 bash -c '
    .venv/bin/pytest -p no:cacheprovider -m "spark and not lab and not ondemand"
    spark=$?
    tools/run_other_pythons.sh
    exit $((spark || $?))
' >"$log" 2>&1 &
compute=$!
.venv/bin/pytest -m "(not spark or lab) and not ondemand"
waits=$?
wait "$compute"
computes=$?
cat "$log"
exit $((waits || computes))
