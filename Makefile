# make help lists the targets.
GO ?= go
FUZZTIME ?= 30s

.PHONY: help build wasm check fmt test race docs demo bench robust pairs trace kill faults previous mcp escape fuzz aimock live clean
help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## all programs into bin/
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./cmd/...

wasm: ## the toolbox of the sandbox mode wasm into bin/wasm
	$(GO) run ./cmd/wasmbox bin/wasm

check: ## formatting, vet, the rules of the house (test/tidy), generated docs up to date
	@bad=$$(gofmt -l cmd internal pkg services test examples); test -z "$$bad" || { echo "not formatted (make fmt):"; echo "$$bad"; exit 1; }
	$(GO) vet ./...
	$(GO) test ./test/tidy
	$(GO) run ./cmd/docgen -check

fmt: ## format all Go code
	gofmt -w cmd internal pkg services test examples

test: ## all tests: no network, no Docker, no key
	$(GO) vet ./...
	$(GO) test -timeout 10m ./...

race: ## slow: the tests under the race detector (needs a C compiler)
	$(GO) test -race -timeout 20m ./...

docs: ## write the generated docs again: events, subjects, config, cli, schemas, asyncapi
	$(GO) run ./cmd/docgen

demo: ## a real repair behind a real gate, in one process; MODEL=provider/name for a real model
	$(GO) run ./cmd/inspan demo $(if $(MODEL),--model $(MODEL))

bench: ## slow: whole stations against the bare floor, both durability modes
	$(GO) run ./test/bench

robust: ## slow (30 min, root for some): simulation, planted bugs, real faults, security, recovery, soak, fuzzing; SEED=n
	$(GO) run ./test/robust -seed $(or $(SEED),1)

pairs: ## slow (1 h): the simulation's small world with every two faults at every two operations
	$(GO) test -tags slow -count=1 -v -timeout 4h -run TestPairs ./test/sim

trace: ## which test proves which requirement; STRICT=1 fails where one is missing
	$(GO) run ./test/trace $(if $(STRICT),--strict)

kill: ## slow: five services and a server as processes, each killed with -9 in the middle of runs
	$(GO) test -tags slow -count=1 -v -timeout 15m -run TestKill ./test/faults

faults: ## slow: real processes under faults: kills, pauses, partitions, lost and damaged stores, power cuts, full disks (root)
	$(GO) test -tags slow -count=1 -v -timeout 20m -run "TestFaults|TestCheckers" ./test/faults

previous: ## the program of PREV (default: the last tag, else the commit before) reads the frozen logs of this one
	$(GO) run ./test/previous $(or $(PREV),$$(git describe --tags --abbrev=0 2>/dev/null || echo HEAD~1))

mcp: ## slow: agents with the reference MCP servers, installed from npm (needs Node.js and the network)
	$(GO) test -tags slow -count=1 -v -timeout 15m ./test/mcp

escape: ## ways out of each sandbox of this machine, and bombs in it, as a table
	$(GO) test -count=1 -v -run 'TestEscape' ./internal/sandbox/... | grep -vE '^=== |--- PASS|no test'

fuzz: ## slow: each fuzz test for FUZZTIME (30s)
	@set -e; for p in $$($(GO) list ./...); do for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
		echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 2s $$p; done; done

aimock: ## opt-in, needs node and npm: the adapters of models against an independent mock of the providers
	$(GO) test -tags slow -count=1 -v -timeout 5m ./test/aimock

live: ## opt-in, costs money: live models, with the keys that are set
	HARNESS_E2E_TEST=1 $(GO) test -tags integration -count=1 -v -timeout 10m -run TestLive ./test/models

clean: ## remove what make build made
	rm -rf bin
