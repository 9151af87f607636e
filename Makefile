# make help lists the targets.
GO ?= go
FUZZTIME ?= 30s
# As what is released; and nothing is compiled twice, with cgo and without.
export CGO_ENABLED ?= 0
# What was compiled in one clone serves in another.
export GOFLAGS ?= -trimpath

.PHONY: help build check lint crosscheck fmt test race docs release release-test demo bench bench-peers profile bench-trees bench-children scale scale-out weight robust pairs trace kill failover merge-demo faults previous register tutorials mcp escape boxes docker gvisor microvm microvm-test firecracker-test e2b kube kubebox s3 fuzz aimock sdk-oracle local-store external live wasm clean work-race mail alerts protocols console screenshot sandbox-image terminals offline convoy colony backup-drill runtimes programs
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## all programs into bin/
	$(GO) build -trimpath -o bin/ ./cmd/...

wasm: ## the toolbox of the sandbox mode wasm into bin/wasm
	$(GO) run ./cmd/wasmbox bin/wasm

check: lint crosscheck ## what holds before a commit: lint, crosscheck, the rules of the house (test/tidy), generated docs up to date
	$(GO) test ./test/tidy
	$(GO) run ./cmd/docgen -check

lint: ## formatting, go vet, and three more rules about code (test/lint)
	@bad=$$(gofmt -l cmd internal pkg services test examples); test -z "$$bad" || { echo "not formatted (make fmt):"; echo "$$bad"; exit 1; }
	@GOFLAGS= $(GO) build -C test/lint -o $(CURDIR)/bin/lint .
	$(GO) vet -vettool=$(CURDIR)/bin/lint -tags=slow ./...

crosscheck: ## that the program type-checks for a system that is not this one
	@GOFLAGS= $(GO) build -C test/lint -o $(CURDIR)/bin/crosscheck ./crosscheck
	bin/crosscheck darwin arm64 ./cmd/inspan

fmt: ## format all Go code
	gofmt -w cmd internal pkg services test examples

# The packages that take longest, by work or by waiting, are first, so that none of them is the last to end. Four at a time
# are what two processors need: half of the packages wait more than they work.
LONGEST = ./test/e2e ./internal/cli ./test/sim ./internal/sandbox/bwrap ./test/recovery ./test/security ./internal/jet ./internal/sandbox/landlock
test: ## all tests: no network, no Docker, no key
	.ci/memory $(GO) test $(TESTFLAGS) -vet=off -ldflags=-s -p 4 -parallel 6 -timeout 30m $(LONGEST) ./...
	@$(MAKE) --no-print-directory external

race: ## slow: the tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 .ci/memory $(GO) test -race -timeout 60m ./...

docs: ## write the generated docs again: events, subjects, config, cli, schemas, asyncapi
	$(GO) run ./cmd/docgen

release: ## slow: what is published of VERSION=x.y.z, for Linux and macOS, into dist/
	GOFLAGS= $(GO) run -C deploy/release . -version $(or $(VERSION),$(error make release VERSION=x.y.z))

release-test: ## slow, root and debootstrap: the release of this commit installed on a bare Debian, each way
	deploy/release/try.sh

demo: ## a real repair behind a real gate, in one process; MODEL=provider/name for a real model
	$(GO) run ./cmd/inspan demo $(if $(MODEL),--model $(MODEL))

bench: ## slow: whole stations against the bare floor, both durability modes
	$(GO) run ./test/bench

bench-peers: ## slow, where PostgreSQL is installed: inspan up and DBOS Transact on PostgreSQL, by turns
	cd test/bench/peers && $(GO) build -o $(CURDIR)/bin/bench-peers .
	$(GO) run ./test/bench -up -only W1 -mode always -peer $(CURDIR)/bin/bench-peers

