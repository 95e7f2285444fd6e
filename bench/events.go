package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/herald-relay/herald/internal/sqlite"
	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/driver"
)

const (
	eventName   = "ticket.opened"
	eventSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
)

// eventData is an event's payload of ordinary size; a whole body is about 300 bytes.
var eventData = map[string]string{"id": "T-81723", "severity": "P1", "title": "The deployment of api 4.2.1 to production failed: 3 of 12 checks are red"}

// events is a server of events in this process, over a store of its own.
type events struct {
	*mcpevents.Server
	store *sqlite.Store
	done  atomic.Int64 // attempts whose outcome is stored
	quiet atomic.Int64 // of them, those to hosts that never hang
}

// counting counts outcomes once they are stored.
type counting struct {
	mcpevents.NopObserver
	e *events
}

func (c counting) Attempted(a mcpevents.AttemptReport) {
	c.e.done.Add(1)
	if !hangs(a.Subscription.Host) {
		c.e.quiet.Add(1)
	}
}

// openEvents opens a server with so many subscriptions, each to a host of its own, that need no proof and have no limits.
func openEvents(dir string, subscriptions int, out mcpevents.Egress, engine mcpevents.Engine) (*events, error) {
	st, err := sqlite.Open(context.Background(), filepath.Join(dir, "events.db"), nil)
	if err != nil {
		return nil, err
	}
	e := &events{store: st}
	catalog, err := mcpevents.NewCatalog(mcpevents.EventType{Name: eventName})
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	p := mcpevents.SEP()
	p.Verification.Allow = func(string, *url.URL) bool { return true }
	p.Quotas.Subscriptions, p.Quotas.Waiting, p.Quotas.Streams, p.Deadline = -1, -1, -1, time.Hour
	e.Server, err = mcpevents.New(st.Events(), []mcpevents.Family{{Name: "f", Policy: p, Catalog: catalog}},
		&mcpevents.Options{Egress: out, Engine: engine, Observer: counting{e: e}})
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	err = inParallel(subscriptions, func(i int) error {
		_, err := e.Call(context.Background(), mcpevents.Request{Method: mcpevents.MethodSubscribe, Caller: mcpevents.Caller{Principal: fmt.Sprint("p", i)},
			Params: fmt.Appendf(nil, `{"name":%q,"delivery":{"url":"https://h%d.example.com/hook","secret":%q}}`, eventName, i, eventSecret)})
		return err
	})
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return e, nil
}

func (e *events) emit(count int) error {
	for range count {
		if _, err := e.Emit(context.Background(), mcpevents.Emission{Name: eventName, Data: eventData}); err != nil {
			return err
		}
	}
	return nil
}

// deliverUntil runs the engine until so many outcomes of that count are stored, and returns their rate.
func (e *events) deliverUntil(count *atomic.Int64, want int) (perSecond float64, err error) {
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	count.Store(0)
	begin := time.Now()
	go func() { ran <- e.Run(ctx) }()
	for count.Load() < int64(want) {
		time.Sleep(500 * time.Microsecond)
	}
	perSecond = float64(want) / time.Since(begin).Seconds()
	stop()
	return perSecond, <-ran
}

// inEvents runs fn with a server in a directory of its own.
func inEvents(subscriptions int, out mcpevents.Egress, engine mcpevents.Engine, fn func(*events) error) error {
	return inTemp(func(dir string) error {
		e, err := openEvents(dir, subscriptions, out, engine)
		if err != nil {
			return err
		}
		return errors.Join(fn(e), e.store.Close())
	})
}

// eventsEmit emits to a thousand subscriptions, against a floor that inserts as many rows of the same size in as many
// transactions.
func eventsEmit(r *report, s scale) error {
	const emits = 40
	var rates, ratios []float64
	for round := range s.rounds + 1 { // the first warms up
		var ours, floor float64
		err := inEvents(1000, nowhere{}, mcpevents.Engine{}, func(e *events) error {
			begin := time.Now()
			err := e.emit(emits)
			ours = emits * 1000 / time.Since(begin).Seconds()
			return err
		})
		if err == nil {
			floor, err = floorRows(emits)
		}
		if err != nil {
			return err
		}
		if round > 0 {
			rates, ratios = append(rates, ours), append(ratios, ours/floor)
		}
	}
	r.note("emit to 1,000 subscriptions to bare inserts", "%.2f", quantile(ratios, 0.5))
	r.least("emit to 1,000 subscriptions, thousand deliveries a second", quantile(rates, 0.5)/1000, 50, "")
	return nil
}

