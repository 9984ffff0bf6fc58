#!/usr/bin/env bash
# Build what a release publishes, without publishing anything: wheels and sdists of both Python distributions, the
# chart, and their checksums.
#
#   tools/release.sh [--to dist] [--tag v0.2.0] [--no-chart]
#
# With --tag the tag must be the version and CHANGELOG.md must have a section for it. Times in wheels and sdists are those of
# the last commit: the same commit gives the same files (not so the chart: helm writes the time of packaging).
set -euo pipefail
cd "$(dirname "$0")/.."

to=dist tag='' chart=yes
while [ $# -gt 0 ]; do
  case $1 in
    --to) to=$2; shift 2 ;;
    --tag) tag=$2; shift 2 ;;
    --no-chart) chart=''; shift ;;
    *) echo "usage: tools/release.sh [--to FOLDER] [--tag vVERSION] [--no-chart]" >&2; exit 2 ;;
  esac
done
python=$PWD/.venv/bin/python
[ -x "$python" ] || { echo "run make setup first" >&2; exit 2; }
version=$("$python" tools/version.py)
if [ -n "$tag" ]; then
  [ "$tag" = "v$version" ] || { echo "the tag is $tag, but exporter/__init__.py has $version" >&2; exit 2; }
  grep -qF "## [$version]" CHANGELOG.md || { echo "CHANGELOG.md has no section ## [$version]" >&2; exit 2; }
fi

mkdir -p "$to"
to=$(cd "$to" && pwd)
rm -f "$to"/brokerwire* "$to"/SHA256SUMS
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 315532800)
export SOURCE_DATE_EPOCH
"$python" -m hatchling build -d "$to" >&2
(cd clients/python && "$python" -m hatchling build -d "$to" >&2)
if [ -n "$chart" ]; then
  helm=${BROKERWIRE_CACHE:-.cache}/helm/current/helm
  [ -x "$helm" ] || { echo "run make helm first, or give --no-chart" >&2; exit 2; }
  "$helm" package helm/brokerwire --destination "$to" >&2
fi
(cd "$to" && sha256sum brokerwire* >SHA256SUMS)
cat "$to/SHA256SUMS"