profile: ## slow (3 min): the CPU profile that releases and images are compiled with, of the benchmark
	$(GO) build -o bin/bench ./test/bench
	bin/bench -up -only W1 -mode always -rounds 3 -runs 1500 -cpuprofile bin/cpu.out
	GOFLAGS= $(GO) run -C deploy/release ./profile $(CURDIR)/deploy/release/inspan.pgo $(CURDIR)/bin/cpu.out

bench-trees: ## slow (some minutes, 5 GB of disk): snapshot and restore of a workspace of 1 GB with 1 % changed; TREE_MB=n for another size
	INSPAN_BENCH_TREE_MB=$(or $(TREE_MB),1024) $(GO) test -tags slow -count=1 -v -timeout 30m -run TestTreeCost ./test/e2e
	$(GO) test -tags slow -count=1 -v -timeout 30m -run TestKeepLarge ./internal/git

bench-children: ## slow (5 min): a fan-out of 200 children against 200 plain runs, by turns, and 1,000 children of one run
	$(GO) test -tags slow -count=1 -v -timeout 30m -run 'TestFanCost|TestThousandChildren' ./test/e2e

backup-drill: ## a backup under load, the loss of the station, and its restore elsewhere, with figures
	$(GO) test -vet=off -count=1 -v -timeout 30m -run TestBackup ./test/recovery

scale: ## slow (20 min; hours with RUNS=100000): memory, disk and times with RUNS=10000 runs that wait at gates, and the formula of inspan space plan, into docs/capacity.md
	$(GO) run ./test/scale -runs $(or $(RUNS),10000) -write

scale-out: ## slow (25 min): scale-out of each role as processes of their own, with one server and with three, and a prediction, into docs/capacity.md
	$(GO) run ./test/scale -out -servers 1 -write
	$(GO) run ./test/scale -out -servers 3 -write

weight: ## slow (15 min): build, size, start and idle memory of inspan, time of the tests, with their limits, into docs/performance.md
	$(GO) run ./test/weight -cold -suite -write

alerts: ## test the alert rules with promtool (Debian package prometheus)
	@command -v promtool >/dev/null || { echo "NOT TESTED: promtool is missing: install Prometheus"; exit 1; }
	promtool check rules deploy/monitoring/alerts.yaml
	promtool test rules deploy/monitoring/alerts_test.yaml

robust: ## slow (3 h on 2 cores, root for some): simulation, planted bugs, real faults, security, recovery, exams of sandboxes, git, soak, fuzzing; SEED=n; AGAIN=robust.json goes on after an interruption
	$(GO) run ./test/robust -seed $(or $(SEED),1) $(if $(AGAIN),-again $(AGAIN))

console: ## slow (2 min), with chromium, node and npm: a browser uses the console of a real station
	$(GO) test -tags slow -count=1 -v -timeout 15m ./test/console

sandbox-image: ## slow (3 min, root, debootstrap): the image inspan-sandbox of sandboxes of mode docker, and says how to load it
	deploy/images.sh sandbox

screenshot: ## slow (1 min), with chromium: agents look at pages with a browser in their sandbox, through the proxy
	$(GO) test -tags slow -count=1 -v -timeout 10m -run TestScreenshot ./test/e2e

pairs: ## slow (1 h): the simulation's small world with every two faults at every two operations
	$(GO) test -tags slow -count=1 -v -timeout 4h -run TestPairs ./test/sim

trace: ## which test proves which requirement, clause by clause; STRICT=1 fails where one is missing
	.ci/memory $(GO) run ./test/trace $(if $(STRICT),--strict)

kill: ## slow: five services and a server as processes, each killed with -9 in the middle of runs
	$(GO) test -tags slow -count=1 -v -timeout 15m -run TestKill ./test/faults

work-race: ## slow (1 min): a hundred dispatchers of a hundred work items, while planners die
	$(GO) test -tags slow -count=1 -v -timeout 10m -run TestWorkRaceOfHundred ./test/e2e

