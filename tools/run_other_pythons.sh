#!/usr/bin/env bash
# The unit tests on the other Pythons that the package claims, where such an interpreter is found:
# on the path, or those of pyenv or uv. Which were found is said in any case.
# Without the join's recordings, which take most of the time and depend on no version, and without
# recorded help texts: argparse lays them out differently in each version.
set -uo pipefail
cd "$(dirname "$0")/.."

find_python() {
    local each
    for each in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python \
        "$(uv python find --no-python-downloads "$1" 2>/dev/null)"; do
        # A shim of pyenv may be there for a version that is not chosen.
        if [[ -n $each ]] && "$each" -c '' 2>/dev/null; then
            echo "$each"
            return
        fi
    done
}

status=0
for version in 3.12 3.13; do
    python=$(find_python "$version")
    if [[ -z $python ]]; then
        echo "Python $version: not found, unit tests not run"
        continue
    fi
    venv=.cache/python-$version
    # Debian's interpreters may lack what a venv needs.
    if ! "$python" -m venv --clear "$venv" >/dev/null 2>&1; then
        echo "Python $version: makes no venv, unit tests not run"
        continue
    fi
    "$venv/bin/pip" install --quiet --require-hashes -r requirements/test.txt &&
        "$venv/bin/python" -m pytest -q -p no:cacheprovider tests/unit -m "not spark" \
            --ignore-glob='*/test_join_*' --ignore tests/unit/test_kernel_recordings.py \
            --ignore tests/unit/test_cli_golden.py
    result=$?
    echo "Python $version ($("$python" -V)): exit code $result"
    status=$((status || result))
done
exit "$status"
