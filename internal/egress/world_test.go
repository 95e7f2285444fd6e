package egress_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/egress"
)

// The addresses under which the receiver of a world can be reached, and names that its certificate is for.
const (
	public4 = "93.184.215.14"
	public6 = "2606:2800:21f:cb07::14"
)

var certified = []string{"example.com", "hooks.example", "xn--bcher-kva.example"}

// world stands in for the Internet: a name server, a TLS receiver that answers under public4 and public6, and a canary that
// every other address leads to. All of it is real, on loopback.
type world struct {
	*nameServer
	roots    *x509.CertPool
	receiver *httptest.Server
	requests atomic.Int64 // that the receiver got
	canary   net.Listener
	sung     atomic.Int64 // connections that the canary got

	mu      sync.Mutex // guards dialled
	dialled []netip.AddrPort
}

// newWorld starts a world whose receiver behaves like handler, or answers 204 when that is nil.
func newWorld(t *testing.T, script map[string][]reply, handler http.HandlerFunc) *world {
	t.Helper()
	if handler == nil {
		handler = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	}
	w := &world{nameServer: newNameServer(t, script)}
	w.receiver = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.requests.Add(1)
		handler(rw, r)
	}))
	w.receiver.EnableHTTP2 = true                           // offered, and not to be taken
	w.receiver.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that the tests break on purpose
	w.receiver.TLS, w.roots = certify(t)
	w.receiver.StartTLS()
	t.Cleanup(w.receiver.Close)
	w.startCanary(t)
	return w
}

func (w *world) startCanary(t *testing.T) {
	t.Helper()
	var err error
	if w.canary, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := w.canary.Accept()
			if err != nil {
				return
			}
			w.sung.Add(1)
			_ = conn.Close()
		}
	})
	t.Cleanup(func() { _ = w.canary.Close(); served.Wait() })
}

// Guard returns a guard that lives in the world, and is otherwise as opts say.
func (w *world) Guard(t *testing.T, opts egress.Options) *egress.Guard {
	t.Helper()
	opts.Resolver, opts.Dial, opts.RootCAs = w.Resolver(), w.dial, w.roots
	g := egress.New(&opts)
	t.Cleanup(g.CloseIdleConnections)
	return g
}

func (w *world) dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.dialled = append(w.dialled, addr)
	w.mu.Unlock()
	place := w.canary.Addr()
	if a := addr.Addr().String(); a == public4 || a == public6 {
		place = w.receiver.Listener.Addr()
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", place.String())
}

// Dialled returns the addresses that were dialled, without ports.
func (w *world) Dialled() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, addr := range w.dialled {
		out = append(out, addr.Addr().String())
	}
	return out
}

// WantUntouched fails the test if anything was dialled or the canary was reached.
func (w *world) WantUntouched(t *testing.T) {
	t.Helper()
	if dialled := w.Dialled(); len(dialled) != 0 || w.sung.Load() != 0 {
		t.Errorf("dialled %v, canary reached %d times; want neither", dialled, w.sung.Load())
	}
}

// certify makes a certificate for the names and addresses of the receiver, and a pool that trusts it.
func certify(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		DNSNames:     slices.Clone(certified),
		IPAddresses:  []net.IP{net.ParseIP(public4), net.ParseIP(public6)},
		IsCA:         true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, pool
}

// post sends an empty body and returns the status, or 0 and the error.
func post(ctx context.Context, c *http.Client, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
