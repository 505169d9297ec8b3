# toolhost: build, test and measure. `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

MODULES := bench sdk host plugins/ask plugins/bash plugins/edit plugins/function plugins/grep plugins/mcp plugins/read plugins/snippet
# All modules of the workspace at once: one process finds what they share once.
PACKAGES := $(MODULES:%=./%/...)
PLUGINS := ask bash edit function grep mcp read snippet
# Modules outside of the workspace.
OUTSIDE := examples/httpapi examples/legacy tools
# Without cgo: the binaries need nothing of the system, and start sooner.
BUILD := CGO_ENABLED=0 go build -trimpath -ldflags="-s -w"
# The host and the shim begin at entry points of their own, where there are such.
ENTRY = $(if $(filter linux/amd64 linux/arm64,$(shell go env GOOS)/$(shell go env GOARCH)),-E $(1))
BUILD_FROM = CGO_ENABLED=0 go build -trimpath -ldflags="-s -w $(call ENTRY,$(1))"
TOOLS := bin/tools
PEERS := bench/peers/node_modules/.installed
RG := $(CURDIR)/bench/peers/node_modules/@vscode/ripgrep-$(shell go env GOOS)-$(patsubst amd64,x64,$(shell go env GOARCH))/bin/rg
HAVE_NPM := $(shell command -v npm)
# Programs that tests run beside, and Python's gRPC, from the system's own archive, unpacked and not installed.
DEBIAN := bench/peers/debian/.installed

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}' | sort -u

.PHONY: build
build: ## Build bin/toolhost, its shim, its launcher and the bundled plugins in bin/plugins/
	@mkdir -p bin/plugins
	@$(call BUILD_FROM,main.entry) -o bin/toolhost ./host/cmd/toolhost
	@$(BUILD) -o bin/toolhost-sandbox ./host/cmd/toolhost-sandbox
	@$(call BUILD_FROM,main.entry) -o bin/toolhost-shim ./host/cmd/toolhost-shim
	@for p in $(PLUGINS); do $(BUILD) -o bin/plugins/$$p ./plugins/$$p; done

.PHONY: demo
demo: build ## Build everything and run the tools on this repository's own files
	@./demo.sh

.PHONY: test
test: check unit ## Everything CI checks

.PHONY: unit
unit: try-debian

.PHONY: try-debian
try-debian:
	@$(MAKE) $(DEBIAN) || { echo "LEFT OUT: plugins in Python and the comparisons with fd and ctags, because these could not be had: that takes apt-get, dpkg and /usr/bin/python3 of Debian 12."; \
	if [ "$${CI:-}" = true ]; then echo "CI must leave nothing out: run it on Debian 12." >&2; exit 1; fi; }

# Tests that only compute, often beside another program, are in files that are not built for the race detector: it would
# find nothing and take most of the time. They are found by that constraint, so that none is left out of both.
COMPUTING = $(shell grep -rlE --include='*_test.go' '^//go:build (.* )?!race$$' $(MODULES))
comma := ,
empty :=
space := $(empty) $(empty)
COMPUTE = go test -vet=off -count=1 -timeout 15m $$FLAGS -run '^($(subst $(space),|,$(shell grep -ho '^func \(Test\|Fuzz\)[A-Za-z0-9_]*' $(COMPUTING) | cut -c6-)))$$' $(sort $(patsubst %,./%,$(dir $(COMPUTING))))

# Those whose tests are full of waiting and of limits of time run alone, the others two at a time.
ALONE := host plugins/bash
TEST_MODULE = bash -c 'log=$$(mktemp); failed=0; (cd {} && go test -race -vet=off -count=1 -timeout 15m $$FLAGS ./...) >"$$log" 2>&1 || failed=1; echo "test {}"; cat "$$log"; rm "$$log"; exit $$failed'
TEST_MODULES = failed=0; $(COMPUTE) || failed=1; printf '%s\n' $(ALONE) | xargs -P 1 -I{} $(TEST_MODULE) || failed=1; \
	printf '%s\n' plugins/grep sdk $(filter-out plugins/grep sdk $(ALONE),$(MODULES)) | xargs -P 2 -I{} $(TEST_MODULE) || failed=1; exit $$failed

ifneq ($(HAVE_NPM),)
unit: $(PEERS) ## All tests, with the race detector, beside their peers
	@export TOOLHOST_RG="$(RG)" TOOLHOST_PEERS="$(CURDIR)/bench/peers" FLAGS="-tags=oracle"; $(TEST_MODULES)
