package mcpevents_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/mcpevents/memdriver"
)

// loopback is a way out that goes to one local TLS server, whatever the host; it stands in for the guard, whose rule is
// that loopback is never reached.
type loopback struct {
	*http.Transport
	address string
}

func newLoopback(s *httptest.Server, conns int) *loopback {
	return &loopback{&http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: conns, MaxConnsPerHost: conns, DisableCompression: true}, s.Listener.Addr().String()}
}

func (l *loopback) CheckURL(raw string) (*url.URL, error) { return url.Parse(raw) }

func (l *loopback) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host = l.address
	return l.Transport.RoundTrip(r)
}

// newBench makes a server whose subscriptions need no proof, with n of them on ticket.opened, each of its own host.
func newBench(b *testing.B, db driver.Driver, out mcpevents.Egress, n int, change func(*mcpevents.Policy, *mcpevents.Engine)) *mcpevents.Server {
	b.Helper()
	catalog, err := mcpevents.NewCatalog(mcpevents.EventType{Name: "ticket.opened"})
	if err != nil {
		b.Fatal(err)
	}
	p := mcpevents.SEP()
	p.Verification.Allow = func(string, *url.URL) bool { return true }
	p.Quotas.Subscriptions, p.Quotas.Waiting, p.Deadline, p.Order.Parallel = -1, -1, -1, 64
	opts := &mcpevents.Options{Egress: out}
	if change != nil {
		change(&p, &opts.Engine)
	}
	srv, err := mcpevents.New(db, []mcpevents.Family{{Name: "f", Policy: p, Catalog: catalog}}, opts)
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		_, err := srv.Call(b.Context(), mcpevents.Request{Method: mcpevents.MethodSubscribe, Caller: mcpevents.Caller{Principal: "p"},
			Params: fmt.Appendf(nil, `{"name":"ticket.opened","delivery":{"url":"https://h%d.example.com/","secret":%q}}`, i, secret1)})
		if err != nil {
			b.Fatal(err)
		}
	}
	return srv
}

func emitN(b *testing.B, srv *mcpevents.Server, n int) {
	b.Helper()
	for range n {
		if _, err := srv.Emit(b.Context(), mcpevents.Emission{Name: "ticket.opened", Data: map[string]string{"id": "T-1", "severity": "P1", "title": strings.Repeat("x", 100)}}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDeliveriesToBarePosts posts the same bytes over the same number of connections twice: by a bare client, and
// signed and settled by the engine. The metric is the ratio of the two rates; the gate of the project is 0.6.
func BenchmarkDeliveriesToBarePosts(b *testing.B) {
	const conns, each = 64, 8000
	var got atomic.Int64
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
		got.Add(1)
	}))
	defer s.Close()
	out := newLoopback(s, conns)
	body := strings.Repeat("x", 300)
	for b.Loop() {
		bare := rate(each, func() { postMany(b, out, body, conns, each) })
		srv := newBench(b, memdriver.New(), out, 8, func(_ *mcpevents.Policy, e *mcpevents.Engine) { e.Workers, e.PerHost = conns, conns })
		emitN(b, srv, each/8)
		got.Store(0)
		engine := rate(each, func() { runUntil(b, srv, func() bool { return got.Load() >= each }) })
		b.ReportMetric(bare, "bare/s")
		b.ReportMetric(engine, "signed/s")
		b.ReportMetric(engine/bare, "ratio")
	}
}

func rate(n int, fn func()) float64 {
	start := time.Now()
	fn()
	return float64(n) / time.Since(start).Seconds()
}

