package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/client"
)

// Target is a relay to look at from outside, and what may be used to get in.
type Target struct {
	Address string // scheme and host
	// Public says that clients are given this very address, so that a relay which calls itself otherwise is wrong.
	Public bool
	// AgentToken is an agent key or access token, DeviceToken a device's; without them less can be seen.
	AgentToken, DeviceToken string
	Insecure                bool // plain http to other machines
	UserAgent               string
	// Callback is an address by which the relay can call this machine, "" for none. It is received at CallbackListen; ""
	// means the callback's own address where that is this machine's, else the constant of that name.
	Callback, CallbackListen string

	// Transport carries the questions; nil means one of its own. It is changed, and belongs to the examination.
	Transport *http.Transport
	// Patience is how long the first bytes of a stream may take; 0 means ten seconds.
	Patience time.Duration

	opened func(address string) // told where a callback is received; for tests
}

// examineWithin bounds a whole examination, which takes a second or two where nothing is wrong.
const examineWithin = 4 * time.Minute

// outside is one examination.
type outside struct {
	*Report
	Target
	address string // without a slash at its end
	relay   *client.Relay
	http    *http.Client
	proxy   string // the proxy's name, "" when none was recognised
	health  answer
	names   []named // what the relay calls itself, and where
	// shut is why the MCP endpoint cannot be judged, "" when it can.
	shut string
}

// named is what a document calls the relay.
type named struct{ where, got, want string }

// Outside examines a relay as its clients meet it and adds what it finds to r.
func Outside(ctx context.Context, r *Report, t Target) {
	x := &outside{Report: r, Target: t}
	if x.Patience == 0 {
		x.Patience = 10 * time.Second
	}
	transport := newTransport(t.Transport)
	defer transport.CloseIdleConnections()
	x.http = newClient(transport)
	var err error
	if x.relay, err = client.New(t.Address, &client.Options{HTTP: x.http, Insecure: t.Insecure, UserAgent: t.UserAgent, MaxWait: -1}); err != nil {
		fix := "name its scheme and host, such as https://relay.example"
		if errors.Is(err, client.ErrPlain) {
			fix = "use https, or --insecure where you trust the network"
		}
		x.fail("address", err.Error(), fix)
		return
	}
	x.address = x.relay.Address()
	ctx, cancel := context.WithTimeout(ctx, examineWithin)
	defer cancel()
	if !x.reach(ctx) {
		return
	}
	for _, check := range []func(context.Context){x.certificate, x.plain, x.clock, x.errorPages, x.discovery, x.registration, x.challenge,
		x.slash, x.cors, x.origin, x.bodySize, x.headers, x.compression, x.agent, x.webSocket} {
		if ctx.Err() != nil {
			x.note("examination", "it ended before everything was looked at")
			return
		}
		check(ctx)
	}
}

// reach asks whether a relay answers at all.
func (x *outside) reach(ctx context.Context) bool {
	x.health = x.ask(ctx, question{method: "GET", path: "/health"})
	var h struct {
		OK      bool   `json:"ok"`
		Service string `json:"service"`
		Dev     bool   `json:"dev"`
	}
	switch a := x.health; {
	case a.err != nil && a.status == 0:
		if reason, fix := badCertificate(a.err); reason != "" {
			x.fail("tls", reason, fix)
			return false
		}
		x.fail("relay", x.address+" cannot be reached: "+a.err.Error(), "start the relay, or correct the address; a firewall or proxy on the way may refuse too")
		return false
	case a.status == http.StatusForbidden && a.code() == "forbidden":
		x.fail("relay", "it answers to loopback names only", "tell the relay its public address: --origin "+x.address)
		return false
	case !a.read(&h) || h.Service != "herald-relay" || !h.OK:
		x.fail("relay", "GET /health answers "+a.String()+", which is no relay's answer", "correct the address, or have the proxy pass every path to the relay")
		return false
	}
	x.proxy = proxyOf(x.health.header)
	behind := ""
	if x.proxy != "" {
		behind = ", behind " + x.proxy
	}
	x.pass("relay", x.address+" answers"+behind)
	if h.Dev {
		x.warn("development", "the relay may call plain http receivers", "start it without --dev")
	}
	if x.health.proto == "HTTP/1.0" {
		x.fail("http", "it answers in HTTP/1.0, which knows no WebSocket and no stream", x.fix(advice{general: "let the proxy speak HTTP/1.1 or 2 to clients, and HTTP/1.1 to the relay", nginx: "proxy_http_version 1.1;"}))
	} else {
		x.pass("http", "it answers in "+x.health.proto)
	}
	return true
}

