#!/usr/bin/env bash
# Put prometheus, promtool, alertmanager, amtool and pushgateway into a cache folder, for the tests of rules/ and of the fleet's metrics.
# From Debian's packages, unpacked and not installed: nothing outside the folder changes.
# The folder is $BROKERWIRE_CACHE/prometheus, or .cache/prometheus in the repository.
set -euo pipefail

cache=${BROKERWIRE_CACHE:-$(cd "$(dirname "$0")/.." && pwd)/.cache}
folder=$cache/prometheus
[ -x "$folder/bin/promtool" ] && [ -x "$folder/bin/pushgateway" ] && exit 0

if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
  echo "this is no Debian-like machine: put promtool 2.42 or later into $folder/bin" >&2
  exit 2
fi
mkdir -p "$cache"
partial=$(mktemp -d "$cache/prometheus.XXXXXX")
trap 'rm -rf "$partial"' EXIT
packages=(prometheus prometheus-alertmanager prometheus-pushgateway)
# A folder of a time when the tests asked for less gets what it lacks.
if [ -x "$folder/bin/promtool" ]; then packages=(prometheus-pushgateway); fi
echo "unpacking ${packages[*]} into $folder" >&2
# As root apt drops its rights for the download, to a user that may not write here.
download() {
  (cd "$partial" &&
    apt-get -qq -o APT::Sandbox::User="$(id -un)" download "${packages[@]}")
}
if ! download 2>/dev/null; then
  # The lists are missing or old.
  if [ "$(id -u)" -eq 0 ]; then apt-get update -qq; else sudo apt-get update -qq; fi
  download
fi
for package in "$partial"/*.deb; do dpkg -x "$package" "$partial/root"; done
mkdir "$partial/bin"
mv "$partial/root/usr/bin/prometheus-pushgateway" "$partial/bin/pushgateway"
if [ -x "$folder/bin/promtool" ]; then
  mv "$partial/bin/pushgateway" "$folder/bin/"
  exit 0
fi
for tool in prometheus promtool amtool; do mv "$partial/root/usr/bin/$tool" "$partial/bin/"; done
mv "$partial/root/usr/bin/prometheus-alertmanager" "$partial/bin/alertmanager"
rm -rf "$partial/root" "$partial"/*.deb
"$partial/bin/promtool" --version >/dev/null
# The folder is complete or absent; whoever was faster has the same in it.
chmod 755 "$partial"
mv -T "$partial" "$folder" 2>/dev/null || [ -x "$folder/bin/pushgateway" ]