// floorRows inserts a thousand narrow rows in each of so many transactions and returns rows a second.
func floorRows(transactions int) (perSecond float64, err error) {
	err = inTemp(func(dir string) error {
		db, err := openFloorDB(dir)
		if err != nil {
			return err
		}
		defer db.Close()
		batch := make([]floorWrite, 1000)
		for i := range batch {
			batch[i] = floorWrite{id: "sub_0123456789abcdef", payload: make([]byte, 16)}
		}
		begin := time.Now()
		for range transactions {
			if err := insertAll(db, batch); err != nil {
				return err
			}
		}
		perSecond = float64(transactions*len(batch)) / time.Since(begin).Seconds()
		return nil
	})
	return perSecond, err
}

// eventsDeliver posts the same bytes over the same number of connections to one TLS receiver: by a bare client, by one
// that also stores each outcome durably, and signed and settled by the engine.
func eventsDeliver(r *report, s scale) error {
	return inTemp(func(dir string) error {
		receiver, err := start("serve-receiver", dir)
		if err != nil {
			return err
		}
		defer receiver.stop()
		out := newLoopback(receiver.addr, connections)
		defer out.CloseIdleConnections()
		count := s.deliveries
		var bare, durable, rates, cpu []float64
		for round := range s.rounds + 1 { // the first warms up
			idle := cpuTime()
			b, err := postMany(out, count, func(int) error { return nil })
			if err != nil {
				return err
			}
			bareCPU := cpuTime() - idle
			var ourCPU time.Duration
			d, err := postDurably(out, count)
			if err != nil {
				return err
			}
			var ours float64
			err = inEvents(connections, out, mcpevents.Engine{}, func(e *events) error {
				if err := e.emit(count / connections); err != nil {
					return err
				}
				idle := cpuTime()
				ours, err = e.deliverUntil(&e.done, count/connections*connections)
				ourCPU = cpuTime() - idle
				return err
			})
			if err != nil {
				return err
			}
			if round > 0 {
				bare, durable, rates = append(bare, ours/b), append(durable, ours/d), append(rates, ours)
				cpu = append(cpu, float64(ourCPU)/float64(bareCPU))
			}
		}
		r.note("signed deliveries a second, outcomes stored", "%.0f", quantile(rates, 0.5))
		r.note("signed deliveries to a bare client that stores nothing", "%.2f", quantile(bare, 0.5))
		r.note("processor time of a signed delivery to that of a bare post", "%.2f", quantile(cpu, 0.5))
		r.least("signed deliveries to a bare client that stores outcomes", quantile(durable, 0.5), 0.6, "")
		return nil
	})
}

