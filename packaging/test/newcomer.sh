#!/bin/sh
# A new user in a root that has this machine's /usr and nothing else: installs the wheel into a fresh environment, asks doctor, and runs a
# job over its limit. As root, in namespaces of its own. 77: it cannot be built here.
#
#   packaging/test/newcomer.sh WHEEL
set -eu
wheel=$(realpath "$1")
if [ "${2:-}" != inside ]; then
    [ "$(id -u)" = 0 ] || exit 77
    [ -c /dev/userfaultfd ] || exit 77
    /usr/bin/python3 -c 'import ensurepip, venv' || exit 77
    root=$(mktemp -d)
    trap 'rmdir "$root"' EXIT
    unshare --mount --pid --fork sh "$0" "$wheel" inside "$root"
    exit
fi

root=$3
mount -t tmpfs -o mode=755 none "$root"
cd "$root"
mkdir usr proc dev tmp home
chmod 1777 tmp home
mount --bind -o ro /usr usr
for folder in bin sbin lib lib64; do
    [ ! -L "/$folder" ] || cp -P "/$folder" "$folder"
done
mount -t proc proc proc
mount -t tmpfs none dev
for node in null zero urandom; do
    : >"dev/$node"
    mount --bind "/dev/$node" "dev/$node"
done
# The host's node, opened to all as the guide says.
mknod -m 666 dev/userfaultfd c $((0x$(stat -c %t /dev/userfaultfd))) $((0x$(stat -c %T /dev/userfaultfd)))
cp "$wheel" home
exec chroot "$root" setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs env -i HOME=/home PATH=/usr/bin sh -euc '
    cd
    python3 -m venv own
    own/bin/pip install --quiet --no-index ./*.whl
    own/bin/neap doctor
    job="rows = [str(i) * 8 for i in range(1_500_000)]; print(sum(map(len, rows)))"
    own/bin/neap run --require --summary -m 64M -- python3 -c "$job" >managed
    python3 -c "$job" | cmp - managed
'
