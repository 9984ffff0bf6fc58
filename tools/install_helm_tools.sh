#!/usr/bin/env bash
# Build helm, helm-unittest, helm-docs and kubeconform into a cache folder, for the tests of helm/.
# Versions are pinned in tools/helm_tools/go.mod, checksums of every module in its go.sum.
# The folder is $BROKERWIRE_CACHE/helm, or .cache/helm in the repository; what is built is left alone.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${BROKERWIRE_CACHE:-$(dirname "$here")/.cache}
modules=$here/helm_tools
mark=$(cat "$modules/go.mod" "$modules/go.sum" "$0" | sha256sum | cut -c1-16)
folder=$cache/helm/$mark
if [ -x "$folder/helm" ]; then
  ln -sfn "$mark" "$cache/helm/current"
  exit 0
fi

if ! command -v go >/dev/null; then
  echo "needs Go 1.26 or later to build helm, or put helm, helm-unittest, helm-docs and kubeconform into $folder" >&2
  exit 2
fi
mkdir -p "$cache/helm"
partial=$(mktemp -d "$cache/helm/partial.XXXXXX")
trap 'chmod -R u+w "$partial"; rm -rf "$partial"' EXIT
echo "building helm and its tools into $folder: about 5 minutes of CPU" >&2

# Build caches of our own: nothing outside the folder changes, and no gigabyte stays.
export GOCACHE=$partial/build GOMODCACHE=${BROKERWIRE_GOMODCACHE:-$partial/modules} GOWORK=off CGO_ENABLED=0
export GOFLAGS="-mod=readonly -buildvcs=false -trimpath -modcacherw"
version=$(cd "$modules" && go list -m -f '{{.Version}}' helm.sh/helm/v3)
# As helm's own Makefile does it: what `helm template` takes for the cluster's version by itself.
minor=$(cd "$modules" && go list -m -f '{{.Version}}' k8s.io/client-go | cut -d. -f2)
helm=helm.sh/helm/v3
flags="-s -w -X $helm/internal/version.version=$version"
for package in pkg/lint/rules pkg/chartutil; do
  flags+=" -X $helm/$package.k8sVersionMajor=1 -X $helm/$package.k8sVersionMinor=$minor"
done
if ! (cd "$modules" && nice -n 10 go build -ldflags "$flags" -o "$partial/bin/" tool) 2>"$partial/log"; then
  grep -v '^go: downloading' "$partial/log" >&2
  exit 1
fi
"$partial/bin/helm" version --short >/dev/null
mv -T "$partial/bin" "$folder" 2>/dev/null || [ -x "$folder/helm" ]
ln -sfn "$mark" "$cache/helm/current"
