#!/bin/bash
# What the action does: installs neap, opens the userfaultfd device to the runner's user, and runs the command.
set -euo pipefail
: "${NEAP_ARCHIVE:?the input archive is not set}" "${RUNNER_TEMP:?}" "${GITHUB_PATH:?}"

prefix=$RUNNER_TEMP/neap
unpacked=$(mktemp -d "$RUNNER_TEMP/neap-XXXXXX")
case $NEAP_ARCHIVE in
    http://* | https://*) curl --fail --silent --show-error --location "$NEAP_ARCHIVE" | tar -xz -C "$unpacked" --strip-components=1 ;;
    *) tar -xzf "$NEAP_ARCHIVE" -C "$unpacked" --strip-components=1 ;;
esac
"$unpacked/install.sh" --prefix "$prefix" >/dev/null
rm -r "$unpacked"
echo "$prefix/bin" >>"$GITHUB_PATH"
export PATH=$prefix/bin:$PATH

# A runner is a machine of its own with a sudo that asks nothing. In a container job there is neither: doctor says so.
device=${NEAP_UFFD_DEVICE:-/dev/userfaultfd}
if [ -e "$device" ] && ! { [ -r "$device" ] && [ -w "$device" ]; } && command -v sudo >/dev/null; then
    sudo -n chmod 666 "$device" || true
fi
if ! neap doctor; then
    echo "::warning title=neap::neap cannot limit programs here; its doctor says why"
    [ "$NEAP_REQUIRE" != true ] || exit 1
fi

[ -n "${NEAP_COMMAND:-}" ] || exit 0
options=(--summary)
[ -z "${NEAP_LIMIT:-}" ] || options+=(-m "$NEAP_LIMIT")
[ "$NEAP_REQUIRE" != true ] || options+=(--require)
# As GitHub runs a step of bash.
exec neap run "${options[@]}" -- bash --noprofile --norc -eo pipefail -c "$NEAP_COMMAND"
