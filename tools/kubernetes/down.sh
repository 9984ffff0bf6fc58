#!/usr/bin/env bash
# Stop what up.sh started, by the pids that it wrote down, and remove what it left on the machine.
#   FOLDER=/tmp/x tools/kubernetes/down.sh
set -u
repository=$(cd "$(dirname "$0")/../.." && pwd)
BIN=${BIN:-${BROKERWIRE_CACHE:-$repository/.cache}/kubernetes/bin}
FOLDER=${FOLDER:-${BROKERWIRE_CACHE:-$repository/.cache}/kubernetes/cluster}
SOCKET=/run/brokerwire-containerd/containerd.sock
export PATH=$BIN:$PATH

stop() {
  local file=$FOLDER/pid/$1
  [ -f "$file" ] || return 0
  kill "$(cat "$file")" 2>/dev/null
  for _ in $(seq 60); do kill -0 "$(cat "$file")" 2>/dev/null || break; sleep 0.25; done
  rm -f "$file"
}

stop kubelet
if [ -S $SOCKET ]; then
  in_cluster() { ctr -a $SOCKET -n k8s.io "$@" 2>/dev/null; }
  for task in $(in_cluster tasks ls -q); do in_cluster tasks kill -s KILL "$task"; done
  sleep 1
  for container in $(in_cluster containers ls -q); do
    in_cluster tasks rm "$container"
    in_cluster containers rm "$container"
  done
fi
# etcd last: an API server that loses etcd first keeps its port for a minute.
for each in containerd controllers scheduler apiserver etcd; do stop $each; done
ip addr del 10.244.255.1/32 dev lo 2>/dev/null
ip link del bwtest0 2>/dev/null
for mounted in $(mount | grep -o "$FOLDER/kubelet[^ ]*\|/run/brokerwire-containerd[^ ]*" | sort -r); do umount "$mounted" 2>/dev/null; done
rm -rf "$FOLDER" /run/brokerwire-containerd
