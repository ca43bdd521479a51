# Copyright The Roster Authors.
# SPDX-License-Identifier: Apache-2.0

# Without gRPC's request pages and the generator of manual pages, which nobody here uses.
TAGS := grpcnotrace,urfave_cli_no_docs
# What a build does must not depend on the settings of the machine: go takes an empty variable for an
# unset one, so these are never empty. They are the same for programs, tests, generators and linters: then
# each package is compiled once, and what is tested is what is shipped.
export GOFLAGS := -mod=readonly -buildvcs=false -trimpath -tags=$(TAGS)
export GOWORK := off
export CGO_ENABLED := 0

GO ?= go
BIN := $(CURDIR)/bin
DIST := $(CURDIR)/dist
TESTBED_BIN := $(CURDIR)/e2e/testbed/bin
PODS_BIN := $(CURDIR)/e2e/pods/bin
# The version is written down once, in the chart; a tag says the same. Commit and date are those of the
# commit, so that it builds the same again tomorrow.
VERSION ?= $(shell sed -n 's/^appVersion: *//p' charts/agent/Chart.yaml)
COMMIT ?= $(shell git describe --always --dirty --abbrev=40 --exclude='*' 2>/dev/null || echo unknown)
DATE ?= $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null || echo 1970-01-01T00:00:00Z)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)
BUILD_FLAGS := -ldflags '$(LDFLAGS)'

# How long each fuzz target searches, and flags for the tests, the demo and the benchmark.
FUZZTIME ?= 20s
TESTFLAGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=
# The sizes of the groups that are measured.
SCALE ?= 10,50,200,500

GOLANGCI_LINT_VERSION := v2.15.0
GOLANGCI_LINT := $(BIN)/golangci-lint
COSIGN_VERSION := v3.1.3
COSIGN := $(BIN)/cosign-$(COSIGN_VERSION)

# The linters vet, once and for all; and what the property tests draw is the same in each run. The search for what
# nobody has thought of is make fuzz and make sim-search.
TEST := $(GO) test -vet=off
export RAPID_SEED ?= 1

# The packages whose tests need neither a control plane nor much time.
UNIT = $$($(GO) list ./... | grep -v /e2e) ./e2e/depgraph ./e2e/documents
# Of them, those for which the race detector has nothing to say: tools of one goroutine, and what is tested by starting agentctl some
# hundred times, whose parts have tests of their own. test-race tests the others with it, and with -short: of property tests a fifth,
# and smaller groups. Those in which that, or the race detector, makes a difference it then tests in full.
PLAIN = ./charts/... ./cmd/agentctl ./cmd/internal/... ./e2e/depgraph ./e2e/documents
RACE = $$($(GO) list $(UNIT) | grep -vxF "$$($(GO) list $(PLAIN))")
FULL = $$(grep -rlE 'rapid\.Check|testing\.Short\(\)|raced\(\)' --include='*_test.go' agent cmd kube mesh replica syncrules | xargs -n1 dirname | sort -u | sed 's|^|./|')

# The packages that test against real control planes, without those of e2e-standalone, e2e-registry and e2e-gitops.
E2E = $$($(GO) list ./e2e/... | grep -v -e /e2e/depgraph -e '/e2e/documents$$' -e /e2e/sim -e /e2e/pods -e /e2e/standalone -e /e2e/registryapi -e /e2e/gitops $(BESIDE:%=-e /e2e/documents/scenes))

# What tells versions of Kubernetes apart: admission, CRDs, RBAC, watches and their resumption, Secrets and tokens.
OLDEST = ^Test(Quickstart|Admission|ClusterRefused|Sync|Source|CopyIsRestored|Metadata|OtherKind|KindThatArrives|Restored|ParityC17)

# What a person at one cluster sees of the group, rules with the newest fields, and examples: make test has these in its second
# lane, which would end before the first. e2e/home_test.go checks that there are such tests.
AT_HOME = ^Test(FleetOfFive|Page|PageExplains|PageForOthers|Verify|VerifyIsKilled|NoSecretsInBundle|RenewedSecrets|RuleExamples|GitOps|TargetNamespaces|TargetNamespacesThatAreTooMany|TargetNamespacesThatContradict|TargetsByWhatAClusterIs|Observe|Adopt|RuleOfANewerMember|RuleBesideANewerCRD|DemoArchive|RuleIsPausedAndItsOrphansSettled)$$