func postMany(b *testing.B, out http.RoundTripper, body string, workers, n int) {
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(n))
	for range workers {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				req, err := http.NewRequestWithContext(b.Context(), "POST", "https://bare.example.com/", strings.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				resp, err := out.RoundTrip(req)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	all.Wait()
}

func runUntil(b *testing.B, srv *mcpevents.Server, done func() bool) {
	ctx, stop := context.WithCancel(b.Context())
	ran := make(chan error, 1)
	go func() { ran <- srv.Run(ctx) }()
	for !done() {
		runtime.Gosched()
		<-time.After(200 * time.Microsecond)
	}
	stop()
	if err := <-ran; err != nil {
		b.Error(err)
	}
}

// BenchmarkEmitToAThousand emits to 1,000 subscriptions; the metric is deliveries queued per second.
func BenchmarkEmitToAThousand(b *testing.B) {
	srv := newBench(b, memdriver.New(), allow{}, 1000, nil)
	emitted := 0
	for b.Loop() {
		emitN(b, srv, 1)
		emitted++
	}
	b.ReportMetric(float64(emitted)*1000/b.Elapsed().Seconds(), "deliveries/s")
}

// allow is a way out for servers that send nothing.
type allow struct{}

func (allow) CheckURL(raw string) (*url.URL, error)           { return url.Parse(raw) }
func (allow) RoundTrip(*http.Request) (*http.Response, error) { return nil, context.Canceled }

// BenchmarkClaimAmongMany claims 64 deliveries among those of so many waiting ones, and gives them back.
func BenchmarkClaimAmongMany(b *testing.B) {
	for _, waiting := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			db := memdriver.New()
			srv := newBench(b, db, allow{}, 1000, nil)
			emitN(b, srv, waiting/1000)
			b.ResetTimer()
			for b.Loop() {
				err := db.Update(b.Context(), func(tx driver.Tx) error {
					now := time.Now()
					if _, err := tx.Deliveries().Claim(driver.ClaimParams{Now: now, Until: now.Add(time.Minute), Limit: 64, PerLane: 16, PerHost: 16}); err != nil {
						return err
					}
					return context.Canceled
				})
				if err != context.Canceled {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkHangingDestinations delivers to 200 hosts of which 1 % hang until their timeout, and to as many of which none
// does; the metric is the ratio of the rates to the others. The gate of the project is 0.9.
func BenchmarkHangingDestinations(b *testing.B) {
	const hosts, events = 200, 40
	var got atomic.Int64
	for b.Loop() {
		measure := func(hang bool) float64 {
			got.Store(0)
			srv := newBench(b, memdriver.New(), hanging{&got, hang}, hosts, func(_ *mcpevents.Policy, e *mcpevents.Engine) { e.Grace = time.Millisecond })
			emitN(b, srv, events)
			const want = (hosts - 2) * events
			ctx, stop := context.WithCancel(b.Context())
			ran := make(chan error, 1)
			go func() { ran <- srv.Run(ctx) }()
			r := rate(want, func() {
				for got.Load() < want {
					<-time.After(100 * time.Microsecond)
				}
			})
			stop()
			if err := <-ran; err != nil {
				b.Error(err)
			}
			return r
		}
		none := measure(false)
		some := measure(true)
		b.ReportMetric(some/none, "ratio")
	}
}

// hanging answers at once, but for two of the hosts, which never answer if it hangs.
type hanging struct {
	got  *atomic.Int64
	hang bool
}

func (hanging) CheckURL(raw string) (*url.URL, error) { return url.Parse(raw) }

func (h hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == "h0.example.com" || r.URL.Host == "h1.example.com" {
		if h.hang {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
	} else {
		h.got.Add(1)
	}
	return &http.Response{StatusCode: 204, Body: http.NoBody, Header: http.Header{}}, nil
}

// BenchmarkIdleStreams opens 1,000 streams and reports the memory of each, without what a connection takes.
func BenchmarkIdleStreams(b *testing.B) {
	const n = 1000
	srv := newBench(b, memdriver.New(), allow{}, 0, func(p *mcpevents.Policy, _ *mcpevents.Engine) { p.Quotas.Streams = -1 })
	for b.Loop() {
		ctx, stop := context.WithCancel(b.Context())
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var open sync.WaitGroup
		var ended sync.WaitGroup
		open.Add(n)
		for range n {
			ended.Go(func() {
				_, _ = srv.Stream(ctx, mcpevents.Request{ID: rawMessage("1"), Params: rawMessage(`{"name":"ticket.opened"}`)},
					func(mcpevents.Notification) error { open.Done(); return nil })
			})
		}
		open.Wait()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc+after.StackInuse-before.HeapAlloc-before.StackInuse)/n/1024, "KiB/stream")
		stop()
		ended.Wait()
	}
}
