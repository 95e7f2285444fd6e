#!/usr/bin/env bash
# Installs what e2e/npm/package-lock.json names, with a Node of its own, so that the tests of e2e/npm can run: other
# people's clients against our servers. All goes into e2e/npm/node_modules, and no script of a package is run.
#
#   scripts/npm.sh           install, unless that very lock file is installed already
#   scripts/npm.sh update    take the versions that package.json names into the lock file, and install them
#
# A machine of the Debian family that has no npm gets it by apt-get (as root, or through sudo). Every step has a time limit,
# and those that use the network are tried three times.
set -euo pipefail
cd "$(dirname "$0")/../e2e/npm"

fail() { echo "npm.sh: $*" >&2; exit 1; }

# persist runs a command for at most so many seconds, up to three times, and shows its output only when all failed.
persist() {
	local limit=$1 try log
	shift
	log=$(mktemp)
	for try in 1 2 3; do
		if timeout -k 10 "$limit" "$@" >"$log" 2>&1 </dev/null; then rm -f "$log"; return; fi
		[ "$try" = 3 ] || sleep $((try * 3))
	done
	tail -n 30 "$log" >&2
	rm -f "$log"
	return 1
}

install_npm() {
	command -v apt-get >/dev/null || fail "no npm found and no apt-get to install it with; install Node.js with npm 8 or newer"
	local as=()
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null || fail "no npm found; run this once as root, or install Node.js with npm 8 or newer"
		as=(sudo)
	fi
	echo "npm.sh: installing npm with apt-get" >&2
	persist 300 "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update || fail "apt-get update failed"
	persist 600 "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends npm ||
		fail "apt-get could not install npm"
}

# stamp names what is installed: the tests compare it with the lock file (see node_test.go).
stamp=node_modules/.herald-lock
current() { sha256sum package-lock.json | cut -d' ' -f1; }

install() {
	if [ "$(cat "$stamp" 2>/dev/null)" = "$(current)" ]; then return; fi
	command -v npm >/dev/null || install_npm
	echo "npm.sh: installing the packages of e2e/npm" >&2
	persist 300 npm ci --loglevel=error || fail "npm ci failed; is a package registry within reach?"
	current >"$stamp"
}

case ${1:-install} in
install) install ;;
update)
	command -v npm >/dev/null || install_npm
	persist 300 npm install --loglevel=error || fail "npm install failed; is a package registry within reach?"
	rm -f "$stamp"
	install
	;;
*) sed -n '2,/^set /p' "../../scripts/npm.sh" | sed -e '/^set /d' -e 's/^# \{0,1\}//' >&2; exit 2 ;;
esac