mail: ## slow (more than 10 min): mail in 1,000 runs of 10 agents, while planners and executors die: none is lost, none is given twice
	$(GO) test -tags slow -count=1 -v -timeout 60m -run TestMailOfThousandRuns ./test/e2e

failover: ## slow (2 min): two toolrunners as processes, the one that holds a workspace is killed or stopped; prints a transcript
	$(GO) test -tags slow -count=1 -v -timeout 10m -run TestFailover ./test/faults

programs: ## slow (3 min, bubblewrap): a toolrunner is killed with -9 while programs of others work at it, in an answer of a model, at a gate and in a command; prints a transcript
	$(GO) test -tags slow -count=1 -v -timeout 20m -run TestPrograms ./test/faults

convoy: ## slow (3 min): a convoy with children, a failing check and a revised plan, each service and the server killed with -9 in it; prints a transcript
	$(GO) test -tags slow -count=1 -v -timeout 15m -run TestConvoy ./test/faults

colony: ## slow (3 min): five agents, two of them programs of others, land ten items through mail, a gate and a merge queue, and all is killed with -9 in it; prints a transcript
	$(GO) test -tags slow -count=1 -v -timeout 25m -run TestColony ./test/faults

tutorials: ## slow (2 min): every page of docs/tutorials, carried out
	$(GO) test -tags slow -count=1 -v -timeout 20m -run TestTutorials ./test/tutorials

terminals: ## slow (1 min), with tmux and bubblewrap: sessions at a terminal, recorded as text and pictures into docs/terminals
	$(GO) test -tags slow -count=1 -v -timeout 10m -run TestTerminals ./test/terminals

offline: ## the tests without a network, a key or Docker: in a namespace that has the loopback alone (root or user namespaces); PKG=./... TESTFLAGS=
	$(GO) mod download
	unshare $$([ "$$(id -u)" -eq 0 ] || echo --user --map-root-user) --net sh -c 'ip link set lo up && exec env -u ANTHROPIC_API_KEY -u OPENAI_API_KEY \
		-u GEMINI_API_KEY -u DOCKER_HOST GOPROXY=off .ci/memory $(GO) test $(TESTFLAGS) -vet=off -ldflags=-s -p 4 -parallel 6 -timeout 30m $(or $(PKG),./...)'

merge-demo: ## three agents side by side, a conflict, its settling, approvals bound to commits and a push; prints a transcript
	$(GO) test -count=1 -v -timeout 5m -run TestMergeDemo ./test/e2e

faults: ## slow: real processes under faults: kills, pauses, partitions, lost and damaged stores, power cuts, full disks (root)
	$(GO) test -tags slow -count=1 -v -timeout 20m -run "TestFaults|TestCheckers" ./test/faults

previous: ## the program of PREV (default: the last tag, else the commit before) reads the frozen logs of this one
	$(GO) run ./test/previous $(or $(PREV),$$(git describe --tags --abbrev=0 2>/dev/null || echo HEAD~1))

register: ## slow (2 min): a copy of the sources gets an event type, then lacks one part of it after the other
	$(GO) test -tags slow -count=1 -v -timeout 30m ./test/register

protocols: ## slow: clients of A2A, ACP, AG-UI and OpenAI, and the conformance suite of MCP, installed from npm, use a station (needs Node.js 20 and the network)
	$(GO) test -tags slow -count=1 -v -timeout 15m ./test/protocols

mcp: ## slow: agents with the reference MCP servers, installed from npm (needs Node.js and the network)
	$(GO) test -tags slow -count=1 -v -timeout 15m ./test/mcp

escape: ## ways out of each sandbox of this machine, and bombs in it, as a table
	$(GO) test -count=1 -v -run 'TestEscape' ./internal/sandbox/... | grep -vE '^=== |--- PASS|no test'

