package conform_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
)

// tree is JSON with numbers as they were written.
type tree = map[string]any

func parse(raw []byte) tree {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var t tree
	if d.Decode(&t) != nil {
		return nil // what is no object is passed on as it is
	}
	return t
}

func render(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was parsed or built here
	}
	return raw
}

// in returns a member that is an object; what is written to one that is not there is lost.
func in(t tree, name string) tree {
	if inner, ok := t[name].(tree); ok {
		return inner
	}
	return tree{}
}

// call is what a server's mutant sees: a request that it may change on the way in, then the answer on the way out.
type call struct {
	method  string
	params  tree
	message tree // of the answer; nil when it is no JSON object
	status  int
	header  http.Header
	body    []byte // replaces the message when it is not nil
}

func (c *call) result() tree { return in(c.message, "result") }

// asked changes requests of a method before the server reads them.
func asked(method string, change func(c *call)) ways {
	return ways{server: func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body) // it is in memory
			c := read(raw)
			if c.method == method {
				message := parse(raw)
				change(c)
				message["params"] = c.params
				raw = render(message)
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
			h.ServeHTTP(w, r)
		})
	}}
}

func read(raw []byte) *call {
	t := parse(raw)
	method, _ := t["method"].(string)
	return &call{method: method, params: in(t, "params")}
}

// answered changes answers of a method, of all when it is "".
func answered(method string, change func(c *call)) ways {
	return ways{server: func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body) // it is in memory
			r.Body = io.NopCloser(bytes.NewReader(raw))
			c := read(raw)
			if c.method == "events/stream" || c.method == "subscriptions/listen" || method != "" && c.method != method {
				h.ServeHTTP(w, r)
				return
			}
			k := &kept{header: http.Header{}, status: 200}
			h.ServeHTTP(k, r)
			c.message, c.status, c.header = parse(k.body.Bytes()), k.status, k.header
			change(c)
			out := k.body.Bytes()
			if c.message != nil {
				out = render(c.message)
			}
			if c.body != nil {
				out = c.body
			}
			maps.Copy(w.Header(), c.header)
			w.Header().Del("Content-Length")
			w.WriteHeader(c.status)
			_, _ = w.Write(out) // to memory
		})
	}}
}

// kept is an answer that is changed before it is sent.
type kept struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *kept) Header() http.Header         { return k.header }
func (k *kept) WriteHeader(status int)      { k.status = status }
func (k *kept) Write(p []byte) (int, error) { return k.body.Write(p) }

// streamed changes the messages of streams: one becomes what change returns, nothing when that is "".
func streamed(change func(message tree, request *call) string) ways {
	return ways{server: func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body) // it is in memory
			r.Body = io.NopCloser(bytes.NewReader(raw))
			if c := read(raw); c.method == "events/stream" {
				w = &lines{ResponseWriter: w, change: func(m tree) string { return change(m, c) }}
			}
			h.ServeHTTP(w, r)
		})
	}}
}

func data(message tree) string { return "data: " + string(render(message)) }

type lines struct {
	http.ResponseWriter
	change func(tree) string
	rest   []byte
}

func (l *lines) Flush() { _ = http.NewResponseController(l.ResponseWriter).Flush() } // in memory

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			break
		}
		out := string(line)
		if message, isData := strings.CutPrefix(out, "data:"); isData {
			out = l.change(parse([]byte(message)))
		}
		l.rest = rest
		if _, err := io.WriteString(l.ResponseWriter, out+"\n"); err != nil {
			return 0, err
		}
	}
	if len(l.rest) > 0 && l.rest[0] == '{' { // a plain answer has no lines
		_, err := l.ResponseWriter.Write(l.rest)
		l.rest = nil
		return len(p), err
	}
	return len(p), nil
}

// post is what a server sends, with the secrets that its mutant learned.
type post struct {
	request *http.Request
	body    []byte
	key     []byte
	send    func() (*http.Response, error)
}

func (p *post) isEvent() bool { return parse(p.body)["type"] == nil }

// resign signs anew what was changed, whatever it has become.
func (p *post) resign() {
	mac := hmac.New(sha256.New, p.key)
	mac.Write([]byte(p.get("webhook-id") + "." + p.get("webhook-timestamp") + "."))
	mac.Write(p.body)
	p.set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

func (p *post) set(name, value string) {
	delete(p.request.Header, name)
	p.request.Header.Set(name, value)
}

// get reads a header however it is spelled.
func (p *post) get(name string) string {
	for have, values := range p.request.Header {
		if strings.EqualFold(have, name) {
			return values[0]
		}
	}
	return ""
}

// sent changes what the server sends, or how it takes the answer.
func sent(change func(p *post) (*http.Response, error)) ways {
	var mu sync.Mutex
	keys := map[string][]byte{}
	w := asked("events/subscribe", func(c *call) {
		mu.Lock()
		defer mu.Unlock()
		url, _ := in(c.params, "delivery")["url"].(string)
		secret, _ := in(c.params, "delivery")["secret"].(string)
		if key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_")); err == nil && len(key) > 0 {
			keys[url] = key
		}
	})
	w.outward = func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(r.Body) // it is in memory
			p := &post{request: r.Clone(r.Context()), body: body}
			for name, values := range r.Header {
				delete(p.request.Header, name)
				p.request.Header[http.CanonicalHeaderKey(name)] = values
			}
			mu.Lock()
			p.key = keys[r.URL.String()]
			mu.Unlock()
			p.send = func() (*http.Response, error) {
				p.request.Body, p.request.ContentLength = io.NopCloser(bytes.NewReader(p.body)), int64(len(p.body))
				return next.RoundTrip(p.request)
			}
			return change(p)
		})
	}
	return w
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// altered sends events with another body, signed as it should be.
func altered(change func(event tree)) ways {
	return sent(func(p *post) (*http.Response, error) {
		if p.isEvent() {
			event := parse(p.body)
			change(event)
			p.body = render(event)
			p.resign()
		}
		return p.send()
	})
}

// instead answers calls of a method itself, where result returns something.
func instead(h http.Handler, method string, result func(c *call) any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body) // it is in memory
		r.Body = io.NopCloser(bytes.NewReader(raw))
		if c := read(raw); c.method == method {
			if answer := result(c); answer != nil {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write(render(tree{"jsonrpc": "2.0", "id": parse(raw)["id"], "result": answer})) // to memory
				return
			}
		}
		h.ServeHTTP(w, r)
	})
}

func body(b []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }
