# The commands of this repository. Each calls a script or `cargo xtask`.

PREFIX ?= /usr/local
CARGO ?= cargo
# rustup's cargo, also in a shell that has not read its `env`; tools of the system, also for a user.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin:/usr/sbin:/sbin
# Where cargo puts what it builds; the environment may have chosen another folder.
export CARGO_TARGET_DIR ?= $(CURDIR)/target

.DEFAULT_GOAL := help
.PHONY: help deps demo test test-corpus look install deb

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1|/p' $(firstword $(MAKEFILE_LIST)) | \
	  while IFS='|' read -r name text; do printf '%-22s %s\n' "$$name" "$$text"; done

deps: ## Install what building and running need (Debian and its like)
	@sh scripts/install-deps.sh

demo: deps ## Run everything once on a generated network and write a report
	@sh scripts/demo.sh

test: ## All tests and house rules; what the automation runs
	@sh scripts/install-deps.sh --test
	@$(CARGO) xtask ci

# `make test-corpus DIR=../rulesets` and `make test-corpus ../rulesets` are the same.
ifeq ($(firstword $(MAKECMDGOALS)),test-corpus)
DIR ?= $(word 2,$(MAKECMDGOALS))
endif

test-corpus: ## Run the tests over published rulesets (DIR=...) and iptables' own suite
	@sh scripts/install-deps.sh --test
	@$(CARGO) xtask corpus '$(DIR)'

look: deps ## Look at the pages of all studies in a headless Chromium
	@sh scripts/install-deps.sh --look
	@$(CARGO) build --release --locked --package weir
	@rm -rf '$(CARGO_TARGET_DIR)/pages'
	@'$(CARGO_TARGET_DIR)/release/weir' lab index -o '$(CARGO_TARGET_DIR)/pages'
	@for study in kadlecsik2005-rules hagtheil-empty-tables; do \
	  run=$$(ls -d studies/$$study/runs/* | tail -n 1) && '$(CARGO_TARGET_DIR)/release/weir' lab report \
	    "$$run" "$$run" -o "$(CARGO_TARGET_DIR)/pages/$$study-beside.html" > /dev/null || exit; \
	done
	@sh scripts/look.sh '$(CARGO_TARGET_DIR)'/pages/*.html

install: deps ## Build and install weir, its man page and completions (PREFIX=/usr/local)
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' sh scripts/install.sh

deb: ## Build a Debian package: target/debian/weir_*.deb
	@sh scripts/install-deps.sh --deb
	@sh scripts/make-deb.sh
