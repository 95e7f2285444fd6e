#!/usr/bin/env bash
# Runs a throwaway PostgreSQL server for tests: loopback only, a free port, a random password, no durability.
#
#   scripts/postgres.sh start [DIR]   start it (making it first when there is none), print its URL
#   scripts/postgres.sh url   [DIR]   print the URL of a running one
#   scripts/postgres.sh stop  [DIR]   stop it; without DIR its directory is removed too
#
# DIR holds the cluster, its log and its URL; by default it is $TMPDIR/herald-postgres-UID. Starting a stopped DIR again
# keeps its port, password and databases; starting a running one just prints the URL.
#
#   HERALD_POSTGRES_FSYNC=on   commits reach the disk: for measuring, and slower for testing
#   HERALD_POSTGRES_STOP=immediate   stop as a crash does, without writing out what is in memory
#   HERALD_POSTGRES_BIN=DIR    where initdb and pg_ctl are, when they are in no usual place
#
# A machine of the Debian family that has no PostgreSQL gets it by apt-get (as root, or through sudo).
set -euo pipefail

fail() { echo "postgres.sh: $*" >&2; exit 1; }

find_bin() {
	local dir
	for dir in "${HERALD_POSTGRES_BIN:-}" $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -t/ -k5 -Vr) \
		/usr/pgsql-*/bin /usr/local/pgsql/bin /opt/homebrew/opt/postgresql*/bin "$(dirname "$(command -v initdb || echo /none/x)")"; do
		if [ -x "$dir/initdb" ] && [ -x "$dir/pg_ctl" ]; then echo "$dir"; return; fi
	done
}

install_server() {
	command -v apt-get >/dev/null || fail "no initdb found and no apt-get to install it with; install PostgreSQL 13 or newer, or set HERALD_POSTGRES_BIN"
	local as=()
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null || fail "no initdb found; run this once as root, or install PostgreSQL 13 or newer"
		as=(sudo)
	fi
	echo "postgres.sh: installing PostgreSQL with apt-get" >&2
	# Debian makes and starts a cluster of its own on install, on the usual port: not wanted for tests.
	if [ ! -e /etc/postgresql-common ]; then
		"${as[@]}" mkdir -p /etc/postgresql-common/createcluster.d
		echo "create_main_cluster = false" | "${as[@]}" tee /etc/postgresql-common/createcluster.d/herald.conf >/dev/null
	fi
	"${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update >&2
	"${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends postgresql >&2
}

# run executes a program as the user who owns the cluster: PostgreSQL refuses to run as root.
run() {
	if [ "$(id -u)" != 0 ]; then
		"$@"
	elif command -v runuser >/dev/null; then
		(cd / && runuser -u "$owner" -- "$@")
	else
		(cd / && setpriv --reuid "$owner" --regid "$(id -g "$owner")" --init-groups -- "$@")
	fi
}

running() { [ -s "$dir/data/postmaster.pid" ] && run "$bin/pg_ctl" -D "$dir/data" status >/dev/null 2>&1; }

random_text() { od -An -N18 -tx1 /dev/urandom | tr -d ' \n'; }

make_cluster() {
	# mkdir fails when somebody else put something in our place.
	[ -d "$dir" ] || mkdir -m 700 "$dir" || fail "cannot make $dir"
	[ -O "$dir" ] || [ "$(stat -c %U "$dir" 2>/dev/null)" = "$owner" ] || fail "$dir belongs to somebody else"
	chmod 700 "$dir"
	random_text >"$dir/password"
	chmod 600 "$dir/password"
	if [ "$(id -u)" = 0 ]; then chown -R "$owner" "$dir"; fi
	run "$bin/initdb" -D "$dir/data" -U herald -A scram-sha-256 --pwfile="$dir/password" -E UTF8 --locale=C --no-sync \
		>"$dir/initdb.log" 2>&1 || { cat "$dir/initdb.log" >&2; fail "initdb failed"; }
	cat >>"$dir/data/postgresql.conf" <<-CONF
		listen_addresses = '127.0.0.1'
		unix_socket_directories = ''
		max_connections = 300
		shared_buffers = 256MB
		max_wal_size = 2GB
		fsync = ${HERALD_POSTGRES_FSYNC:-off}
		full_page_writes = ${HERALD_POSTGRES_FSYNC:-off}
		autovacuum_naptime = 15s
		log_min_messages = fatal
	CONF
}

# try_start starts the server on $1; it fails when the port is taken.
try_start() {
	run "$bin/pg_ctl" -D "$dir/data" -l "$dir/log" -w -t 60 -s -o "-p $1" start >/dev/null 2>&1 </dev/null || return 1
	echo "$1" >"$dir/port"
	(umask 077 && echo "postgres://herald:$(cat "$dir/password")@127.0.0.1:$1/postgres?sslmode=disable" >"$dir/url")
}

start() {
	if [ -z "$bin" ]; then install_server; bin=$(find_bin); fi
	[ -n "$bin" ] || fail "PostgreSQL was installed, but initdb was not found"
	if [ "$(id -u)" = 0 ]; then id "$owner" >/dev/null 2>&1 || fail "no user $owner to run the server as"; fi
	running && { url; return; }
	[ -s "$dir/data/PG_VERSION" ] || make_cluster
	if [ -s "$dir/port" ]; then
		try_start "$(cat "$dir/port")" || { tail -n 20 "$dir/log" >&2; fail "the server in $dir did not start"; }
		url
		return
	fi
	for _ in 1 2 3 4 5 6 7 8; do
		if try_start $((20000 + (RANDOM * 32768 + RANDOM) % 12000)); then url; return; fi
	done
	tail -n 20 "$dir/log" >&2
	fail "the server in $dir did not start"
}

stop() {
	[ -n "$bin" ] || fail "no pg_ctl found"
	if running; then run "$bin/pg_ctl" -D "$dir/data" -m "${HERALD_POSTGRES_STOP:-fast}" -w -s stop; fi
	if [ -n "$default" ]; then rm -rf "$dir"; fi
}

url() {
	running || fail "no server runs in $dir; start it with: scripts/postgres.sh start"
	cat "$dir/url"
}

owner=$(id -un)
[ "$(id -u)" != 0 ] || owner=postgres
default="" dir=${2:-}
if [ -z "$dir" ]; then
	default=yes
	dir=${TMPDIR:-/tmp}/herald-postgres-$(id -u)
fi
bin=$(find_bin)

case ${1:-} in
start | stop | url) "$1" ;;
*) sed -n '2,/^set /p' "$0" | sed -e '/^set /d' -e 's/^# \{0,1\}//' >&2; exit 2 ;;
esac
