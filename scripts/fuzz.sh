#!/usr/bin/env bash
# Every fuzz target for a few seconds (argument: how many; default 2), two at a time. Targets are found, not listed: a new one takes part by existing.
# What a target fails on is left in its package's testdata/fuzz, where `go test` replays it; FUZZ_CACHE keeps the inputs that reached new code.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-2}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export cache=${FUZZ_CACHE:-$work/cache} seconds work
mkdir -p "$cache"

# One instrumented binary per package, then every target in it.
fuzz_package() {
	dir=$1
	binary=$work/$(tr / _ <<<"$dir").test
	go test -tags nomsgpack -c -fuzz . -o "$binary" "./$dir" || return 1
	for target in $(grep -ho '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | cut -c6-); do
		# Making new inputs smaller would take all of so short a time. A deadline that falls into an execution is reported as a failure, without an input.
		log=$binary.$target.log
		if (cd "$dir" && "$binary" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "${seconds}s" -test.fuzzminimizetime 1x -test.parallel 1 \
			-test.fuzzcachedir "$cache/$dir") >"$log" 2>&1 || { grep -q '^ *context deadline exceeded$' "$log" && ! grep -q 'Failing input' "$log"; }; then
			printf '%-20s %-20s %s\n' "$dir" "$target" "$(grep -o 'execs: [0-9]*' "$log" | tail -1)"
		else
			printf '%s: %s FAILED\n' "$dir" "$target"
			cat "$log"
			return 1
		fi
	done
}
export -f fuzz_package

git ls-files --cached --others --exclude-standard '*_test.go' | xargs grep -l '^func Fuzz' | xargs -n1 dirname | sort -u | xargs -P 2 -I{} bash -c 'fuzz_package {}'
