package mcpevents

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/webhook"
)

const (
	maxEcho      = 64 << 10 // bytes read of the answer to a challenge, or of a receiver document
	maxProbed    = 10_000   // hosts whose probes are counted at a time
	wellKnown    = "/.well-known/mcp-webhook-receiver.json"
	headerSub    = "x-mcp-subscription-id"
	typeJSON     = "application/json"
	verification = "verification"
)

// Challenge is the body that a destination must echo: the nonce alone is kept secret until then.
type Challenge struct {
	Type      string `json:"type"`
	Challenge string `json:"challenge"`
}

// verify makes sure that the address wants deliveries from this principal, asking it when nothing is known. Calls for one
// principal and address wait for each other, so that however many come, one asks (public case 57).
func (s *Server) verify(ctx context.Context, w *wish) error {
	release, err := s.probes.hold(ctx, w.caller.Principal, w.url())
	if err != nil {
		return internal("wait for a verification", err)
	}
	defer release()
	need, err := s.needsProof(ctx, w)
	if err != nil || !need {
		return err
	}
	p := w.policy()
	if !s.probes.allow(w.address.Host, p.Quotas.ProbesPerMinute, time.Now()) {
		return p.refuse(w.dialect, TooManyProbes, "too many verifications of this host; try again in a minute").
			with("limit", "verifications").with("max", p.Quotas.ProbesPerMinute)
	}
	category := s.prove(ctx, w)
	s.watch.Verified(w.address.Host, category)
	s.log.Info("destination verification", "subscription", w.id, "host", w.address.Host, "category", string(category))
	if category != "" {
		return notVerified(p, w.dialect, category)
	}
	err = s.db.Update(ctx, func(tx driver.Tx) error {
		return tx.Verifications().Record(w.caller.Principal, w.url(), time.Now())
	})
	if err != nil {
		return internal("record the verification", err)
	}
	return nil
}

func notVerified(p *Policy, d Dialect, category Category) *Error {
	reason, named := p.Reasons[category]
	if !named {
		reason = string(category)
	}
	return p.refuse(d, NotVerified, "delivery.url: the address did not verify: %s", reason).with("reason", reason)
}

// needsProof looks up what is known, checks the quota before anything is contacted, and names a new subscription.
func (s *Server) needsProof(ctx context.Context, w *wish) (need bool, err error) {
	v := w.policy().Verification
	var refusal error
	err = s.db.View(ctx, func(tx driver.Tx) error {
		if refusal = s.checkQuota(tx, w); refusal != nil {
			return nil
		}
		at, err := tx.Verifications().Verified(w.caller.Principal, w.url())
		if err != nil {
			return err
		}
		sub, err := tx.Subscriptions().ByKey(w.key)
		if err != nil && !errors.Is(err, driver.ErrNotFound) {
			return err
		}
		live := err == nil && isLive(&sub, w.now)
		fresh := !at.IsZero() && w.now.Sub(at) < v.Remember
		need = !live && (v.EveryNew || !fresh) || live && v.Recheck && !fresh
		if w.id = sub.ID; w.id == "" {
			w.id = w.policy().Identity.newID(w.key)
		}
		return nil
	})
	if refusal != nil {
		return false, refusal
	}
	if err != nil {
		return false, internal("look up the verification", err)
	}
	return need && (v.Allow == nil || !v.Allow(w.caller.Principal, w.address)), nil
}

// prove asks the address, by its origin's document if the policy allows that, else by a challenge. It returns "" or why
// the address did not prove itself.
func (s *Server) prove(ctx context.Context, w *wish) Category {
	ctx, cancel := context.WithTimeout(ctx, w.policy().Timeout)
	defer cancel()
	if w.policy().Verification.WellKnown && s.isListed(ctx, w.address) {
		return ""
	}
	nonce := randomHex(32)
	body := wireJSON(Challenge{Type: verification, Challenge: nonce})
	id := w.policy().Verification.IDPrefix + randomHex(16)
	req, err := s.newPost(ctx, w.url(), id, w.id, []webhook.Secret{w.secret}, body)
	if err != nil {
		return ConnectionRefused
	}
	resp, err := s.opts.Egress.RoundTrip(req)
	if err != nil {
		return timedOutOr(ctx, categoryOf(err))
	}
	defer resp.Body.Close()
	return s.judgeEcho(ctx, resp, nonce)
}

