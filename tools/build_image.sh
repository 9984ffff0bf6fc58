#!/usr/bin/env bash
# Build the image of the agent, or of the rollups, with podman, buildah or docker, whichever is there.
#
#   tools/build_image.sh [--rollups] [--tag brokerwire:0.1.0] [--base python-base@sha256:...] [--tool docker]
#
# Wheels come through pip with the hashes of requirements/, for the image's platform whatever the host's; PySpark
# is no wheel, so the rollups need Linux and Python 3.11, and Maven for the jars. Without --base, podman and buildah make a base of Debian packages themselves where mmdebstrap is
# installed (a machine without registry); docker takes Debian's image.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' exporter/__init__.py)
name=brokerwire tag='' base='' tool=''
while [ $# -gt 0 ]; do
  case $1 in
    --rollups) name=brokerwire-rollups; shift; continue ;;
    --tag) tag=$2 ;;
    --base) base=$2 ;;
    --tool) tool=$2 ;;
    *) echo "usage: tools/build_image.sh [--rollups] [--tag NAME:TAG] [--base IMAGE] [--tool podman|buildah|docker]" >&2; exit 2 ;;
  esac
  shift 2
done
tag=${tag:-$name:$version}
if [ -z "$tool" ]; then
  for each in podman buildah docker; do command -v $each >/dev/null && tool=$each && break; done
fi
[ -n "$tool" ] || { echo "needs podman, buildah or docker" >&2; exit 2; }
limit=$(ulimit -Hn)
if [ "$tool" != docker ] && [ -z "${CONTAINERS_CONF:-}" ] && [ "$limit" != unlimited ] && [ "$limit" -lt 1048576 ]; then
  export CONTAINERS_CONF=$PWD/image/small-machine.conf
fi
python=$(command -v python3.11 || command -v python3)
architecture=$(uname -m)
cache=${BROKERWIRE_CACHE:-$PWD/.cache}

# 1. The packages, as pip unpacks them; nothing of the host's own Python gets in.
build=image/build
rm -rf "$build" && mkdir -p "$build/site"
pip=$cache/image-pip
[ -x "$pip/bin/pip" ] || { "$python" -m venv "$pip" && "$pip/bin/pip" install --quiet --require-hashes -r image/pip.txt; }
if [ $name = brokerwire ]; then
  "$pip/bin/pip" install --quiet --require-hashes --no-compile --only-binary :all: --target "$build/site" \
    --python-version 3.11 --implementation cp --abi cp311 --abi abi3 --abi none \
    --platform "manylinux_2_34_$architecture" --platform "manylinux_2_28_$architecture" \
    --platform "manylinux_2_17_$architecture" --platform "manylinux2014_$architecture" \
    --platform "manylinux_2_12_$architecture" --platform "manylinux2010_$architecture" \
    -r requirements/runtime.txt
  containerfile=image/exporter.Containerfile packages=python3,ca-certificates base_name=brokerwire-base
else
  "$pip/bin/pip" install --quiet --require-hashes --no-compile --target "$build/site" -r requirements/spark.txt
  containerfile=image/rollups.Containerfile packages=python3,openjdk-17-jre-headless,ca-certificates
  base_name=brokerwire-rollups-base
fi
"$pip/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir "$build" .
"$python" -m zipfile -e "$build"/brokerwire-*.whl "$build/site"
rm "$build"/brokerwire-*.whl
if [ $name = brokerwire-rollups ]; then
  # Where the rollups look for their jars, by a name that is made of their digests.
  jars=$PWD/$build/jars
  (cd "$build/site" && BROKERWIRE_CACHE=$jars "$python" -c "from spark_rollups.jars import jar_paths; jar_paths()")
  find "$build/site" -name __pycache__ -prune -exec rm -rf {} +
fi

# 2. The base: Debian's interpreter.
if [ -z "$base" ] && [ "$tool" != docker ] && command -v mmdebstrap >/dev/null; then
  base=localhost/$base_name:bookworm
  if ! $tool inspect --type image "$base" >/dev/null 2>&1; then
    echo "making $base of Debian packages" >&2
    mkdir -p "$cache"
    root=$(mktemp "$cache/base.XXXXXX.tar")
    trap 'rm -f "$root"' EXIT
    mmdebstrap --quiet --variant=minbase --include="$packages" bookworm "$root"
    if [ "$tool" = podman ]; then podman import --quiet "$root" "$base" >/dev/null
    else container=$(buildah from scratch); buildah add --quiet "$container" "$root" / >/dev/null; buildah commit --quiet --rm "$container" "$base" >/dev/null; fi
  fi
fi

# 3. The image. Times are those of the last commit, so that a commit is one image.
epoch=$(git log -1 --format=%ct 2>/dev/null || echo 0)
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
arguments=(--file "$containerfile" --tag "$tag" --build-arg "VERSION=$version" --build-arg "REVISION=$revision" --build-arg "SOURCE_DATE_EPOCH=$epoch")
[ -z "$base" ] || arguments+=(--build-arg "BASE=$base")
case $tool in
  docker) SOURCE_DATE_EPOCH=$epoch docker build "${arguments[@]}" image ;;
  podman) podman build --quiet --format oci --layers=false --timestamp "$epoch" "${arguments[@]}" image ;;
  buildah) buildah build --quiet --format oci --layers=false --timestamp "$epoch" "${arguments[@]}" image ;;
esac
# What to pin: the base by its digest, so that the next build is on the same (and the same image, where the base has Python: docs/install.md); the image by the digest that the registry
# answers with when it is pushed, which is over compressed layers and known to nobody before.
used=${base:-debian:bookworm-slim}
case $tool in
  buildah) digest='{{.FromImageDigest}}' ;;
  *) digest='{{.Digest}}' ;;
esac
if [ "$tool" = docker ]; then
  found=$(docker image inspect --format '{{join .RepoDigests " "}}' "$used" 2>/dev/null || true)
  identity=$(docker image inspect --format '{{.Id}}' "$tag")
else
  found=$($tool inspect --type image --format "$digest" "$used" 2>/dev/null || true)
  identity=$($tool images --no-trunc --quiet "$tag")
fi
echo "built $tag $identity on $used ${found:-(no digest)}; pushing it prints the digest for the chart" >&2
