# driftline: `make demo` shows it work, `make test` shows that it does.
SHELL := /bin/bash
GO ?= go
BIN := bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Binaries, tests and generators are compiled with the same flags, as the container image is:
# with others the go command would compile every dependency again, and the tests' programs
# in each checkout. Symbols of debuggers take a third of the time to link.
export CGO_ENABLED ?= 0
export GOFLAGS += -trimpath '-ldflags=-s -w'
LDFLAGS := -s -w -X driftline/internal/version.Version=$(VERSION)

.DEFAULT_GOAL := help
.PHONY: help build demo test bench bench-storage libchdb generate dashboards lint record clean

help: ## Show the targets.
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

libchdb: ## Fetch the embedded engine's library (npm package, pinned, checked).
	@scripts/fetch-libchdb.sh

build: libchdb ## Build bin/detectd and bin/otelcol-driftline.
	@mkdir -p $(BIN)
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/detectd ./cmd/otelcol-driftline

demo: libchdb ## Build, play an incident in compressed time, leave the UI up.
	@mkdir -p $(BIN)
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/detectd
	@$(BIN)/detectd demo $(DEMO_FLAGS)

test: build ## Run every test (needs prometheus-alertmanager, chromium, node, python3).
	@scripts/test.sh

bench: ## Measure the processor beside contrib's groupbytrace; write docs/benchmarks.md.
	$(GO) run ./internal/bench/processorbench -out docs/benchmarks.md

bench-storage: libchdb ## Measure storage: exporter beside contrib's, bytes, queries; write docs/benchmarks.md.
	$(GO) run ./internal/bench/exporterbench -out docs/benchmarks.md -capacity docs/capacity.md
	$(GO) run ./internal/bench/querybench -out docs/benchmarks.md

generate: ## Regenerate component metadata, docs and dashboards.
	$(GO) generate ./...

record: ## Record testdata/recorded afresh from the real SDKs (needs node, python3).
	@traffic/record.sh

lint: ## Vet and check formatting.
	$(GO) vet ./...
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }

clean: ## Remove built binaries.
	rm -rf $(BIN)