# What depends on the API server: admission, credentials and rights, its own end and that of agents, restores. All but what
# e2e/standalone_test.go leaves out is to be had with STANDALONE=. (20 minutes).
STANDALONE ?= ^Test(Quickstart|Admission|Crashes|EveryAgent|UndoneDeletion|ParityC(0|1[0-4789]|21))

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/agent and bin/agentctl
	$(GO) build $(BUILD_FLAGS) -o $(BIN)/ ./cmd/agent ./cmd/agentctl

# A module of its own: nobody who builds an agent compiles Kubernetes.
KUBERNETES = $(shell awk '$$1 == "k8s.io/kubernetes" {print $$2}' kube/apiserver/go.mod)+roster
APISERVER_LDFLAGS = -s -w -X main.rosterVersion=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE) \
	-X k8s.io/component-base/version.gitVersion=$(KUBERNETES) -X k8s.io/client-go/pkg/version.gitVersion=$(KUBERNETES)

.PHONY: apiserver
apiserver: ## build bin/roster-apiserver, for clusters without Kubernetes (about 5 minutes from nothing on two cores)
	$(GO) -C kube/apiserver build -ldflags '$(APISERVER_LDFLAGS)' -o $(BIN)/ ./cmd/roster-apiserver
	@mkdir -p $(TESTBED_BIN) && ln -sf $(BIN)/roster-apiserver $(TESTBED_BIN)/

# The platforms of the images, and those of agentctl alone.
IMAGE_PLATFORMS := linux/amd64 linux/arm64
CLIENT_PLATFORMS := darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
CROSS_BUILDS := $(addprefix build/,$(IMAGE_PLATFORMS) $(CLIENT_PLATFORMS))
APISERVER_BUILDS := $(addprefix build-apiserver/,$(IMAGE_PLATFORMS))
# What the images are called, without a tag. The chart asks for these.
IMAGE ?= docker.io/roster-mesh/agent
APISERVER_IMAGE ?= docker.io/roster-mesh/roster-apiserver
RELEASE := $(GO) run ./cmd/internal/release -version '$(VERSION)' -commit '$(COMMIT)' -date '$(DATE)' \
	-image '$(IMAGE)' -image-apiserver '$(APISERVER_IMAGE)' -platforms '$(IMAGE_PLATFORMS)' \
	-modules "$$($(GO) env GOMODCACHE)" -goroot "$$($(GO) env GOROOT)"

.PHONY: image
image: $(addprefix build/,$(IMAGE_PLATFORMS)) ## write the image as a tar to dist/, with a list of what is in it
	@$(RELEASE) image

.PHONY: image-apiserver
image-apiserver: $(APISERVER_BUILDS) ## the same for the image of roster-apiserver (about 5 minutes for each platform, from nothing)
	@$(RELEASE) image-apiserver

.PHONY: release
release: build $(CROSS_BUILDS) $(APISERVER_BUILDS) ## write all that people install to dist/: images, archives, chart, checksums
	@rm -rf $(DIST)
	@$(RELEASE) all

.PHONY: release-archive
release-archive: ## write an archive for this machine's platform, in which ./demo needs neither make, Go nor kubectl (Linux)
	@$(MAKE) --no-print-directory for=$$($(GO) env GOOS)/$$($(GO) env GOARCH) demo-archive

.PHONY: demo-archive
demo-archive: build/$(for) build-apiserver/$(for)
	@GO='$(GO)' e2e/testbed/build.sh kubectl
	@cp e2e/testbed/bin/kubectl $(BIN)/release/$(subst /,_,$(for))/
	$(GO) build -ldflags '-s -w' -o $(BIN)/release/$(subst /,_,$(for))/demo ./e2e/demo
	@$(RELEASE) -platforms '$(for)' demo

# The commit's provenance is pushed too, and says who built it.
BUILDER ?= https://github.com/roster-mesh/roster/blob/main/Makefile

.PHONY: publish
publish: ## push the release to REGISTRY (registry.example/team): images, chart, SBOMs, provenance; SIGN_WITH='cosign sign --yes --key FILE' signs all
	@test -n '$(REGISTRY)' || { echo 'say where to: make publish REGISTRY=registry.example/team' >&2; exit 2; }
	@$(MAKE) --no-print-directory release
	@$(GO) -C cmd/internal/publish build -o $(BIN)/publish . && $(BIN)/publish -registry '$(REGISTRY)' -version '$(VERSION)' -commit '$(COMMIT)' -builder '$(BUILDER)' -dist '$(DIST)' -sign-with '$(SIGN_WITH)'

