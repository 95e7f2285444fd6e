// Command bench measures the relay against floors in the same run and prints ratios beside their targets.
//
// Every figure is a ratio or a size per item, because absolute times on a shared machine say little. The relay under
// test is the real one, composed by internal/app, in a process of its own; so is the floor.
//
//	go run ./bench                 # every benchmark
//	go run ./bench notify events   # some of them; "events/claim" is a single one of a group
//	go run ./bench -quick          # small numbers, to see that it runs
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// suite is one benchmark. It adds what it measured to the report.
type suite struct {
	name string
	run  func(*report, scale) error
}

// is reports whether name names the suite, or a group of suites that it is in.
func (s suite) is(name string) bool { return s.name == name || strings.HasPrefix(s.name, name+"/") }

var suites = []suite{
	{"notify", benchNotify},
	{"loop", benchLoop},
	{"idle", benchIdle},
	{"stored", benchStored},
	{"polls", benchPolls},
	{"mcp/status", mcpStatus},
	{"mcp/waits", mcpWaits},
	{"events/emit", eventsEmit},
	{"events/deliver", eventsDeliver},
	{"events/hang", eventsHang},
	{"events/claim", eventsClaim},
	{"events/streams", eventsStreams},
}

// scale holds the numbers that -quick makes small.
type scale struct {
	seconds   time.Duration // of one throughput round
	rounds    int
	streams   int
	polls     int
	stored    int
	mailboxes int
	loops     time.Duration
	// Of the part about events:
	deliveries int // to a receiver in one round
	waiting    int // deliveries
}

var (
	full  = scale{4 * time.Second, 5, 10_000, 5_000, 1_000_000, 10_000, 15 * time.Second, 40_000, 1_000_000}
	quick = scale{time.Second, 2, 500, 300, 20_000, 500, 3 * time.Second, 4_000, 20_000}
)

func main() {
	if len(os.Args) > 1 && serveMode(os.Args[1:]) {
		return
	}
	small := flag.Bool("quick", false, "use small numbers, to see that everything runs")
	flag.Parse()
	s := full
	if *small {
		s = quick
	}
	r := &report{}
	for _, b := range suites {
		if flag.NArg() > 0 && !slices.ContainsFunc(flag.Args(), b.is) {
			continue
		}
		fmt.Printf("\n%s\n", b.name)
		if err := b.run(r, s); err != nil {
			fmt.Fprintf(os.Stderr, "bench %s: %v\n", b.name, err)
			os.Exit(1)
		}
	}
	if r.missed > 0 {
		fmt.Printf("\n%d of %d targets missed\n", r.missed, r.judged)
		os.Exit(2)
	}
	fmt.Printf("\nall %d targets met\n", r.judged)
}

// report prints figures and counts the targets met.
type report struct {
	judged, missed int
}

// note prints a figure that has no target.
func (r *report) note(what, format string, args ...any) {
	fmt.Printf("  %-58s %s\n", what, fmt.Sprintf(format, args...))
}

// least judges a figure that must be at least target.
func (r *report) least(what string, got, target float64, unit string) {
	r.judge(what, got, target, ">=", unit, got >= target)
}

// most judges a figure that must be at most target.
func (r *report) most(what string, got, target float64, unit string) {
	r.judge(what, got, target, "<=", unit, got <= target)
}

func (r *report) judge(what string, got, target float64, relation, unit string, met bool) {
	r.judged++
	verdict := "ok"
	if !met {
		r.missed++
		verdict = "MISSED"
	}
	fmt.Printf("  %-58s %s\n", what, strings.Join([]string{
		fmt.Sprintf("%.2f%s", got, unit), fmt.Sprintf("(target %s %.2f%s)", relation, target, unit), verdict}, " "))
}

// quantile returns the q-quantile of the values, which it sorts.
func quantile[T ~int64 | ~float64](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(len(values)-1, int(q*float64(len(values))))]
}