// cpuTime is the processor time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// postMany posts count bodies over the connections and calls stored with the number of each.
func postMany(out http.RoundTripper, count int, stored func(n int) error) (perSecond float64, err error) {
	body := `{"eventId":"evt_ABCDEFGHIJKLMNOPQRSTUVWXYZ","name":"` + eventName + `","timestamp":"2026-12-01T10:00:00.000Z","data":` +
		`{"id":"T-81723","severity":"P1","title":"The deployment of api 4.2.1 to production failed: 3 of 12 checks are red"},"cursor":"abcdefgh-1"}`
	var next atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	one := func(n int) error {
		req, err := http.NewRequest(http.MethodPost, "https://bare.example.com/hook", strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := out.RoundTrip(req)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		return errors.Join(resp.Body.Close(), stored(n))
	}
	begin := time.Now()
	for range connections {
		wg.Go(func() {
			for n := int(next.Add(1)); n <= count; n = int(next.Add(1)) {
				if e := one(n); e != nil {
					mu.Lock()
					err = e
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(count) / time.Since(begin).Seconds(), err
}

// postDurably is postMany with an outcome of each stored, group-committed, before its connection is used again.
func postDurably(out http.RoundTripper, count int) (perSecond float64, err error) {
	err = inTemp(func(dir string) error {
		db, err := openFloorDB(dir)
		if err != nil {
			return err
		}
		defer db.Close()
		f := &floor{writes: make(chan floorWrite, connections)}
		var writer sync.WaitGroup
		writer.Go(func() { f.write(db) })
		perSecond, err = postMany(out, count, func(n int) error {
			item := floorWrite{fmt.Sprint("evt_", n), []byte(`delivered`), make(chan error, 1)}
			f.writes <- item
			return <-item.done
		})
		close(f.writes)
		writer.Wait()
		return err
	})
	return perSecond, err
}

// eventsHang delivers to hosts of which 1 % never answer, and to as many that all do.
func eventsHang(r *report, s scale) error {
	const hosts, each = 300, 40
	var ratios []float64
	for round := range s.rounds + 1 { // the first warms up
		var rates [2]float64
		for i, out := range []prompt{{hang: false}, {hang: true}} {
			err := inEvents(hosts, out, mcpevents.Engine{Grace: time.Millisecond}, func(e *events) (err error) {
				if err := e.emit(each); err != nil {
					return err
				}
				rates[i], err = e.deliverUntil(&e.quiet, (hosts-hosts/100)*each)
				return err
			})
			if err != nil {
				return err
			}
		}
		if round > 0 {
			ratios = append(ratios, rates[1]/rates[0])
		}
	}
	r.least("deliveries to the others while 1 % hang, to none hanging", quantile(ratios, 0.5), 0.9, "")
	return nil
}

// eventsClaim claims among many waiting deliveries and among a thousand, in turns.
func eventsClaim(r *report, s scale) error {
	const lanes = 1000
	return inEvents(lanes, nowhere{}, mcpevents.Engine{}, func(few *events) error {
		return inEvents(lanes, nowhere{}, mcpevents.Engine{}, func(many *events) error {
			if err := errors.Join(few.emit(1), many.emit(s.waiting/lanes)); err != nil {
				return err
			}
			var times [2][]time.Duration
			for range 400 {
				for i, e := range []*events{few, many} {
					took, err := e.claimOnce()
					if err != nil {
						return err
					}
					times[i] = append(times[i], took)
				}
			}
			small, large := quantile(times[0], 0.5), quantile(times[1], 0.5)
			r.note(fmt.Sprintf("claim of 64, 1,000 and %d waiting", s.waiting), "%s, %s", small, large)
			r.most("claim among many waiting to 1,000", float64(large)/float64(small), 1.5, "x")
			return nil
		})
	})
}

// claimOnce times a claim of 64 deliveries, commit included, and gives them back to be claimed last.
func (e *events) claimOnce() (took time.Duration, err error) {
	db := e.store.Events()
	var leases []driver.Lease
	begin := time.Now()
	err = db.Update(context.Background(), func(tx driver.Tx) (err error) {
		leases, err = tx.Deliveries().Claim(driver.ClaimParams{Now: begin, Until: begin.Add(time.Minute), Limit: 64, PerLane: 16, PerHost: 16})
		return err
	})
	took = time.Since(begin)
	if err != nil || len(leases) != 64 {
		return took, errors.Join(err, fmt.Errorf("claimed %d of 64", len(leases)))
	}
	back := make([]driver.Settlement, len(leases))
	for i, l := range leases {
		back[i] = driver.Settlement{Subscription: l.Delivery.Subscription, Sequence: l.Delivery.Sequence, Lease: l.Delivery.Lease,
			State: driver.Pending, Due: time.Now(), At: time.Now()}
	}
	return took, db.Update(context.Background(), func(tx driver.Tx) error {
		_, err := tx.Deliveries().Settle(back)
		return err
	})
}

// nowhere is a way out for servers that send nothing.
type nowhere struct{}

func (nowhere) CheckURL(raw string) (*url.URL, error)           { return url.Parse(raw) }
func (nowhere) RoundTrip(*http.Request) (*http.Response, error) { return nil, context.Canceled }

// prompt is a way out whose hosts answer at once, but for those that hang.
type prompt struct {
	nowhere
	hang bool
}

func (p prompt) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.hang && hangs(r.URL.Host) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Header: http.Header{}}, nil
}

// hangs reports whether a host is one of those that may hang: one in a hundred.
func hangs(host string) bool {
	name, _, _ := strings.Cut(host, ".")
	return strings.HasSuffix(name, "00") || name == "h0"
}

// loopback is a way out that goes to one address whatever the host; the real one never reaches loopback.
type loopback struct {
	nowhere
	*http.Transport
	address string
}

func newLoopback(address string, conns int) *loopback {
	return &loopback{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConns: conns, // our own certificate
		MaxIdleConnsPerHost: conns, MaxConnsPerHost: conns, DisableCompression: true}, address: address}
}

func (l *loopback) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host = l.address
	return l.Transport.RoundTrip(r)
}
