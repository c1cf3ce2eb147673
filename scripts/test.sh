#!/usr/bin/env bash
# The tests, with everything they need: the small models (98 + 70 MB, through pip), a private PostgreSQL (through pip, started by the tests themselves)
# and Chromium for the tests of the page (through apt-get, as root on Debian). Needs Go and pip; says what it does. RAGD_TEST_FULL=1 runs the long forms.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=${CGO_ENABLED:-0}
tags=nomsgpack
say() { printf '== %s\n' "$*"; }

say "go vet, on amd64, arm64 and without assembly"
unformatted=$(gofmt -l $(git ls-files '*.go'))
if [ -n "$unformatted" ]; then
	echo "not formatted; run gofmt -w on: $unformatted"
	exit 1
fi
go vet -tags $tags ./...
GOARCH=arm64 go vet -tags $tags ./llm/... ./embed/...
go vet -tags $tags,purego ./llm/...

say "models that the tests use"
mkdir -p bin
go build -trimpath -tags $tags -o bin/ragd ./cmd/ragd
bin/ragd models pull SmolLM2-135M-Instruct.Q4_1 bge-small-en-v1.5-int8 ms-marco-MiniLM-L12-int8
if [ -n "${RAGD_TEST_FULL:-}" ]; then
	bin/ragd models pull Qwen2.5-Coder-0.5B-Instruct-Q4_K_M Qwen2.5-Coder-1.5B-Instruct-Q4_K_M gemma-3-270m-q4_k_m nomic-embed-text-v1.5-f16
fi

if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null; then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		say "installing Chromium for the tests of the page"
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null
	else
		say "no Chromium: the tests of the page are skipped; install the package chromium to run them"
	fi
fi

say "tests"
# -p 2: the packages share the machine with a database; more at a time only makes each wait.
go test -tags $tags -p 2 -timeout 20m ./...

say "tests of the kernels and models on the other paths of this processor"
go test -tags $tags,purego -timeout 15m ./llm/kernel ./llm/quant ./llm/tokenizer ./llm/model
if grep -qw avx512_vnni /proc/cpuinfo 2>/dev/null; then
	RAGD_ISA=avx2 go test -tags $tags -timeout 15m ./llm/kernel ./llm/model
fi

say "every fuzz target for two seconds"
scripts/fuzz.sh 2

say "gate: retrieval and answers on a small set, with the small models"
gate=$(mktemp -d)
trap 'rm -rf "$gate"' EXIT
export RAGD_DATA=$gate/data RAGD_MODEL=SmolLM2-135M-Instruct.Q4_1
bin/ragd eval retrieval eval/testdata/halden --out "$gate/retrieval.jsonl"
bin/ragd eval gate "$gate/retrieval.jsonl" --floors eval/testdata/halden/floors-retrieval.json
bin/ragd eval run eval/testdata/halden --limit 12 --max-tokens 64 --out "$gate/answers.jsonl"
bin/ragd eval gate "$gate/answers.jsonl" --floors eval/testdata/halden/floors-answers.json

say "gate: documents that give orders, false premises, private matters"
bin/ragd eval run eval/testdata/safety --max-tokens 48 --out "$gate/safety.jsonl"
bin/ragd eval gate "$gate/safety.jsonl" --floors eval/testdata/safety/floors.json
