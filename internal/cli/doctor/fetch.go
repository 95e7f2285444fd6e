package doctor

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of one question.
const (
	answerWithin = 15 * time.Second
	maxAnswer    = 256 << 10
	maxHeader    = 64 << 10
)

// question is one request.
type question struct {
	method, path string
	header       map[string]string
	token        string
	body         string
	// expect asks for leave before the body is sent, as careful clients do with large ones.
	expect bool
}

// answer is what came back, or why nothing did.
type answer struct {
	status int
	header http.Header
	body   []byte
	proto  string
	tls    *tls.ConnectionState
	err    error
}

func newTransport(given *http.Transport) *http.Transport {
	t := given
	if t == nil {
		t = http.DefaultTransport.(*http.Transport).Clone()
	}
	t.DisableCompression = true // what the server does by itself must be seen
	t.MaxResponseHeaderBytes = maxHeader
	t.ExpectContinueTimeout = 5 * time.Second
	return t
}

func newClient(t *http.Transport) *http.Client {
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (q *question) request(ctx context.Context, base, agent string) (*http.Request, error) {
	var body io.Reader
	if q.body != "" {
		body = strings.NewReader(q.body)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, base+q.path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", agent)
	for name, value := range q.header {
		req.Header.Set(name, value)
	}
	if q.token != "" {
		req.Header.Set("Authorization", "Bearer "+q.token)
	}
	if q.expect {
		req.Header.Set("Expect", "100-continue")
	}
	return req, nil
}

// ask sends a question and reads the answer.
func (x *outside) ask(ctx context.Context, q question) (a answer) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	req, err := q.request(ctx, x.address, x.UserAgent)
	if err != nil {
		return answer{err: err}
	}
	resp, err := x.http.Do(req)
	if err != nil {
		return answer{err: cause(err)}
	}
	defer resp.Body.Close()
	a = answer{status: resp.StatusCode, header: resp.Header, proto: resp.Proto, tls: resp.TLS}
	if a.body, err = readBody(resp); err != nil {
		a.err = fmt.Errorf("the answer broke off: %w", cause(err))
	} else if len(a.body) > maxAnswer {
		a.err = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return a
}

// readBody reads no more than a bit beyond the bound, unpacked: a client whose library asks for compression would not notice.
func readBody(resp *http.Response) ([]byte, error) {
	body := io.Reader(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		packed, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		body = packed
	}
	return io.ReadAll(io.LimitReader(body, maxAnswer+1))
}

// cause drops the address that net/http puts in front, and words a timeout.
func cause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		if u.Timeout() {
			return fmt.Errorf("no answer within %s", answerWithin)
		}
		return u.Err
	}
	return err
}

// String says what was seen, in short.
func (a answer) String() string {
	switch {
	case a.err != nil && a.status == 0:
		return a.err.Error()
	case a.err != nil:
		return fmt.Sprintf("%d, and %v", a.status, a.err)
	case a.redirects():
		return fmt.Sprintf("%d, a redirect to %s", a.status, a.header.Get("Location"))
	case a.kind() == "":
		return fmt.Sprintf("%d %s", a.status, http.StatusText(a.status))
	}
	return fmt.Sprintf("%d %s with %s", a.status, http.StatusText(a.status), a.kind())
}

func (a answer) redirects() bool {
	return a.status >= 300 && a.status < 400 && a.header.Get("Location") != ""
}

// kind is the media type of the body.
func (a answer) kind() string {
	kind, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// read decodes a JSON body, and reports whether it was one.
func (a answer) read(out any) bool {
	return a.err == nil && json.Unmarshal(a.body, out) == nil
}

// object reports whether the body is a JSON object.
func (a answer) object() bool {
	var v map[string]jsontext.Value
	return a.read(&v)
}

// code is the error code of a relay's refusal, "" for any other answer.
func (a answer) code() string {
	var e struct {
		Error jsontext.Value `json:"error"`
	}
	var code string
	if a.read(&e) && json.Unmarshal(e.Error, &code) == nil {
		return code
	}
	return ""
}

// advice is what to change, in general and in the words of proxies.
type advice struct{ general, nginx, caddy, cloudflare string }

// fix words advice for the proxy that was recognised, else for all.
func (x *outside) fix(a advice) string {
	var text strings.Builder
	text.WriteString(a.general)
	for _, p := range []struct{ name, words string }{{"nginx", a.nginx}, {"Caddy", a.caddy}, {"Cloudflare", a.cloudflare}} {
		if p.words != "" && (x.proxy == "" || x.proxy == p.name) {
			text.WriteString("; " + p.name + ": " + p.words)
		}
	}
	return text.String()
}

// proxyOf recognises a proxy by what it says of itself.
func proxyOf(h http.Header) string {
	server := strings.ToLower(h.Get("Server") + " " + strings.Join(h.Values("Via"), " "))
	switch {
	case strings.Contains(server, "cloudflare"), h.Get("Cf-Ray") != "":
		return "Cloudflare"
	case strings.Contains(server, "nginx"), strings.Contains(server, "openresty"):
		return "nginx"
	case strings.Contains(server, "caddy"):
		return "Caddy"
	}
	return ""
}
