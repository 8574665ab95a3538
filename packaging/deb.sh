#!/bin/sh
# A Debian package: neap, its manual pages and completions, and the group whose members may open the userfaultfd device.
#
#   packaging/deb.sh NEAP FOLDER     prints the file it made
#
# NEAP_MAINTAINER: "NAME <ADDRESS>" of who builds it. Without, lintian objects to the address and to nothing else.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
neap=$1 out=$2
. "$here/facts.sh"
case $arch in x86_64) debian=amd64 ;; aarch64) debian=arm64 ;; esac
revision=$version-1
maintainer=${NEAP_MAINTAINER:-the neap authors <neap@localhost.localdomain>}
depends=
if LC_ALL=C readelf -lW "$neap" | grep -q INTERP; then
    # Not the neap of a release: it needs the library of the machine it was built on.
    depends="Depends: libc6 (>= $(ldd --version | sed -n '1s/.* //p'))"
fi

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
umask 022
"$here/stage.sh" "$neap" "$root/usr"
mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
gzip -9n "$root"/usr/share/man/man1/*
install -D -m 644 "$here/deb/neap.udev" "$root/usr/lib/udev/rules.d/60-neap.rules"
install -D -m 644 "$here/deb/neap.sysusers" "$root/usr/lib/sysusers.d/neap.conf"
install -D -m 644 "$here/deb/neap.default" "$root/etc/default/neap"
install -D -m 644 "$here/deb/copyright" "$root/usr/share/doc/neap/copyright"
install -D -m 644 "$here/deb/overrides" "$root/usr/share/lintian/overrides/neap"
install -m 644 "$here/../README.md" "$root/usr/share/doc/neap/README.md"
gzip -9n <"$here/../CHANGELOG.md" >"$root/usr/share/doc/neap/changelog.gz"
gzip -9n >"$root/usr/share/doc/neap/changelog.Debian.gz" <<CHANGELOG
neap ($revision) unstable; urgency=medium

  * Built from the sources of $version. See changelog.gz.

 -- $maintainer  $(LC_ALL=C date -u -d "@$date" '+%a, %d %b %Y %H:%M:%S +0000')
CHANGELOG
install -D -m 755 "$here/deb/postinst" "$root/DEBIAN/postinst"
echo /etc/default/neap >"$root/DEBIAN/conffiles"
cat >"$root/DEBIAN/control" <<CONTROL
Package: neap
Version: $revision
Architecture: $debian
Maintainer: $maintainer
Installed-Size: $(du -ks --exclude=DEBIAN "$root" | cut -f1)
${depends:+$depends
}Section: utils
Priority: optional
Description: run programs in less memory than they want
 neap runs a program, and every process it starts, within a memory limit. Pages
 that have not been touched for a while are compressed, and go to a swap file
 when even the compressed ones must shrink. It works in user space, without a
 change to the program, the kernel or the machine.
CONTROL
(cd "$root" && find usr -type f -exec md5sum {} + | LC_ALL=C sort -k2) >"$root/DEBIAN/md5sums"
chmod 644 "$root/DEBIAN/control" "$root/DEBIAN/conffiles" "$root/DEBIAN/md5sums"
mkdir -p "$out"
SOURCE_DATE_EPOCH=$date dpkg-deb --root-owner-group -Zxz --build "$root" "$out/neap_${revision}_$debian.deb" >&2
echo "$out/neap_${revision}_$debian.deb"
