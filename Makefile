# toolhost: build, test and measure. `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

MODULES := sdk host plugins/bash plugins/edit plugins/grep plugins/read bench
PLUGINS := bash edit grep read
BUILD := go build -trimpath -ldflags="-s -w"

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

.PHONY: build
build: ## Build bin/toolhost and the bundled plugins in bin/plugins/
	@mkdir -p bin/plugins
	@$(BUILD) -o bin/toolhost ./host/cmd/toolhost
	@for p in $(PLUGINS); do $(BUILD) -o bin/plugins/$$p ./plugins/$$p; done
