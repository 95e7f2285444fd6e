package guard

import (
	"slices"
	"strings"
	"testing"
)

// family is a kind of package. Arrows between families are the architecture.
type family string

const (
	domain    family = "domain"    // nouns, states, pure rules, errors
	contract  family = "contract"  // what services may ask of a database
	tool      family = "tool"      // small things that know nothing of the relay
	service   family = "service"   // what the relay does
	adapter   family = "adapter"   // databases
	edge      family = "edge"      // HTTP and WebSocket
	wire      family = "wire"      // programs that talk to a relay
	assembly  family = "assembly"  // what knows every part
	command   family = "command"   // what a person types
	library   family = "library"   // public packages
	testing_  family = "testing"   // help for tests
	programs_ family = "benchmark" // programs that measure
)

// families says where each package belongs. A new package is placed here, or the test fails.
var families = map[string]family{
	"internal/relay": domain, "internal/ledger": domain, "internal/fault": domain,
	"internal/store":      contract,
	"internal/strictjson": tool, "internal/egress": tool, "internal/lifecycle": tool, "internal/config": tool, "internal/telemetry": tool,
	"internal/mailbox": service, "internal/presence": service, "internal/pairing": service, "internal/credential": service,
	"internal/allowance": service, "internal/oauth": service, "internal/clips": service, "internal/sweep": service, "internal/payload": service,
	"internal/catalog": service, "internal/events": service,
	"internal/sqlite": adapter, "internal/postgres": adapter,
	"internal/web": edge, "internal/agentapi": edge, "internal/mcpapi": edge, "internal/deviceapi": edge, "internal/oauthapi": edge, "internal/webapp": edge, "internal/admin": edge,
	"internal/client": wire, "internal/conform": wire,
	"internal/app": assembly,
	"internal/cli": command, "cmd/herald": command,
	"internal/storetest": testing_, "internal/pgtest": testing_, "internal/testkit": testing_, "internal/guard": testing_, "e2e": testing_,
	"bench":     programs_,
	"mcpevents": library, "webhook": library,
}

// arrows lists what each family may import of ours, with the reason for what is missing.
var arrows = map[family]struct {
	to  []family
	why string
}{
	domain:    {[]family{domain}, "rules without I/O can be tested by tables and used by everybody"},
	contract:  {[]family{domain}, "adapters and services meet in it; it must not know either"},
	tool:      {[]family{domain, tool}, "a tool that knows the relay is no tool"},
	service:   {[]family{domain, contract, tool, service}, "what the relay does must not depend on how it is reached or where it is kept"},
	adapter:   {[]family{domain, contract, tool}, "adapters are interchangeable: they share a contract and its suite, no code and no service"},
	edge:      {[]family{domain, contract, tool, service, edge}, "an edge translates a protocol; with an adapter at hand it would begin to decide"},
	wire:      {[]family{domain, tool}, "what a client knows it must know from the wire, or it proves nothing about it"},
	assembly:  {[]family{domain, contract, tool, service, adapter, edge, library}, "the one place that knows every part; nothing of tests or commands"},
	command:   {[]family{domain, contract, tool, service, adapter, wire, assembly, command, library}, "commands parse, call and print; edges belong to the assembly"},
	library:   {[]family{library}, "a stranger who imports the library must not compile a relay; internal/egress is the one exception"},
	testing_:  {[]family{domain, contract, tool, service, adapter, edge, wire, assembly, command, library, testing_}, "tests may look everywhere"},
	programs_: {[]family{domain, contract, tool, service, adapter, edge, wire, assembly, command, library, testing_}, "benchmarks may look everywhere"},
}

// exceptions are single arrows that the families alone would forbid, each with its reason.
var exceptions = map[[2]string]string{
	{"mcpevents", "internal/egress"}:   "outbound calls of the library go through the same address guard as the relay's",
	{"internal/sqlite", "mcpevents"}:   "the relay's stores are drivers of the library, on their own transactions",
	{"internal/postgres", "mcpevents"}: "likewise",
	{"internal/store", "mcpevents"}:    "a reply and its event are one transaction, so the contract hands out the library's view of it",
	{"internal/mcpapi", "mcpevents"}:   "events are answered on the endpoint where tools are",
	{"internal/events", "mcpevents"}:   "replies are events of the library",
	{"internal/catalog", "mcpevents"}:  "a workspace's event types are event types of the library",
	{"internal/cli", "internal/admin"}: "the command line is the other end of the operator's socket",
}

// narrower are packages that may import less than their family.
var narrower = map[string]struct {
	ours []string
	why  string
}{
	"internal/fault": {nil, "the error language is below everything"},
	"internal/relay": {[]string{"internal/fault"}, "the domain knows its errors and nothing else"},
	"webhook":        {nil, "signing and verifying is worth importing alone"},
}

func familyOf(pkg string) (family, string) {
	for name, f := range families {
		if within(pkg, name) {
			return f, name
		}
	}
	return "", ""
}

func TestPackagesImportOnlyWhatTheirFamilyMay(t *testing.T) {
	for _, f := range load(t).gos {
		from, name := familyOf(f.pkg)
		if from == "" {
			t.Errorf("%s belongs to no family; place it in the table of internal/guard", f.pkg)
			continue
		}
		if f.isTest() {
			continue
		}
		for _, imp := range f.imports() {
			to, own := ours(imp)
			if !own {
				continue
			}
			target, toName := familyOf(to)
			if name != toName && exceptions[[2]string{name, toName}] == "" && !slices.Contains(arrows[from].to, target) {
				t.Errorf("%s (%s) imports %s (%s): %s", f.path, from, to, target, arrows[from].why)
			}
			if from == adapter && target == adapter && name != toName {
				t.Errorf("%s imports the adapter %s: %s", f.path, to, arrows[adapter].why)
			}
			if n, has := narrower[name]; has && name != toName && !slices.Contains(n.ours, toName) {
				t.Errorf("%s imports %s: %s", f.path, to, n.why)
			}
		}
	}
}

