# make help lists the targets.
GO ?= go

.PHONY: help build check test race demo bench kill fuzz
help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## all programs into bin/
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./cmd/...

check: ## formatting and vet
	@test -z "$$(gofmt -l cmd internal pkg services test examples)" || { gofmt -l cmd internal pkg services test examples; exit 1; }
	$(GO) vet ./...

test: ## all tests: no network, no Docker, no key
	$(GO) test -timeout 10m ./...

race: ## the tests under the race detector
	$(GO) test -race -timeout 20m ./...

demo: ## a real repair behind a real gate, in one process
	$(GO) run ./cmd/inspan demo $(if $(MODEL),--model $(MODEL))

bench: ## whole stations against the bare floor, both durability modes
	$(GO) run ./test/bench

kill: ## slow: five services and a server as processes, each killed with -9 in the middle of runs
	$(GO) test -tags slow -count=1 -v -timeout 15m ./test/kill
