# `make` or `make help` lists the targets. The two that matter: `make run` and `make test`.
SHELL := /bin/bash
GO    ?= go
BIN   := bin/ragd
TAGS  := nomsgpack
FLAGS := -trimpath -tags $(TAGS)
export CGO_ENABLED ?= 0

.DEFAULT_GOAL := help
.PHONY: help build run test test-full fuzz race generate lint bench clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: $(BIN) ## build bin/ragd, one static binary

.PHONY: $(BIN)
$(BIN):
	@mkdir -p bin
	@echo "building $(BIN) with $$($(GO) version | cut -d' ' -f3)"
	@$(GO) build $(FLAGS) -ldflags "-s -w" -o $(BIN) ./cmd/ragd

run: build ## build, then the demo: models, private Postgres, sample corpus, three questions, the page
	@$(BIN) demo

test: build ## what the tests need, then all of them (under 25 minutes on 2 cores)
	@scripts/test.sh

test-full: build ## the long forms: every reference on every kernel path, whole data sets, chaos runs
	@RAGD_TEST_FULL=1 scripts/test.sh

fuzz: ## every fuzz target for a minute
	@scripts/fuzz.sh 60

race: ## the tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -tags $(TAGS) ./...

generate: ## regenerate the assembly from llm/kernel/_asm
	$(GO) generate ./llm/kernel/...

lint: ## formatting, vet on every platform that we build for
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "run gofmt -w on these files"; exit 1; }
	$(GO) vet -tags $(TAGS) ./...
	GOARCH=arm64 $(GO) vet -tags $(TAGS) ./llm/... ./embed/...
	$(GO) vet -tags $(TAGS),purego ./llm/...

bench: build ## speed and memory of the default answer model on this machine
	@$(BIN) bench

clean: ## remove what the build made; models and databases stay
	rm -rf bin