func timedOutOr(ctx context.Context, c Category) Category {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return TimedOut
	}
	return c
}

func (s *Server) judgeEcho(ctx context.Context, resp *http.Response, nonce string) Category {
	switch code := resp.StatusCode; {
	case code >= 500:
		return Status5xx
	case code < 200 || code >= 300:
		return Status4xx
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxEcho+1))
	if err != nil {
		return timedOutOr(ctx, ChallengeFailed)
	}
	var echo struct {
		Challenge *string `json:"challenge"`
	}
	if len(body) > maxEcho || json.Unmarshal(body, &echo) != nil || echo.Challenge == nil ||
		subtle.ConstantTimeCompare([]byte(*echo.Challenge), []byte(nonce)) != 1 {
		return ChallengeFailed
	}
	return ""
}

// isListed fetches the origin's receiver document and reports whether it covers the address's path.
func (s *Server) isListed(ctx context.Context, address *url.URL) bool {
	u := url.URL{Scheme: address.Scheme, Host: address.Host, Path: wellKnown}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return false
	}
	req.Header.Set("Accept", typeJSON)
	req.Header.Set("User-Agent", s.opts.UserAgent)
	resp, err := s.opts.Egress.RoundTrip(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxEcho+1))
	if err != nil || resp.StatusCode != http.StatusOK || kind != typeJSON || len(body) > maxEcho {
		return false
	}
	var document struct {
		Receivers []string `json:"receivers"`
	}
	return json.Unmarshal(body, &document) == nil && covers(document.Receivers, address.EscapedPath())
}

// covers reports whether a prefix covers a path: "/hooks" and "/hooks/" cover "/hooks" and "/hooks/x", not "/hooksx".
func covers(prefixes []string, path string) bool {
	for _, prefix := range prefixes {
		if !strings.HasPrefix(prefix, "/") {
			continue
		}
		prefix = strings.TrimSuffix(prefix, "/")
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			return true
		}
	}
	return false
}

// probes keeps verifications from multiplying: one at a time for each principal and address, and so many a minute for
// each host.
type probes struct {
	mu    sync.Mutex // guards what follows
	held  map[[2]string]chan struct{}
	hosts map[string]*tokens
}

// tokens is a bucket that fills evenly and holds a minute's worth.
type tokens struct {
	left float64
	at   time.Time
}

func newProbes() *probes {
	return &probes{held: map[[2]string]chan struct{}{}, hosts: map[string]*tokens{}}
}

// hold waits until nobody else verifies that address for that principal.
func (p *probes) hold(ctx context.Context, principal, url string) (release func(), err error) {
	key := [2]string{principal, url}
	for {
		p.mu.Lock()
		busy := p.held[key]
		if busy == nil {
			done := make(chan struct{})
			p.held[key] = done
			p.mu.Unlock()
			return func() { p.release(key, done) }, nil
		}
		p.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (p *probes) release(key [2]string, done chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.held, key)
	close(done)
}

// allow takes a token of a host.
func (p *probes) allow(host string, perMinute int, now time.Time) bool {
	if perMinute < 0 {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.hosts[host]
	if t == nil {
		p.forgetFull(now)
		t = &tokens{left: float64(perMinute), at: now}
		p.hosts[host] = t
	}
	t.left = min(float64(perMinute), t.left+now.Sub(t.at).Minutes()*float64(perMinute))
	t.at = now
	if t.left < 1 {
		return false
	}
	t.left--
	return true
}

// forgetFull keeps the number of counted hosts bounded: those last probed over a minute ago have a full bucket again.
func (p *probes) forgetFull(now time.Time) {
	if len(p.hosts) < maxProbed {
		return
	}
	for host, t := range p.hosts {
		if now.Sub(t.at) > time.Minute {
			delete(p.hosts, host)
		}
	}
}