// badCertificate tells a failed handshake from other trouble.
func badCertificate(err error) (reason, fix string) {
	var (
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
		record  tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &unknown):
		return "the certificate's chain leads to no authority that clients know: " + err.Error(), "serve the whole chain (fullchain.pem, not cert.pem), from an authority that clients trust"
	case errors.As(err, &host):
		return err.Error(), "get a certificate for this very name"
	case errors.As(err, &invalid):
		return err.Error(), "renew the certificate, and see that the proxy loads the new one"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "what answers does not speak TLS", "use http:// for a relay on this machine, or end TLS at the proxy"
	case strings.Contains(err.Error(), "tls: "): // an alert, which has no type of its own
		return "the TLS handshake was refused: " + err.Error(), "let the proxy serve this name with TLS 1.2 or newer"
	}
	return "", ""
}

// Days before its end at which a certificate is worth a word: what renews itself does so a month before.
const (
	renewSoon = 14
	renewNow  = 3
)

func (x *outside) certificate(context.Context) {
	t := x.health.tls
	if t == nil || len(t.PeerCertificates) == 0 {
		if u, err := url.Parse(x.address); err == nil && loopback(u.Hostname()) {
			x.note("tls", "none: this address is for this machine only")
			return
		}
		x.fail("tls", "none: whoever is on the way reads every notification and token", "put the relay behind a proxy with https, or give it --tls-domain")
		return
	}
	leaf := t.PeerCertificates[0]
	days := int(time.Until(leaf.NotAfter).Hours() / 24)
	seen := fmt.Sprintf("%s, the certificate of %s ends in %d days", tls.VersionName(t.Version), issuer(leaf), days)
	renew := x.fix(advice{general: "renew the certificate", nginx: "certbot renew, then reload nginx", caddy: "it renews by itself when ports 80 and 443 reach it: look into its log", cloudflare: "Edge Certificates shows what keeps it"})
	switch {
	case days < renewNow:
		x.fail("tls", seen, renew)
	case days < renewSoon:
		x.warn("tls", seen, renew)
	default:
		x.pass("tls", seen)
	}
}

func issuer(c *x509.Certificate) string {
	if len(c.Issuer.Organization) > 0 {
		return c.Issuer.Organization[0]
	}
	return c.Issuer.CommonName
}

func loopback(host string) bool {
	return host == "localhost" || strings.HasPrefix(host, "127.") || host == "::1"
}

// plain asks what becomes of those who type http.
func (x *outside) plain(ctx context.Context) {
	u, err := url.Parse(x.address)
	if err != nil || u.Scheme != "https" || u.Port() != "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	q := question{method: "GET", path: "/health"}
	req, err := q.request(ctx, "http://"+u.Host, x.UserAgent)
	if err != nil {
		return
	}
	resp, err := x.http.Do(req)
	if err != nil {
		x.pass("plain http", "nothing answers it")
		return
	}
	_ = resp.Body.Close()
	to, err := resp.Location()
	switch {
	case err == nil && to.Scheme == "https":
		x.pass("plain http", "it leads to https")
	case resp.StatusCode < 300:
		x.warn("plain http", "the relay answers without TLS too", x.fix(advice{general: "redirect http to https", nginx: "a server on port 80 with return 308 https://$host$request_uri;", cloudflare: "switch Always Use HTTPS on"}))
	default:
		x.pass("plain http", fmt.Sprintf("it is refused with %d", resp.StatusCode))
	}
}

// How far clocks may differ: receivers of webhooks refuse what is signed five minutes ago or ahead.
const (
	skewNoticed = 30 * time.Second
	skewHarmful = 4 * time.Minute
)

func (x *outside) clock(context.Context) {
	date, err := http.ParseTime(x.health.header.Get("Date"))
	if err != nil {
		x.note("clock", "the relay does not say what time it is")
		return
	}
	skew := time.Until(date).Abs().Round(time.Second)
	seen := "this machine's clock and the relay's differ by " + skew.String()
	switch {
	case skew > skewHarmful:
		x.fail("clock", seen, "set both by NTP: receivers refuse webhooks that are signed five minutes ago or ahead, and certificates end by the clock")
	case skew > skewNoticed:
		x.warn("clock", seen, "set both by NTP")
	default:
		x.pass("clock", "it agrees with the relay's")
	}
}
