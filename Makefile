# toolhost: build, test and measure. `make help` lists the targets; tools/task carries them out.
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
TASK := bin/tools/task
CHECKS := check-format check-tidy check-vet check-systems check-lint check-generated check-config check-reference check-size check-dead check-oracle check-plugins check-prose check-documents check-requirements

.PHONY: help test check $(TASK)
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | sort | awk -F '\t' '{printf "  %-16s %s\n", $$1, $$2}'

$(TASK):
	@GOWORK=off go -C tools build -o ../$@ ./task

build: ## Build bin/toolhost, its shim, its launcher and the bundled plugins in bin/plugins/
install: ## Build and install below PREFIX (/usr/local), in DESTDIR: programs, plugins, manual pages, completions
uninstall: ## Remove what install installed below PREFIX, in DESTDIR
demo: build ## Build everything and run the tools on this repository's own files
demo-fleet: build ## Build everything and start a fleet of two nodes on this machine, until Ctrl-C
generate: ## Generate code from the protocol, and docs/reference
console-assets: ## Copy the web console's scripts from the npm packages that its lock file pins
grammars: ## Build the grammars of code_query from pinned sources, with a compiler that npm installs (LANGUAGES)
clean: ## Remove everything that was built and installed

test: $(filter-out check-vet,$(CHECKS)) ## Everything CI checks; a check that passed with the same files is not repeated
test-docs: ## The tests of the guides, of the kits for plugins, and of what authors ship, also if nothing of it changed
test-programs: ## Build the programs that tests start, and print their directory
unit: ## All tests, with the race detector, beside their peers
conformance: ## The official conformance suite and clients of MCP
soak: ## Kill plugins at random under load for SOAKTIME=60s: no call that only reads may fail, nothing may remain
soak-order: ## Compare HISTORIES=10000 random histories of pipelined calls with sequential execution
soak-upgrade: ## Upgrade a plugin UPGRADES=100 times while 64 callers use it: no call is lost, refused versions leave the one before
soak-mounts: ## Install 71 public MCP servers (5 GB), mount each, and call its tools directly and through the mount
soak-agents: ## Install four agents (0.8 GB), and compare their lists of servers with what toolhost setup wrote
soak-long: ## The long forms of tests that make test runs in a short form: rollouts, kills, tapes, 100 000 lines for toolhost mcp, each command in each hostile repository
soak-fleet: ## Break a fleet of five nodes at random for FLEETTIME=10m, and show that each guard is needed
soak-branches: ## Work with many processes in the same branches for BRANCHTIME=10m: no acknowledged change may be lost
soak-reflinks: ## Copy and check branches on new disks with xfs and btrfs, which takes root and their mkfs
fuzz: ## Fuzz each target for FUZZTIME=30s
bench: build peers ## Measure beside the peers and print ratios (SUITE)
callpath: ## Print the way of a request to its queue: its functions, files, and returns to files
peers: ## Install the programs that tests and benchmarks run beside, pinned
peers-debian: ## Unpack gRPC for Python, fd, ctags, Chromium, Prometheus and others from the system's archive

check: $(CHECKS) ## Everything that is checked without running the program
check-format: ## The code is formatted by gofmt (fix-format)
check-tidy: ## go.mod and go.sum are tidy (fix-tidy)
check-vet: ## go vet finds nothing (check-lint includes it)
check-systems: ## The code compiles on the other systems it is built for
check-lint: ## golangci-lint finds nothing (fix-lint)
check-generated: ## Generated code is current, and the protocol passes its linter (generate)
check-config: build ## The tour of the configuration is valid
check-reference: build ## docs/reference is current (generate)
check-size: ## No tracked file but the grammars is over 1 MB
check-dead: ## Each function is reachable
check-oracle: ## Tests that only compute are named TestOracle…, and only they are hidden from the race detector
check-plugins: ## go.work, the bundled plugins and their manifests agree
check-prose: ## Comments begin with a name and use no phrase to avoid; comments and code have at most 120 columns
check-documents: ## Links of documents lead somewhere, and decisions are short
check-requirements: ## Each requirement has a test that exists
fix-format: ## Format the code
fix-tidy: ## Tidy go.mod and go.sum
fix-lint: ## Let golangci-lint fix what it can
dist: ## Make a release in dist/: archives for all platforms, checksums, bills of materials, and what packages makes
packages: ## Make what authors of plugins use, in OUT=dist/packages: a Go module proxy, the wheel, the npm package, the protocol
check-dist: ## A release for this machine is the same when made twice; its archive, Go modules, wheel and npm package work

TARGETS := test build install uninstall demo demo-fleet generate console-assets grammars clean unit test-docs test-programs conformance soak soak-order soak-upgrade soak-mounts soak-agents soak-long soak-fleet soak-branches soak-reflinks fuzz bench callpath peers peers-debian dist packages check-dist $(CHECKS) fix-format fix-tidy fix-lint
.PHONY: $(TARGETS)
$(TARGETS): $(TASK)
	@$(TASK) $@
