#!/usr/bin/env bash
# Build a real Kubernetes 1.36 from the Go module proxy, for `make e2e-kubernetes`: API server, controller manager,
# scheduler, kubelet, kubectl, containerd; etcd and the CNI plugins come from Debian. And a Prometheus that discovers
# pods: Debian's is built without. About 18 minutes of CPU and 8 GB of disk.
# The folder is $BROKERWIRE_CACHE/kubernetes, or .cache/kubernetes in the repository; what is built is left alone.
set -euo pipefail

KUBERNETES=1.36.3
CONTAINERD=2.4.2
PROMETHEUS=0.315.0

repository=$(cd "$(dirname "$0")/../.." && pwd)
folder=${BROKERWIRE_CACHE:-$repository/.cache}/kubernetes
mkdir -p "$folder/bin" "$folder/source"
export GOBIN=$folder/bin GOMODCACHE=$folder/modules GOCACHE=$folder/build GOWORK=off CGO_ENABLED=0
export GOFLAGS="-buildvcs=false -p=2 -modcacherw"

missing() { [ ! -x "$GOBIN/$1" ]; }

# From Debian's packages, unpacked and not installed.
from_debian() {
  local package=$1 path=$2 target=$3 unpacked
  unpacked=$(mktemp -d "$folder/$package.XXXXXX")
  download() { (cd "$unpacked" && apt-get -qq -o APT::Sandbox::User="$(id -un)" download "$package"); }
  if ! download 2>/dev/null; then
    # The lists are missing or old.
    if [ "$(id -u)" -eq 0 ]; then apt-get update -qq; else sudo apt-get update -qq; fi
    download
  fi
  dpkg -x "$unpacked/$package"*.deb "$unpacked"
  mv -T "$unpacked/$path" "$target"
  rm -rf "$unpacked"
}
missing etcd && from_debian etcd-server usr/bin/etcd "$GOBIN/etcd"
# What gives a pod its network; without them no pod starts.
[ -d "$folder/cni" ] || from_debian containernetworking-plugins usr/lib/cni "$folder/cni"

programs=(kube-apiserver kubectl kubelet kube-controller-manager kube-scheduler)
source=$folder/source/kubernetes-$KUBERNETES
if [ ! -e "$source/go.mod" ]; then
  GOFLAGS=-modcacherw go mod download k8s.io/kubernetes@v$KUBERNETES
  cp -r "$GOMODCACHE/k8s.io/kubernetes@v$KUBERNETES" "$source.partial"
  chmod -R u+w "$source.partial"
  # In its own repository the libraries lie in a folder; the published modules are the same. Those that are v0.0.0-DATE
  # are of other repositories.
  (cd "$source.partial" && rm -rf vendor staging go.work go.work.sum &&
    sed -i -E "/^\s*k8s\.io\/[a-z-]+ => \.\/staging\//d; s/^(\s*(require )?k8s\.io\/[a-z-]+) v0\.0\.0( |$)/\1 v0.${KUBERNETES#1.}\3/" go.mod)
  mv "$source.partial" "$source"
fi
version="-X k8s.io/component-base/version.gitVersion=v$KUBERNETES -X k8s.io/client-go/pkg/version.gitVersion=v$KUBERNETES"
version+=" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
for program in "${programs[@]}"; do
  missing "$program" || continue
  echo "building $program" >&2
  (cd "$source" && GOFLAGS="-mod=mod $GOFLAGS" nice go build -ldflags "-s -w $version" -o "$GOBIN/$program" "./cmd/$program")
done
for program in containerd containerd-shim-runc-v2 ctr; do
  missing "$program" || continue
  echo "building $program" >&2
  nice go install -ldflags "-s -w" "github.com/containerd/containerd/v2/cmd/$program@v$CONTAINERD"
done
if missing prometheus; then
  echo "building prometheus" >&2
  module=github.com/prometheus/prometheus
  GOFLAGS=-modcacherw go mod download $module@v$PROMETHEUS
  # A copy: its go.mod replaces a module, which `go install` refuses.
  cp -r "$GOMODCACHE/$module@v$PROMETHEUS" "$folder/source/prometheus"
  chmod -R u+w "$folder/source/prometheus"
  # Without the clouds' discoveries and their gigabyte of modules.
  (cd "$folder/source/prometheus" &&
    nice go build -tags remove_all_sd,enable_kubernetes_sd -ldflags "-s -w" -o "$GOBIN/prometheus" ./cmd/prometheus)
fi
# The operators' definitions that the chart's objects are of.
if [ ! -d "$folder/crds" ]; then
  operator=github.com/prometheus-operator/prometheus-operator
  GOFLAGS=-modcacherw go mod download $operator@v0.85.0
  cp -r "$GOMODCACHE/$operator@v0.85.0/example/prometheus-operator-crd" "$folder/crds.partial"
  chmod -R u+w "$folder/crds.partial"
  mv "$folder/crds.partial" "$folder/crds"
fi