.PHONY: docs-site
docs-site: ## make a website of README.md and docs/ in dist/site
	@$(GO) run ./cmd/internal/docsite -out $(DIST)/site

.PHONY: release-check
release-check: ## check that the images are the same, byte for byte, when they are built elsewhere
	@.ci/release-check image image-apiserver

# The settings that a machine could have for the code of a processor are named, so that all build the same.
FOR_PLATFORM = GOOS=$(*D) GOARCH=$(*F) GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT= GOFIPS140=off

.PHONY: $(CROSS_BUILDS) $(APISERVER_BUILDS)
$(CROSS_BUILDS): build/%:
	$(FOR_PLATFORM) $(GO) build $(BUILD_FLAGS) -o $(BIN)/release/$(*D)_$(*F)/ $(if $(filter linux,$(*D)),./cmd/agent) ./cmd/agentctl

$(APISERVER_BUILDS): build-apiserver/%:
	$(FOR_PLATFORM) $(GO) -C kube/apiserver build -ldflags '$(APISERVER_LDFLAGS)' -o $(BIN)/release/$(*D)_$(*F)/ ./cmd/roster-apiserver

.PHONY: testbed
testbed: ## build bin/testbed and the control planes that it runs (about 8 minutes, once per version)
	@GO='$(GO)' e2e/testbed/build.sh
	@$(GO) -C e2e/testbed build -o $(BIN)/testbed .

.PHONY: testbed-oldest
testbed-oldest: testbed ## build API server and kubectl of the oldest Kubernetes that is supported, too (about 6 minutes, once)
	@GO='$(GO)' e2e/testbed/build.sh oldest

.PHONY: pods-build
pods-build: ## build what a node runs: kubelet, containerd, CoreDNS … (about 10 minutes, once per version)
	@GO='$(GO)' e2e/pods/build/build.sh
	@GO='$(GO)' e2e/pods/build/previous.sh

.PHONY: generate
generate: ## write the generated code, CRDs, and references of API and command lines
	@for script in $(wildcard */generate.sh */*/generate.sh */*/*/generate.sh */*/*/*/generate.sh); do echo "$$script" && "$$script" || exit 1; done

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## format the code
	$(GOLANGCI_LINT) fmt
	cd e2e/testbed && $(GOLANGCI_LINT) fmt --config ../../.golangci.yml
	cd e2e/profiles && $(GOLANGCI_LINT) fmt --config ../../.golangci.yml
	cd e2e/browser && $(GOLANGCI_LINT) fmt --config ../../.golangci.yml
	cd cmd/internal/publish && $(GOLANGCI_LINT) fmt --config ../../../.golangci.yml
	cd kube/apiserver && $(GOLANGCI_LINT) fmt --config ../../.golangci.yml

.PHONY: clean
clean: ## remove everything that was built
	rm -rf $(BIN) $(DIST) $(TESTBED_BIN) $(PODS_BIN)

# kubectl is built beside the API server, if there is none in PATH: what loads and what links leaves a processor to it. The
# demo itself finds out whether that of PATH is made for this version.
.PHONY: demo-build demo-build-embedded demo-kubectl
demo-build:
	$(GO) build $(BUILD_FLAGS) -o $(BIN)/ ./cmd/agent ./cmd/agentctl ./e2e/demo
demo-build-embedded: demo-build
	@$(MAKE) --no-print-directory -j 2 apiserver demo-kubectl
demo-kubectl:
	@command -v kubectl >/dev/null || GO='$(GO)' nice -n 19 e2e/testbed/build.sh kubectl

.PHONY: demo
demo: demo-build-embedded ## three clusters without Kubernetes, the quickstart step by step (DEMO_ARGS=--once ends it)
	@GO='$(GO)' $(BIN)/demo $(DEMO_ARGS)

.PHONY: demo-kubernetes
demo-kubernetes: demo-build testbed ## the same with three Kubernetes control planes
	@$(BIN)/demo --kubernetes $(DEMO_ARGS)

.PHONY: test
test: prereqs ## run every check there is, then say which failed
	@.ci/summary lint verify test-race test-build -- e2e-beside-home demo-once -- sim e2e-pods e2e-standalone e2e-registry e2e-home

.PHONY: test-release
test-release: prereqs ## run what a release must pass beyond make test: the oldest Kubernetes, each kubectl, earlier agents, signatures (an hour)
	@.ci/summary e2e-oldest e2e-kubectl e2e-older e2e-signatures

