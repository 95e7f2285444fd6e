# Everything here is a short name for a command that also works without make.
FUZZTIME ?= 10s

.PHONY: help check test race fuzz e2e bench build docs all

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## /{printf "make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check: ## format, vet, staticcheck, tidy modules, the rules of the repository
	scripts/check

test: ## all tests but the end-to-end ones (PostgreSQL's too when HERALD_TEST_POSTGRES is set)
	go test $$(go list ./... | grep -v /e2e)

race: ## the same under the race detector
	go test -race $$(go list ./... | grep -v /e2e)

fuzz: ## each fuzz target for FUZZTIME (10s)
	scripts/fuzz $(FUZZTIME)

e2e: ## the built program, end to end
	go test -count=1 ./e2e/...

bench: ## speed and memory against floor programs; prints the table of docs/performance.md
	go run ./bench

build: ## the program, as dist/herald
	CGO_ENABLED=0 go build -trimpath -o dist/herald ./cmd/herald

docs: ## rewrite the parts of docs that are made from code
	go test ./internal/config -run TestDocumentation -update

all: ## everything, as CI does it
	scripts/test