else
unit: ## All tests, with the race detector, beside their peers
	@export TOOLHOST_PEERS="$(CURDIR)/bench/peers"; $(TEST_MODULES)
	@echo "LEFT OUT: the comparison with ripgrep and the MCP clients and conformance suite, because there is no npm to install them with."
	@if [ "$${CI:-}" = true ]; then echo "CI must leave nothing out: install npm." >&2; exit 1; fi
endif

.PHONY: conformance
conformance: $(PEERS) ## The official conformance suite and clients of MCP
	@cd host && TOOLHOST_PEERS="$(CURDIR)/bench/peers" go test -count=1 -timeout 10m -tags oracle -run 'TestConformance|TestTypeScriptClients|TestInspector' -v ./cmd/toolhost

$(PEERS): bench/peers/package.json bench/peers/package-lock.json
	@npm ci --prefix bench/peers --no-audit --no-fund --loglevel=error >/dev/null
	@touch $@

$(DEBIAN): bench/peers/debian.txt
	@rm -rf $(@D) && mkdir -p $(@D)/bin
	@cd $(@D) && get() { apt-get download -qq -o APT::Sandbox::User=root $$(cat ../debian.txt); } && { get 2>/dev/null || { apt-get update -qq && get; }; } && for d in *.deb; do dpkg -x $$d .; done && rm *.deb
	@ln -s /usr/bin/python3 $(@D)/bin/python3; ln -s ../usr/bin/fdfind $(@D)/bin/fd; ln -s ../usr/bin/ctags-universal $(@D)/bin/ctags
	@LD_LIBRARY_PATH=$$(echo $(CURDIR)/$(@D)/usr/lib/*-linux-gnu) PYTHONPATH=$(CURDIR)/$(@D)/usr/lib/python3/dist-packages $(@D)/bin/python3 -c 'import grpc'
	@touch $@

.PHONY: peers-debian
peers-debian: $(DEBIAN) ## Unpack gRPC for Python, fd and ctags, from the system's archive

.PHONY: peers
peers: $(PEERS) ## Install the programs that tests and benchmarks run beside, pinned

.PHONY: check
check: check-format check-tidy check-vet check-lint check-generated check-config check-reference ## Everything that is checked without running the program

.PHONY: check-format
check-format: ## gofmt is content (fix-format)
	@out=$$(gofmt -l $(MODULES) $(OUTSIDE)); [ -z "$$out" ] || { echo "not formatted (make fix-format):"; echo "$$out"; exit 1; }

.PHONY: fix-format
fix-format: ## Format the code
	@gofmt -w $(MODULES) $(OUTSIDE)

.PHONY: check-tidy
check-tidy: ## go.mod and go.sum are tidy (fix-tidy)
	@for m in $(MODULES) $(OUTSIDE); do (cd $$m && GOWORK=off go mod tidy -diff >/dev/null) || { echo "$$m/go.mod is not tidy (make fix-tidy)"; exit 1; }; done

.PHONY: fix-tidy
fix-tidy: ## Tidy go.mod and go.sum
	@for m in $(MODULES) $(OUTSIDE); do (cd $$m && GOWORK=off go mod tidy); done

.PHONY: check-vet
check-vet: ## go vet, for the systems it is built for
	@go vet $(PACKAGES) && GOARCH=arm64 go vet $(PACKAGES) && GOOS=darwin go vet $(PACKAGES) && go vet -tags oracle $(PACKAGES)
	@for m in $(OUTSIDE); do (cd $$m && GOWORK=off go vet ./...); done

.PHONY: check-lint
check-lint: $(TOOLS)/.built ## golangci-lint (fix-lint)
	@$(TOOLS)/golangci-lint run --allow-parallel-runners $(PACKAGES)
	@for m in $(OUTSIDE); do (cd $$m && GOWORK=off $(CURDIR)/$(TOOLS)/golangci-lint run --allow-parallel-runners ./...); done

.PHONY: fix-lint
fix-lint: $(TOOLS)/.built ## Let golangci-lint mend what it can
	@for m in $(MODULES); do (cd $$m && $(CURDIR)/$(TOOLS)/golangci-lint run --fix ./...); done
	@for m in $(OUTSIDE); do (cd $$m && GOWORK=off $(CURDIR)/$(TOOLS)/golangci-lint run --fix ./...); done

.PHONY: check-generated
check-generated: $(TOOLS)/.built ## Generated code is current, and the protocol passes its linter (generate)
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; cp -r sdk/proto sdk/buf.yaml sdk/buf.gen.yaml $$tmp/; \
	export PATH="$(CURDIR)/$(TOOLS):$$PATH"; cd $$tmp && buf lint && buf generate && \
	buf generate proto --path proto/toolhost/v1 --template $(CURDIR)/examples/legacy/buf.gen.yaml && \
	diff -r toolpb $(CURDIR)/sdk/toolpb >/dev/null && diff -r legacypb $(CURDIR)/examples/legacy/legacypb >/dev/null || { echo "generated code is not current (make generate)"; exit 1; }

.PHONY: check-config
check-config: build ## The tour of the configuration is valid
	@bin/toolhost config validate --config config.hcl >/dev/null

.PHONY: check-reference
check-reference: build ## docs/reference is current (generate)
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; bin/toolhost reference $$tmp && diff -ru docs/reference $$tmp >&2 || { echo "docs/reference is not current (make generate)"; exit 1; }

.PHONY: generate
generate: $(TOOLS)/.built build ## Generate code from the protocol, and docs/reference
	@bin/toolhost reference docs/reference
	@cd sdk && PATH="$(CURDIR)/$(TOOLS):$$PATH" buf generate
	@cd examples/legacy && PATH="$(CURDIR)/$(TOOLS):$$PATH" buf generate ../../sdk/proto --path ../../sdk/proto/toolhost/v1

.PHONY: grammars
grammars: ## Build the grammars of code_query, from sources and a compiler that npm installs, pinned
	@npm ci --prefix plugins/grep/grammar/build --no-audit --no-fund --loglevel=error >/dev/null
	@node plugins/grep/grammar/build/build.mjs $(LANGUAGES)

$(TOOLS)/.built: tools/go.mod tools/go.sum
	@mkdir -p $(TOOLS)
	@cd tools && GOWORK=off go build -o $(CURDIR)/$(TOOLS)/ tool
	@touch $@

VERSION = $(shell sed -n 's/^const Version = "\(.*\)"$$/\1/p' host/host.go)
DIST = cd tools && GOWORK=off go run ./dist -root $(CURDIR) -version $(VERSION) -plugins $(subst $(space),$(comma),$(PLUGINS))

.PHONY: dist
dist: ## Make the archives of a release in dist/: all platforms, checksums, bills of materials
	@$(DIST) -out $(CURDIR)/dist

.PHONY: check-dist
check-dist: ## The archive for this machine is the same when made twice, and what is in it works
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; platform=$$(go env GOOS)/$$(go env GOARCH); \
	for n in 1 2; do ($(DIST) -out $$tmp/$$n -platforms $$platform); done; \
	diff -r $$tmp/1 $$tmp/2 || { echo "two archives of the same commit differ"; exit 1; }; \
	cd $$tmp/1 && sha256sum --check --quiet SHA256SUMS && tar xzf *.tar.gz && cd toolhost_*/ && \
	for f in README.md config.hcl sbom.cdx.json toolhost-shim toolhost-sandbox man/man1/toolhost.1 $(PLUGINS:%=plugins/%); do test -s $$f || { echo "$$f is missing"; exit 1; }; done && \
	./toolhost version && ./toolhost --state $$tmp/state run 'read README.md --limit 1' && ./toolhost --state $$tmp/state run 'echo from the shell'

.PHONY: bench
bench: build $(PEERS) ## Measure beside what must be beaten, and print ratios
	@mkdir -p bin/bench
	@$(BUILD) -o bin/bench/ ./bench
	@$(BUILD) -o bin/bench/ ./bench/internal/bareplugin ./bench/internal/barehost
	@./bin/bench/bench $(SUITE)

.PHONY: soak
soak: ## Kill plugins at random under load, for SOAKTIME=60s: nothing may fail that only reads, and nothing may be left
	@cd host && TOOLHOST_SOAK=$${SOAKTIME:-60s} go test -count=1 -timeout 60m -run '^TestSoak$$' -v .

.PHONY: fuzz
fuzz: ## Fuzz each target for a while (FUZZTIME=30s)
	@for m in $(MODULES); do (cd $$m && for f in $$(grep -rlE '^func Fuzz' --include='*_test.go' . || true); do \
		for t in $$(grep -ohE '^func Fuzz[A-Za-z0-9_]+' $$f | cut -c6-); do go test -run '^$$' -fuzz "^$$t$$" -fuzztime $${FUZZTIME:-30s} -fuzzminimizetime 20x ./$$(dirname $$f); done; done); done

.PHONY: clean
clean: ## Remove what was built and installed
	@rm -rf bin dist bench/peers/node_modules bench/peers/debian