# What computes comes first, alone: the quick tests with the race detector, and not without it once more. Then come two lanes
# of tests that mostly wait: e2e and demo-once use this machine's network, and are in the same lane; those of the other lane
# have networks of their own (for root), or need none or any port. The first lane is still the longer one. All programs that
# they start are built before, so that nothing is compiled twice, and no program is replaced while it runs.
.PHONY: test-build
test-build: build testbed apiserver ## build what the end-to-end tests of make test start (once)
	@GO='$(GO)' .ci/e2e-pods --build

.PHONY: prereqs
prereqs: ## check that the tools that make test needs are installed
	@.ci/prereqs

.PHONY: lint
lint: $(GOLANGCI_LINT) ## run the linters
	$(GOLANGCI_LINT) run
	cd e2e/testbed && $(GOLANGCI_LINT) run --config ../../.golangci.yml
	cd e2e/profiles && $(GOLANGCI_LINT) run --config ../../.golangci.yml
	cd e2e/browser && $(GOLANGCI_LINT) run --config ../../.golangci.yml
	cd cmd/internal/publish && $(GOLANGCI_LINT) run --config ../../../.golangci.yml
	cd kube/apiserver && $(GOLANGCI_LINT) run --config ../../.golangci.yml

.PHONY: verify
verify: $(GOLANGCI_LINT) ## check that formatting, go.mod, generated code and the links of documents are as they should be
	@GO='$(GO)' GOLANGCI_LINT=$(GOLANGCI_LINT) .ci/verify

.PHONY: test-unit
test-unit: ## run the quick tests
	$(TEST) -parallel=8 -timeout=30m $(TESTFLAGS) $(UNIT)

.PHONY: test-race
test-race: ## run the quick tests with the race detector (needs gcc), and without it those for which that is not enough
	CGO_ENABLED=1 $(TEST) -race -short -parallel=8 -timeout=30m $(TESTFLAGS) $(RACE)
	$(TEST) -parallel=8 -timeout=30m $(TESTFLAGS) $(PLAIN) $(FULL)

# How many runs of the state machine there are; each has a seed of its own, which follows from SEED, and a failing
# one prints it. See e2e/sim for what a seed replays and what it does not.
SEEDS ?= 1000
SEED ?= $(shell date +%s)
MACHINE := ./replica -count=1 -timeout=4h -run='^TestMachine$$' -rapid.checks=$(SEEDS) -rapid.steps=60

.PHONY: sim
sim: ## simulate many agents in virtual time, and SEEDS (1000) runs of the replica's state machine, the same each time
	$(TEST) -count=1 -timeout=40m $(TESTFLAGS) ./e2e/sim/...
	$(TEST) $(MACHINE)

.PHONY: sim-search
sim-search: export RAPID_SEED := $(SEED)
sim-search: ## the same, and all property tests, from another SEED (the time): for finding what make sim does not
	@echo 'to see it again: make sim-search SEED=$(RAPID_SEED)'
	$(TEST) -count=1 -timeout=40m $(TESTFLAGS) ./e2e/sim -seed=$(RAPID_SEED)
	$(TEST) $(MACHINE)
	$(TEST) -count=1 -timeout=2h $$(grep -rl 'rapid\.Check' --include='*_test.go' . | xargs -n1 dirname | sort -u) -rapid.checks=$(SEEDS)

.PHONY: sim-mutants
sim-mutants: ## break the replica and the mesh on purpose, a line at a time, and say which test notices (10 minutes)
	$(GO) run ./e2e/sim/mutants

.PHONY: sim-scale
sim-scale: ## measure groups of up to 500 agents and write docs/scale.md (up to 20 minutes)
	$(TEST) ./e2e/sim/scale -count=1 -v -timeout=90m -run='^TestScale$$' \
		-agents=$(SCALE) -changes=20 -write='$(CURDIR)/docs'

.PHONY: fuzz
fuzz: ## search for FUZZTIME (20s) in each fuzz target; what was ever found is tested by test-unit
	@GO='$(GO)' FUZZTIME=$(FUZZTIME) .ci/fuzz

.PHONY: e2e
e2e: build testbed apiserver ## test the binaries against real control planes
	$(GO) -C e2e/testbed test -vet=off -count=1 $(TESTFLAGS) ./...
	$(GO) -C cmd/internal/publish test -vet=off -count=1 $(TESTFLAGS) ./...
	$(TEST) -count=1 -timeout=60m -p=1 $(BESIDE) $(TESTFLAGS) $(E2E)

