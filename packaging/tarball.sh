#!/bin/sh
# A tarball with an install script: for any distribution, and for users without root.
#
#   packaging/tarball.sh NEAP FOLDER     prints the file it made
set -eu
here=$(cd "$(dirname "$0")" && pwd)
neap=$1 out=$2
. "$here/facts.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name=neap-$version-$arch-linux
"$here/stage.sh" "$neap" "$work/$name"
install -m 755 "$here/install.sh" "$work/$name/install.sh"
install -m 644 "$here/../README.md" "$here/../LICENSE-MIT" "$here/../LICENSE-APACHE" "$work/$name"
mkdir -p "$out"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$date" -C "$work" -c "$name" | gzip -9n >"$out/$name.tar.gz"
echo "$out/$name.tar.gz"
