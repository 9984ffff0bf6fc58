#!/usr/bin/env bash
# All tests in two lanes side by side: those of real brokers and of the image, which mostly wait; and
# what computes: Spark, the unit tests on other Pythons, and all the others, in a network of their
# own (where that takes no more rights than there are), since each lane's agents look at a whole one.
set -uo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
# A session of its own, so that the end of this script ends all of it.
trap 'rm -f "$log"; kill -- -"$compute" 2>/dev/null' EXIT
setsid bash -c '
    nice -n 15 .venv/bin/pytest -p no:cacheprovider -m "spark and not lab and not ondemand"
    spark=$?
    nice -n 15 tools/run_other_pythons.sh
    pythons=$?
    own=()
    unshare --net true 2>/dev/null &&
        own=(unshare --net bash -c "ip link set lo up && exec \"\$@\"" bash)
    "${own[@]}" .venv/bin/pytest -p no:cacheprovider \
        -m "not spark and not lab and not container and not ondemand"
    exit $((spark || pythons || $?))
' >"$log" 2>&1 &
compute=$!
.venv/bin/pytest -m "(lab or container) and not ondemand"
waits=$?
wait "$compute"
computes=$?
cat "$log"
exit $((waits || computes))