# For make test, which has two lanes.
.PHONY: e2e-beside-home
e2e-beside-home: BESIDE = -skip='$(AT_HOME)'
e2e-beside-home: e2e

.PHONY: e2e-home
e2e-home: build testbed apiserver ## the part of e2e about what a person at one cluster sees of the group, rules with the newest fields, and examples
	$(TEST) -count=1 -timeout=20m $(TESTFLAGS) -run '$(AT_HOME)' ./e2e
	$(TEST) -count=1 -timeout=10m $(TESTFLAGS) ./e2e/documents/scenes

# How long each play of flood lasts.
MINUTES ?= 10

.PHONY: flood
flood: build testbed apiserver ## flood a cluster as a hostile member can, each play for MINUTES (10), and print what becomes of etcd, agent and honest changes (an hour, nothing else running)
	$(TEST) -count=1 -timeout=3h -v $(TESTFLAGS) -run '^TestFloods$$' ./e2e -minutes=$(MINUTES)

# How often standalone-search kills a server.
ROUNDS ?= 20

.PHONY: standalone-search
standalone-search: from := $(SEED)
standalone-search: build testbed apiserver ## kill one of one and of three standalone servers ROUNDS (20) times under writes, from another SEED (the time)
	@echo 'to see it again: make standalone-search SEED=$(from)'
	$(TEST) -count=1 -timeout=2h $(TESTFLAGS) -run='^TestLinearizable$$' ./e2e/standalone -rounds=$(ROUNDS) -seed=$(from)

.PHONY: e2e-oldest
e2e-oldest: build testbed-oldest apiserver ## test against the oldest Kubernetes that is supported, what differs between versions
	ROSTER_E2E_KUBERNETES=oldest $(TEST) -count=1 -timeout=20m $(TESTFLAGS) -run '$(OLDEST)' ./e2e
	ROSTER_E2E_KUBERNETES=oldest $(TEST) -count=1 -timeout=10m $(TESTFLAGS) ./e2e/registryapi

.PHONY: e2e-kubectl
e2e-kubectl: build testbed-oldest apiserver ## type the guide of the registry API with kubectl of each minor version, in front of the oldest and the newest Kubernetes
	@GO='$(GO)' e2e/testbed/build.sh middle
	ROSTER_E2E_KUBERNETES=oldest,newest $(TEST) -count=1 -v -timeout=10m $(TESTFLAGS) -run '^TestRegistryAPI$$/./kubectl' ./e2e/registryapi

.PHONY: e2e-standalone
e2e-standalone: build testbed apiserver ## test standalone servers, and with them in place of Kubernetes a part of e2e (STANDALONE=. for all)
	@ROSTER_E2E_KUBERNETES=standalone $(TEST) -count=1 -v -run '^TestLeftOut$$' ./e2e
	$(GO) -C kube/apiserver test -vet=off -count=1 -parallel=8 $(TESTFLAGS) ./...
	$(TEST) -count=1 -timeout=20m $(TESTFLAGS) ./e2e/standalone/...
	ROSTER_E2E_KUBERNETES=standalone $(TEST) -count=1 -timeout=40m $(TESTFLAGS) -run '$(STANDALONE)' ./e2e

.PHONY: e2e-registry
e2e-registry: build testbed apiserver ## test the registry API, and ClusterProfiles with what their SIG publishes
	@$(MAKE) --no-print-directory -j 2 e2e-registryapi e2e-profiles

# For e2e-registry, which runs them beside each other: most of the time that the second takes, it waits until agents that it
# killed are given up.
.PHONY: e2e-registryapi e2e-profiles
e2e-registryapi:
	$(TEST) -count=1 -timeout=10m $(TESTFLAGS) ./e2e/registryapi
e2e-profiles:
	$(GO) -C e2e/profiles test -vet=off -count=1 -timeout=20m $(TESTFLAGS) ./...

.PHONY: e2e-pods
e2e-pods: ## test chart, image and README in three real clusters with pods (Linux, root)
	@GO='$(GO)' .ci/e2e-pods $(TESTFLAGS)

# The API server for clusters without Kubernetes takes minutes to build from nothing, and one part alone starts it.
.PHONY: bench
bench: build testbed $(if $(findstring standalone,$(BENCH_ARGS)),apiserver) ## measure beside the API servers' own limit and the budgets (BENCH_ARGS=--quick for 2 minutes)
	$(GO) run ./e2e/bench $(BENCH_ARGS)

