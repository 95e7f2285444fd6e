package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Bounds of one call.
const (
	maxAnswer      = 1 << 20          // bytes of an answer; the longest lists stay far below
	answerWithin   = 30 * time.Second // for a call that does not wait by itself
	defaultMaxWait = 30 * time.Second
)

// Options change how a Relay is spoken to. The zero value is good.
type Options struct {
	// HTTP sends the requests; nil means a client of its own. Its redirect policy is replaced.
	HTTP *http.Client
	// UserAgent names the program; "" means herald.
	UserAgent string
	// Insecure permits credentials over plain http to other machines than this one.
	Insecure bool
	// MaxWait is the longest wait a refusal may ask for and still be waited out; 0 means 30 s, negative means none is.
	MaxWait time.Duration
	// OnWait is told before a wait of that length, which why made necessary.
	OnWait func(wait time.Duration, why error)
}

// Relay is the address of a relay. It is safe for concurrent use.
type Relay struct {
	base *url.URL
	http *http.Client
	opt  Options
}

// New takes the address of a relay, such as https://relay.example: scheme and host, perhaps a port, no path.
func New(address string, opt *Options) (*Relay, error) {
	r := &Relay{}
	if opt != nil {
		r.opt = *opt
	}
	base, err := parseAddress(address, r.opt.Insecure)
	if err != nil {
		return nil, err
	}
	r.base, r.http = base, newHTTPClient(r.opt.HTTP)
	if r.opt.UserAgent == "" {
		r.opt.UserAgent = "herald"
	}
	if r.opt.MaxWait == 0 {
		r.opt.MaxWait = defaultMaxWait
	}
	return r, nil
}

// Address returns the relay's address without a trailing slash.
func (r *Relay) Address() string { return r.base.String() }

// ErrPlain refuses an address that would carry credentials unencrypted to another machine.
var ErrPlain = errors.New("plain http to another machine would show the credential to everybody on the way")

func parseAddress(address string, insecure bool) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(address))
	switch {
	case err != nil:
		return nil, errors.New("the relay's address is not a URL; it looks like https://relay.example")
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "":
		return nil, errors.New("the relay's address must begin with https:// (or http:// on this machine) and name a host")
	case u.User != nil, u.RawQuery != "", u.Fragment != "", strings.Trim(u.Path, "/") != "":
		return nil, errors.New("the relay's address is its scheme and host alone, without a user, path, query or fragment")
	case u.Scheme == "http" && !insecure && !loopback(u.Hostname()):
		return nil, fmt.Errorf("%w: %s", ErrPlain, u.Host)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

func newHTTPClient(given *http.Client) *http.Client {
	c := http.Client{}
	if given != nil {
		c = *given
	} else {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = 8
		c.Transport = t
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

// call is one request and how it may be repeated.
type call struct {
	method, path string
	query        url.Values
	token        string
	header       http.Header
	body         any    // sent as JSON, unless raw is set
	raw          []byte // sent as it is, labelled kind
	kind         string
	repeatable   bool          // a lost answer may be asked for again
	within       time.Duration // for one attempt; 0 means answerWithin
	date         *time.Time    // where to put the Date header; nil when nobody asks
}

// do sends c, again where retryDelay says so, and decodes a 2xx answer into out (nil ignores it).
func (r *Relay) do(ctx context.Context, c call, out any) error {
	body, err := c.encode()
	if err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		err := r.try(ctx, c, body, out)
		if err == nil || ctx.Err() != nil {
			return err
		}
		wait, again := retryDelay(err, attempt, c.repeatable, r.opt.MaxWait)
		if !again {
			return err
		}
		if r.opt.OnWait != nil {
			r.opt.OnWait(wait, err)
		}
		if !sleep(ctx, wait) {
			return err
		}
	}
}

func (c *call) encode() ([]byte, error) {
	if c.raw != nil || c.body == nil {
		return c.raw, nil
	}
	c.kind = "application/json"
	data, err := json.Marshal(c.body)
	if err != nil {
		return nil, fmt.Errorf("write the request as JSON: %w", err)
	}
	return data, nil
}

func (r *Relay) try(ctx context.Context, c call, body []byte, out any) error {
	within := c.within
	if within == 0 {
		within = answerWithin
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := r.request(ctx, c, body)
	if err != nil {
		return err
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return r.unreachable(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if c.date != nil {
		*c.date, _ = http.ParseTime(resp.Header.Get("Date"))
	}
	switch {
	case err != nil:
		return r.unreachable(err)
	case len(data) > maxAnswer:
		return fmt.Errorf("%s answered with more than %d bytes", r.base.Host, maxAnswer)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return readError(resp, data)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%s answered with something else than a relay's JSON: %w", r.base.Host, err)
	}
	return nil
}

func (r *Relay) request(ctx context.Context, c call, body []byte) (*http.Request, error) {
	u := r.base.JoinPath(c.path)
	u.RawQuery = c.query.Encode()
	req, err := http.NewRequestWithContext(ctx, c.method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		req.Body, req.GetBody = http.NoBody, nil
	}
	maps.Copy(req.Header, c.header)
	if c.kind != "" {
		req.Header.Set("Content-Type", c.kind)
	}
	r.dress(req.Header, c.token)
	return req, nil
}

// dress adds what every request carries.
func (r *Relay) dress(h http.Header, token string) {
	h.Set("User-Agent", r.opt.UserAgent)
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
}

// Unreachable means that no answer came: the relay is down, elsewhere, or the network is.
type Unreachable struct {
	Host string
	Err  error
}

// Error says which host, and why.
func (e *Unreachable) Error() string { return fmt.Sprintf("%s cannot be reached: %v", e.Host, e.Err) }

// Unwrap returns the cause.
func (e *Unreachable) Unwrap() error { return e.Err }

// unreachable drops the URL that net/http puts in front: it may hold an id, and the host is said anyway.
func (r *Relay) unreachable(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return &Unreachable{Host: r.base.Host, Err: err}
}

// sleep waits, and reports whether ctx let it.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
