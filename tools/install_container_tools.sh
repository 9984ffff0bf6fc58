#!/usr/bin/env bash
# Install from Debian what builds and runs the image here: podman, buildah, runc, mmdebstrap.
set -euo pipefail

command -v podman >/dev/null && command -v buildah >/dev/null && command -v runc >/dev/null &&
  command -v iptables >/dev/null && command -v mmdebstrap >/dev/null && exit 0
packages=(podman buildah runc conmon netavark aardvark-dns uidmap catatonit iptables nftables mmdebstrap golang-github-containers-common)
echo "installing ${packages[*]}" >&2
if ! command -v apt-get >/dev/null; then
  echo "this is no Debian-like machine: install these by your own means, then run again" >&2
  exit 2
fi
sudo=()
[ "$(id -u)" -eq 0 ] || sudo=(sudo)
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