.PHONY: bench-registry
bench-registry: build testbed apiserver ## measure the registry API beside the stored Clusters of the same API server (5 minutes, nothing else running)
	$(TEST) -count=1 -timeout=20m -v $(TESTFLAGS) -run '^TestRegistryAPI$$/./figures' ./e2e/registryapi -figures | grep -e × -e FAIL -e '^ok'

# How many writes registry-search makes.
STEPS ?= 10000

.PHONY: bench-fleet
bench-fleet: ## measure the page and the questions to all members, with 5 and 500 clusters (two minutes, nothing else running)
	$(TEST) -run '^$$' -bench '^Benchmark(Ask|Page)$$' -benchtime=20x ./cmd/agentctl/internal/fleet ./cmd/agentctl/internal/ui

.PHONY: registry-search
registry-search: from := $(SEED)
registry-search: build testbed apiserver ## compare what four callers of the registry API see of 1,000 Clusters with what they may get, over STEPS (10000) writes, from another SEED (the time)
	@echo 'to see it again: make registry-search SEED=$(from)'
	$(TEST) -count=1 -timeout=2h -v $(TESTFLAGS) -run '^TestRegistryAPI$$/./four' ./e2e/registryapi -steps=$(STEPS) -clusters=1000 -seed=$(from)

.PHONY: demo-cold
demo-cold: ## how long the demo takes on a machine that has compiled nothing yet, over demo-kubernetes (15 minutes, nothing else running)
	@GO='$(GO)' .ci/demo-cold

.PHONY: cold-cost
cold-cost: ## how many minutes PART (standalone, registry or home) adds to make test on a machine that has compiled nothing yet (up to 25 minutes, nothing else running)
	@GO='$(GO)' .ci/cold-cost $(PART) $(CACHE)

.PHONY: agent-figures
agent-figures: ## size of bin/agent, and what it allocates before main, over those of the commit BEFORE (HEAD^)
	@GO='$(GO)' .ci/agent-figures $(or $(BEFORE),HEAD^) $(AFTER)

.PHONY: e2e-browser
e2e-browser: build testbed ## look at the page of agentctl ui with Chromium, which must be installed (PICTURES=docs/images writes those of the README)
	$(GO) -C e2e/browser test -vet=off -count=1 -timeout=15m $(TESTFLAGS) ./... $(if $(PICTURES),-write '$(abspath $(PICTURES))')

# Argo CD and Flux take a quarter of an hour to build, and a newer Go, which comes from the module proxy. So neither they nor
# their modules are a part of make test, lint, verify, or what these download: build.sh checks them.
.PHONY: e2e-gitops
e2e-gitops: build testbed ## build Argo CD and Flux, and have them deploy with what agentctl export writes (15 minutes the first time)
	@GO='$(GO)' e2e/gitops/build/build.sh
	$(TEST) -count=1 -timeout=20m $(TESTFLAGS) ./e2e/gitops

.PHONY: e2e-signatures
e2e-signatures: $(COSIGN) ## publish to a registry of the test's own, and have cosign sign and verify what is there
	$(GO) -C cmd/internal/publish test -vet=off -count=1 $(TESTFLAGS) . -cosign $(COSIGN)

.PHONY: e2e-older
e2e-older: build ## the test of a group with an agent of an earlier commit, BEFORE (the last that reads rules leniently)
	@GO='$(GO)' .ci/e2e-older $(BEFORE)

.PHONY: demo-once
demo-once: demo-build-embedded
	@GO='$(GO)' $(BIN)/demo --once

$(COSIGN):
	@echo "installing cosign $(COSIGN_VERSION) from source (some minutes, once)"
	@GOBIN=$(BIN)/.cosign GOFLAGS= CGO_ENABLED=0 $(GO) install -trimpath -ldflags '-s -w' github.com/sigstore/cosign/v3/cmd/cosign@$(COSIGN_VERSION)
	@mv $(BIN)/.cosign/cosign $@ && rmdir $(BIN)/.cosign

# The stamp's name holds the version, so that a new version is installed when this file asks for one.
$(GOLANGCI_LINT): $(BIN)/.golangci-lint-$(GOLANGCI_LINT_VERSION)
$(BIN)/.golangci-lint-$(GOLANGCI_LINT_VERSION):
	@echo "installing golangci-lint $(GOLANGCI_LINT_VERSION) from source (a few minutes, once)"
	@mkdir -p $(BIN)
	@GOBIN=$(BIN) $(GO) install \
		github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	@rm -f $(BIN)/.golangci-lint-* && touch $@
