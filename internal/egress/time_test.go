package egress_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/egress"
)

// lookup is a resolver made of one function.
type lookup func(ctx context.Context, host string) ([]netip.Addr, error)

func (l lookup) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if network != "ip" || !strings.HasSuffix(host, ".") {
		return nil, errors.New("the guard asks for all addresses of an absolute name")
	}
	return l(ctx, host)
}

func always(addrs ...string) lookup {
	return func(context.Context, string) ([]netip.Addr, error) {
		var out []netip.Addr
		for _, addr := range addrs {
			out = append(out, netip.MustParseAddr(addr))
		}
		return out, nil
	}
}

// hang waits for the end of ctx.
func hang(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// silence connects to a peer that takes everything and says nothing.
func silence(context.Context, netip.AddrPort) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, theirs) }() // ends when the guard closes its end
	return ours, nil
}

func TestSilenceEndsInTime(t *testing.T) {
	deafResolver := lookup(func(ctx context.Context, _ string) ([]netip.Addr, error) { <-ctx.Done(); return nil, ctx.Err() })
	for _, c := range []struct {
		name string
		opts egress.Options
		url  string
		want time.Duration
	}{
		{"resolver", egress.Options{Resolver: deafResolver, Dial: silence}, "https://example.com/", 8 * time.Second},
		{"connect", egress.Options{Resolver: always(public4, public6), Dial: hang}, "https://example.com/", 8 * time.Second},
		{"handshake", egress.Options{Resolver: always(public4), Dial: silence}, "https://example.com/", 5 * time.Second},
		{"response", egress.Options{Dev: true, Dial: silence}, "http://127.0.0.1/", 10 * time.Second},
		{"response, shorter", egress.Options{Dev: true, Dial: silence, Timeout: time.Second}, "http://127.0.0.1/", time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := post(t.Context(), egress.New(&c.opts).Client(), c.url)
				if egress.KindOf(err) != egress.Timeout || time.Since(start) != c.want {
					t.Errorf("after %v: %v, want a timeout after %v", time.Since(start), err, c.want)
				}
			})
		})
	}
}

// RoundTrip alone, without the client's limit, waits no longer for the header of a response.
func TestRoundTripBoundsTheWaitForAResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		_, err = egress.New(&egress.Options{Dev: true, Dial: silence}).RoundTrip(req)
		if egress.KindOf(err) != egress.Timeout || time.Since(start) != 10*time.Second {
			t.Errorf("after %v: %v, want a timeout after 10s", time.Since(start), err)
		}
	})
}

// A receiver that sends a byte per second is cut off, in its header and in its body.
func TestDrippingReceiverIsCutOff(t *testing.T) {
	for _, head := range []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			var peer sync.WaitGroup
			defer peer.Wait()
			drip := func(context.Context, netip.AddrPort) (net.Conn, error) {
				ours, theirs := net.Pipe()
				peer.Go(func() {
					_, _ = theirs.Read(make([]byte, 1)) // an answer may not come before its request
					peer.Go(func() { _, _ = io.Copy(io.Discard, theirs) })
					dripInto(theirs, head)
				})
				return ours, nil
			}
			start := time.Now()
			resp, err := egress.New(&egress.Options{Dev: true, Dial: drip}).Client().Post("http://127.0.0.1/", "", http.NoBody)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			if egress.KindOf(err) != egress.Timeout || time.Since(start) != 10*time.Second {
				t.Errorf("after %v: %v, want a timeout after 10s", time.Since(start), err)
			}
		})
	}
}

// dripInto writes head at once, then a byte per second until the other end has gone.
func dripInto(w io.Writer, head string) {
	_, err := io.WriteString(w, head)
	for text := "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 1000); err == nil; text = text[1:] {
		time.Sleep(time.Second)
		_, err = io.WriteString(w, text[:1])
	}
}

// Each of the first three addresses gets its share of the time, and a later one may save the call.
func TestAddressesShareTheTime(t *testing.T) {
	addrs := many(5)
	for _, c := range []struct {
		name   string
		alive  int // index of the address that connects
		after  time.Duration
		want   egress.Kind
		dialed []string
	}{
		{"first", 0, 0, egress.None, addrs[:1]},
		{"third", 2, 5333 * time.Millisecond, egress.None, addrs[:3]},
		{"fifth", 4, 8 * time.Second, egress.Timeout, addrs[:3]},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var dialled []string
				dial := func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
					dialled = append(dialled, addr.Addr().String())
					if addr.Addr() != netip.MustParseAddr(addrs[c.alive]) {
						return hang(ctx, addr)
					}
					conn, peer := net.Pipe()
					return conn, peer.Close()
				}
				start := time.Now()
				g := egress.New(&egress.Options{Resolver: always(addrs...), Dial: dial})
				_, err := g.DialContext(t.Context(), "tcp", "example.com:443")
				if egress.KindOf(err) != c.want || time.Since(start).Truncate(time.Millisecond) != c.after {
					t.Errorf("after %v: %v, want kind %v after %v", time.Since(start), err, c.want, c.after)
				}
				if diff := cmp.Diff(c.dialed, slices.Clip(dialled)); diff != "" {
					t.Errorf("dialled (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestFirstFailureIsTheOneReported(t *testing.T) {
	first := errors.New("connection refused")
	failures := []error{first, context.DeadlineExceeded}
	dial := func(context.Context, netip.AddrPort) (net.Conn, error) {
		err := failures[0]
		failures = failures[1:]
		return nil, err
	}
	g := egress.New(&egress.Options{Resolver: always(public4, public6), Dial: dial})
	if _, err := g.DialContext(t.Context(), "tcp", "example.com:443"); !errors.Is(err, first) || egress.KindOf(err) != egress.Unreachable {
		t.Errorf("err = %v, want the first failure, of kind unreachable", err)
	}
}

func TestResolverWithoutAnAnswerIsAFailure(t *testing.T) {
	g := egress.New(&egress.Options{Resolver: always(), Dial: hang})
	if _, err := g.DialContext(t.Context(), "tcp", "example.com:443"); egress.KindOf(err) != egress.Unreachable || !strings.Contains(err.Error(), "does not resolve") {
		t.Errorf("no addresses and no error: %v, want kind unreachable, as of a name that does not resolve", err)
	}
}
