package doctor

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestAPublicRelay looks at a relay by a public name, with everything that name leads to on this machine.
func TestAPublicRelay(t *testing.T) {
	const name = "https://example.com" // httptest has a certificate for it
	for _, c := range []struct {
		name  string
		plain http.HandlerFunc // what answers http; nil for nothing
		state State
	}{
		{"http leads to https", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, name+r.URL.Path, http.StatusPermanentRedirect)
		}, Pass},
		{"http is answered", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }, Warn},
		{"http is refused", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, Pass},
		{"http leads elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://example.com/login", http.StatusFound)
		}, Pass},
		{"nothing answers http", nil, Pass},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newPublicHouse(t, name)
			h.standIn(t)
			front := httptest.NewTLSServer(h.proxy)
			defer front.Close()
			ports := map[string]string{"example.com:443": front.Listener.Addr().String()}
			if c.plain != nil {
				open := httptest.NewServer(c.plain)
				defer open.Close()
				ports["example.com:80"] = open.Listener.Addr().String()
			}
			transport := front.Client().Transport.(*http.Transport).Clone()
			transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				to, known := ports[address]
				if !known {
					return nil, &net.OpError{Op: "dial", Net: network, Err: net.UnknownNetworkError(address)}
				}
				return (&net.Dialer{}).DialContext(ctx, network, to)
			}
			h.net.Handle("example.com", h.proxy) // by which the relay reaches itself
			r := &Report{}
			Outside(t.Context(), r, Target{Address: name, Public: true, AgentToken: h.agent.Token, DeviceToken: h.device.Token, Transport: transport})
			for _, f := range r.Findings {
				want := Pass
				if f.Check == "plain http" {
					want = c.state
				}
				if f.State != want {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}
