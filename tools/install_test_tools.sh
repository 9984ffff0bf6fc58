#!/usr/bin/env bash
# Install from Debian what the tests need and this machine lacks. What is there is left alone.
set -euo pipefail

declare -A package_of=(
  [javac]=openjdk-17-jdk-headless [keytool]=openjdk-17-jdk-headless [mvn]=maven
  [gcc]=gcc [ss]=iproute2 [ip]=iproute2 [unshare]=util-linux [setpriv]=util-linux
  [chromium]=chromium [strace]=strace [systemd-analyze]=systemd [zsh]=zsh [fish]=fish
)
missing=()
for tool in "${!package_of[@]}"; do
  command -v "$tool" >/dev/null || missing+=("${package_of[$tool]}")
done
if command -v javac >/dev/null; then
  version=$(javac -version 2>&1 | sed 's/^javac \([0-9]*\).*/\1/')
  [ "$version" -ge 17 ] || missing+=(openjdk-17-jdk-headless)
fi
[ -e /usr/include/stdio.h ] || missing+=(libc6-dev)
[ ${#missing[@]} -eq 0 ] && exit 0

[[ " ${missing[*]} " == *" chromium "* ]] && missing+=(fonts-dejavu-core)
mapfile -t packages < <(printf '%s\n' "${missing[@]}" | sort -u)
echo "installing ${packages[*]}" >&2
if ! command -v apt-get >/dev/null; then
  echo "this is no Debian-like machine: install these by your own means, then run again" >&2
  exit 2
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "needs root: run  apt-get install -y --no-install-recommends ${packages[*]}" >&2
    exit 2
  fi
  sudo=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