// door names the packages through which a module of others may enter. Tests may use any module that has a door.
type door struct {
	module string
	at     []string
	why    string
}

var doors = []door{
	{"modernc.org/sqlite", []string{"internal/sqlite", "bench"}, "the embedded database is one adapter"},
	{"modernc.org/libc", []string{"internal/sqlite"}, "the embedded database is one adapter"},
	{"github.com/jackc/pgx/v5", []string{"internal/postgres", "internal/pgtest", "bench"}, "PostgreSQL is one adapter"},
	{"github.com/pressly/goose/v3", []string{"internal/sqlite", "internal/postgres"}, "migrations belong to adapters"},
	{"github.com/coder/websocket", []string{"internal/deviceapi", "internal/client", "internal/testkit", "bench", "e2e"}, "the stream has two ends"},
	{"github.com/go-json-experiment/json", []string{"internal/web", "internal/agentapi", "internal/mcpapi", "internal/deviceapi", "internal/admin", "internal/payload", "internal/client", "internal/postgres",
		"internal/cli", "internal/strictjson", "internal/testkit", "bench", "e2e"}, "JSON lives at the edges, and in hints between processes"},
	{"github.com/prometheus/client_golang", []string{"internal/telemetry"}, "metrics are named in one place"},
	{"github.com/alecthomas/kong", []string{"internal/cli", "cmd/herald"}, "only commands parse flags"},
	{"github.com/jotaen/kong-completion", []string{"internal/cli", "cmd/herald"}, "only commands parse flags"},
	{"github.com/mdp/qrterminal/v3", []string{"internal/cli"}, "only commands draw on terminals"},
	{"github.com/gen2brain/beeep", []string{"internal/cli", "internal/client"}, "only a device shows notifications"},
	{"golang.org/x/term", []string{"internal/cli"}, "only commands know terminals"},
	{"golang.org/x/sys", []string{"internal/cli", "internal/sqlite", "internal/clips", "internal/app", "bench"}, "system calls of files and limits"},
	{"golang.org/x/crypto", []string{"internal/app"}, "certificates are got by the listener"},
	{"golang.org/x/text", []string{"internal/cli", "internal/webapp"}, "only what shows strangers' text measures and unfolds it"},
	{"golang.org/x/sync", []string{"internal/app", "internal/postgres", "internal/sqlite", "internal/client", "internal/cli", "bench"}, "small helpers for goroutines"},
	{"github.com/goccy/go-yaml", []string{"internal/catalog"}, "catalogs are the only files in YAML"},
	{"github.com/google/jsonschema-go", []string{"mcpevents", "internal/conform"}, "schemas are the library's, and the checker's that judges by them alone"},
	{"github.com/modelcontextprotocol/go-sdk", []string{"mcpevents/gosdk", "bench"}, "only the glue to the SDK compiles it"},
	{"github.com/google/go-cmp", []string{"internal/storetest", "internal/testkit", "internal/pgtest", "mcpevents/drivertest"}, "comparing is for tests"},
	{"github.com/rogpeppe/go-internal", []string{"e2e", "internal/testkit"}, "scripts of the real binary are tests"},
	{"go.uber.org/goleak", []string{"internal/testkit", "internal/storetest"}, "leak checks are tests"},
	{"pgregory.net/rapid", []string{"internal/storetest", "internal/testkit"}, "generated histories are tests"},
}

func TestModulesOfOthersEnterThroughTheirDoor(t *testing.T) {
	for _, f := range load(t).gos {
		if f.isTest() {
			continue
		}
		for _, imp := range f.imports() {
			if !isThirdParty(imp) {
				continue
			}
			i := slices.IndexFunc(doors, func(d door) bool { return within(imp, d.module) })
			switch {
			case i < 0:
				t.Errorf("%s imports %s, which has no door in the table of internal/guard and no page in docs/decisions", f.path, imp)
			case !within(f.pkg, doors[i].at...):
				t.Errorf("%s imports %s: %s (through %s)", f.path, imp, doors[i].why, strings.Join(doors[i].at, ", "))
			}
		}
	}
}

func TestOnlyTestsImportTesting(t *testing.T) {
	for _, f := range load(t).gos {
		if f.isTest() || isHelp(f.pkg) {
			continue
		}
		for _, imp := range f.imports() {
			if within(imp, "testing") || imp == "net/http/httptest" {
				t.Errorf("%s imports %s: what a program ships must not carry test code", f.path, imp)
			}
		}
	}
}

// mayHoldSQL are the packages in which SQL and database drivers may stand.
var mayHoldSQL = []string{"internal/sqlite", "internal/postgres", "internal/pgtest", "bench"}

func TestOnlyStoresKnowDatabases(t *testing.T) {
	for _, f := range load(t).gos {
		if within(f.pkg, mayHoldSQL...) || f.isTest() {
			continue
		}
		if slices.Contains(f.imports(), "database/sql") {
			t.Errorf("%s imports database/sql; SQL belongs to %s", f.path, strings.Join(mayHoldSQL, ", "))
		}
	}
}