boxes: ## slow (15 min, root for some): every sandbox of this machine, examined and measured, as docs/sandboxes-measured.md; RUNSC=path for gvisor, IMAGE=name for docker
	$(GO) build -trimpath -ldflags="-s -w" -o bin/inspan-within ./cmd/inspan-within
	INSPAN_TEST_HELPER=$(CURDIR)/bin/inspan-within $(if $(RUNSC),INSPAN_GVISOR=$(RUNSC)) $(if $(IMAGE),INSPAN_TEST_DOCKER_IMAGE=$(IMAGE) INSPAN_TEST_DOCKER_HELPER=$(CURDIR)/bin/inspan-within) $(GO) run ./test/sandboxbench

docker: ## sandboxes in containers of a real engine (DOCKER_HOST); IMAGE=name of one with bash, perl and util-linux that is there; see docs/sandbox-docker.md
	@test -n "$(IMAGE)" || { echo "make docker: say IMAGE=name of an image on the engine that has bash, perl and util-linux, such as debian:bookworm"; exit 1; }
	$(GO) build -trimpath -ldflags="-s -w" -o bin/inspan-within ./cmd/inspan-within
	@export INSPAN_TEST_NEED_SANDBOX=docker INSPAN_TEST_DOCKER_IMAGE=$(IMAGE) INSPAN_TEST_DOCKER_HELPER=$(CURDIR)/bin/inspan-within; set -e; \
		$(GO) test -count=1 -v -timeout 15m -run . -bench . -benchtime 20x ./internal/sandbox/docker; \
		$(GO) test -count=1 -v -timeout 5m -run 'TestDocker|TestEphemeralWalls' ./test/e2e
s3: ## needs S3-compatible storage of others (BUCKET=, AWS_ENDPOINT_URL and keys in the environment): archives in a bucket, and a station that comes back from one
	@test -n "$(BUCKET)" || { echo "make s3 wants BUCKET=name, AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"; exit 2; }
	INSPAN_TEST_S3=$(BUCKET) $(GO) test -count=1 -v -timeout 15m ./internal/archive/at
	INSPAN_TEST_S3=$(BUCKET) $(GO) test -count=1 -v -timeout 15m -run TestBucket ./test/recovery
GVISOR = INSPAN_GVISOR=$(or $(RUNSC),runsc) INSPAN_TEST_NEED_SANDBOX=gvisor $(GO) test -count=1
gvisor: ## needs runsc (RUNSC=path): exam, escape list and costs of the sandbox gvisor, and a station with it
	$(GVISOR) -timeout 30m -skip TestEscape ./internal/sandbox/gvisor
	$(GVISOR) -timeout 10m -v -run TestEscape ./internal/sandbox/gvisor
	$(GVISOR) -timeout 10m -run 'TestGVisor|TestEphemeralWalls' ./test/e2e ./internal/egress
	$(GVISOR) -run '^$$' -bench Costs -benchtime 20x ./internal/sandbox/gvisor

MICROVM = $(or $(DIR),$(CURDIR)/bin/microvm)
MICROVM_TEST = INSPAN_MICROVM_KERNEL=$(MICROVM)/kernel INSPAN_MICROVM_INITRD=$(MICROVM)/initrd INSPAN_MICROVM_ROOT=$(MICROVM)/root.ext4 INSPAN_MICROVM_ACCEL=$(or $(ACCEL),auto) $(GO) test -count=1 -v
microvm: ## opt-in, needs Debian, root and the network: kernel, first file system and root of virtual machines into bin/microvm (DIR=)
	$(GO) build -trimpath -ldflags="-s -w" -o bin/inspan-guest ./cmd/inspan-guest
	deploy/microvm/build.sh $(MICROVM) bin/inspan-guest
