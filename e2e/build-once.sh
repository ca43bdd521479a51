# Copyright The Roster Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the scripts that build what the tests run, each binary once per version: a stamp beside it holds the hash
# of what it was built from. They define
#
#	key NAME         prints that hash
#	build NAME FILE  becomes the process that builds it, so that there is one to end
#
# build_once LABEL BIN WHAT TAKES NAME... then builds those into BIN that are missing or made from something else.

build_once() {
	label=$1 bin=$2 what=$3 takes=$4
	shift 4
	mkdir -p "$bin/.built"
	missing=
	for name in "$@"; do
		if [ ! -x "$bin/$name" ] || [ "$(cat "$bin/.built/$name" 2>/dev/null)" != "$(key "$name")" ]; then
			missing="$missing $name"
		fi
	done
	if [ -z "$missing" ]; then
		echo "$label: binaries are up to date ($what)"
		return
	fi
	total=$(echo "$missing" | wc -w)
	began=$(date +%s)
	done=0
	echo "$label: building$missing for $what ($takes)"
	for name in $missing; do
		done=$((done + 1))
		build_one "$name"
	done
	echo "$label: done in $(($(date +%s) - began)) s"
}

build_one() {
	started=$(date +%s)
	echo "$label: [$done/$total] $1: building"
	new=$bin/$1.new.$$ # two of these may build the same thing beside each other
	build "$1" "$new" &
	build=$!
	# A line every half minute, so that a long link does not look like a hang.
	trap 'kill "$build" 2>/dev/null || true; rm -f "$new"; exit 130' INT TERM
	ticks=0
	while kill -0 "$build" 2>/dev/null; do
		sleep 1
		ticks=$((ticks + 1))
		if [ $((ticks % 30)) -eq 0 ]; then
			echo "$label: [$done/$total] $1: still building after $(($(date +%s) - started)) s"
		fi
	done
	wait "$build"
	mv "$new" "$bin/$1"
	key "$1" >"$bin/.built/$1"
	echo "$label: [$done/$total] $1: built in $(($(date +%s) - started)) s"
}
