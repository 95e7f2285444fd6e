package sqlite

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/driver"
)

// nowhere is a way out for servers that send nothing.
type nowhere struct{}

func (nowhere) CheckURL(raw string) (*url.URL, error)           { return url.Parse(raw) }
func (nowhere) RoundTrip(*http.Request) (*http.Response, error) { return nil, context.Canceled }

// newEvents makes a server over a fresh store with n subscriptions that need no proof.
func newEvents(b *testing.B, n int) (*mcpevents.Server, driver.Driver) {
	return newEventsTo(b, n, nowhere{})
}

func newEventsTo(b *testing.B, n int, out mcpevents.Egress) (*mcpevents.Server, driver.Driver) {
	b.Helper()
	catalog, err := mcpevents.NewCatalog(mcpevents.EventType{Name: "e"})
	if err != nil {
		b.Fatal(err)
	}
	p := mcpevents.SEP()
	p.Verification.Allow = func(string, *url.URL) bool { return true }
	p.Quotas.Subscriptions = -1
	db := open(b, newPath(b)).Events()
	srv, err := mcpevents.New(db, []mcpevents.Family{{Name: "f", Policy: p, Catalog: catalog}}, &mcpevents.Options{Egress: out})
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		_, err := srv.Call(b.Context(), mcpevents.Request{Method: mcpevents.MethodSubscribe, Caller: mcpevents.Caller{Principal: fmt.Sprint("p", i)},
			Params: fmt.Appendf(nil, `{"name":"e","delivery":{"url":"https://h%d.example.com/","secret":"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}}`, i)})
		if err != nil {
			b.Fatal(err)
		}
	}
	return srv, db
}

// BenchmarkEventsEmit emits to 1,000 subscriptions; the metric is deliveries queued per second. The project's gate is
// 50,000.
func BenchmarkEventsEmit(b *testing.B) {
	srv, _ := newEvents(b, 1000)
	n := 0
	for b.Loop() {
		if _, err := srv.Emit(b.Context(), mcpevents.Emission{Name: "e", Data: struct{}{}}); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(n)*1000/b.Elapsed().Seconds(), "deliveries/s")
}

// BenchmarkEventsClaim claims 64 deliveries among so many that wait, and gives them back.
func BenchmarkEventsClaim(b *testing.B) {
	for _, waiting := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			srv, db := newEvents(b, 1000)
			for range waiting / 1000 {
				if _, err := srv.Emit(b.Context(), mcpevents.Emission{Name: "e", Data: struct{}{}}); err != nil {
					b.Fatal(err)
				}
			}
			undo := errors.New("undo")
			for b.Loop() {
				err := db.Update(b.Context(), func(tx driver.Tx) error {
					now := time.Now()
					_, err := tx.Deliveries().Claim(driver.ClaimParams{Now: now, Until: now.Add(time.Minute), Limit: 64, PerLane: 16, PerHost: 16})
					return errors.Join(err, undo)
				})
				if !errors.Is(err, undo) {
					b.Fatal(err)
				}
			}
		})
	}
}

// prompt is a way out whose other end takes everything at once.
type prompt struct{ got *atomic.Int64 }

func (prompt) CheckURL(raw string) (*url.URL, error) { return url.Parse(raw) }

func (p prompt) RoundTrip(*http.Request) (*http.Response, error) {
	p.got.Add(1)
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Header: http.Header{}}, nil
}

// BenchmarkEventsDeliver delivers 5,000 events to destinations that answer at once: what claiming, signing and settling
// on this store cost, without the network.
func BenchmarkEventsDeliver(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		var got atomic.Int64
		srv, _ := newEventsTo(b, 100, prompt{&got})
		for range 50 {
			if _, err := srv.Emit(b.Context(), mcpevents.Emission{Name: "e", Data: struct{}{}}); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		ctx, stop := context.WithCancel(b.Context())
		ran := make(chan error, 1)
		go func() { ran <- srv.Run(ctx) }()
		for got.Load() < 5000 {
			<-time.After(time.Millisecond)
		}
		stop()
		if err := <-ran; err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*5000/b.Elapsed().Seconds(), "deliveries/s")
}