microvm-test: ## opt-in, needs QEMU and make microvm: exam, escape list and costs of the sandbox qemu, and a station with it; ACCEL=kvm|tcg|auto
	INSPAN_TEST_NEED_SANDBOX=qemu $(MICROVM_TEST) -timeout 120m -run 'TestReal|TestEscape' -bench Costs -benchtime 3x ./internal/sandbox/microvm
	INSPAN_TEST_NEED_SANDBOX=qemu $(MICROVM_TEST) -timeout 30m -run TestQEMUStation ./test/e2e
firecracker-test: ## opt-in, needs Firecracker, KVM and a kernel of its own (KERNEL=) beside make microvm: the exam of the sandbox firecracker
	INSPAN_TEST_NEED_SANDBOX=firecracker INSPAN_TEST_MICROVM=firecracker INSPAN_MICROVM_KERNEL=$(KERNEL) INSPAN_MICROVM_INITRD=$(MICROVM)/initrd INSPAN_MICROVM_ROOT=$(MICROVM)/root.ext4 \
		$(GO) test -count=1 -v -timeout 60m -run 'TestReal|TestEscape' -bench Costs -benchtime 20x ./internal/sandbox/microvm

fuzz: ## slow: each fuzz test for FUZZTIME (30s)
	@set -e; for p in $$($(GO) list ./...); do for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
		echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 2s $$p; done; done

aimock: ## opt-in, needs node and npm: the adapters of models against an independent mock of the providers
	$(GO) test -tags slow -count=1 -v -timeout 5m ./test/aimock

runtimes: export INSPAN_TEST_RUNTIMES = $(or $(DIR),$(CURDIR)/bin/runtimes)
runtimes: export INSPAN_TEST_NEED_SANDBOX = bwrap
runtimes: ## opt-in (25 min, 1 GB from npm where DIR lacks it), with node, npm and bubblewrap: Claude Code, OpenCode and Codex as agents, refused, and killed with -9, and the toolrunner; DIR=folder RUN=claude
	$(GO) test -tags slow -count=1 -v -timeout 60m -run 'TestRealRuntimes$(if $(RUN),/$(RUN))' ./test/e2e
	$(if $(filter-out claude,$(RUN)),,$(GO) test -tags slow -count=1 -v -timeout 10m -run TestRealScreen ./internal/runtime/pty)
	$(GO) test -tags slow -count=1 -v -timeout 80m -run 'TestRealPrograms$(if $(RUN),/$(RUN))' ./test/faults

external: ## a module of its own, as others have one: a tool, a client and a station through pkg alone
	cd test/external && $(GO) test -count=1 .

local-store: ## converts the local stores of an earlier version (SQLite files) in STORE=folder of a station; without STORE tests that
	GOFLAGS= $(GO) $(if $(STORE),run -C deploy/oldstore . $(abspath $(STORE)),test -C deploy/oldstore -count=1 -v .)

sdk-oracle: ## slow to build (the SDKs), a module of its own: the adapters of models against the official SDKs
	cd test/sdk && $(GO) test -count=1 -v .

live: ## opt-in, costs money: live models, with the keys that are set
	HARNESS_E2E_TEST=1 $(GO) test -tags integration -count=1 -v -timeout 10m -run TestLive ./test/models

e2b: ## opt-in, costs money, needs INSPAN_E2B_API_KEY: the exam of sandboxes in the E2B cloud
	$(GO) test -tags integration -count=1 -v -timeout 30m -run TestRealExam ./internal/sandbox/e2b

kube: ## opt-in, needs kubectl, helm and a cluster that it may make namespaces in (KUBECONFIG): a real API server takes deploy/k8s, and the chart as Helm renders it, without a warning
	$(GO) test -tags integration -count=1 -v -timeout 10m -run TestServer ./deploy

kubebox: ## opt-in, needs a cluster and INSPAN_KUBERNETES_*: the exam of sandboxes in pods, and the escape list
	$(GO) test -tags integration -count=1 -v -timeout 60m -run TestReal ./internal/sandbox/kubernetes

clean: ## remove what make build made
	rm -rf bin
