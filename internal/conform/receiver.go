package conform

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxArrivals = 1000    // requests that one hook remembers
	maxBody     = 1 << 20 // bytes read of a request
)

// Receiver is the endpoint that webhooks arrive at. Serve it where URL leads; it is safe for concurrent use.
type Receiver struct {
	// URL is how the server reaches it, without the path of a hook.
	URL string
	// Guessed says that nobody promised that the server can reach it.
	Guessed bool

	mu    sync.Mutex // guards those and the hooks themselves
	those map[string]*hook
}

// hook is one address of the receiver.
type hook struct {
	*Receiver
	url      string
	secret   string
	answer   func(n int, a *arrival) reply // of the nth request that is no challenge, from 0; nil takes everything
	echo     func(challenge string) reply  // nil echoes rightly
	arrivals []*arrival
	changed  chan struct{} // closed at the next arrival
}

// arrival is one request.
type arrival struct {
	at     time.Time
	method string
	header http.Header
	body   []byte
	kind   string // the body's type; "" for an event
	event  object
}

// reply is how a hook answers. A nil body is none.
type reply struct {
	status int
	header map[string]string
	body   []byte
	hang   bool
}

// open makes a hook. Its path cannot be guessed, so that whoever finds the receiver finds nothing.
func (r *Receiver) open(secret string) *hook {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.those == nil {
		r.those = map[string]*hook{}
	}
	key := rand.Text()
	h := &hook{Receiver: r, url: strings.TrimSuffix(r.URL, "/") + "/" + key, secret: secret, changed: make(chan struct{})}
	r.those[key] = h
	return h
}

// ServeHTTP takes one webhook.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	path := req.URL.Path
	r.mu.Lock()
	h := r.those[path[strings.LastIndexByte(path, '/')+1:]]
	r.mu.Unlock()
	body, err := io.ReadAll(io.LimitReader(req.Body, maxBody))
	if h == nil || err != nil {
		http.NotFound(w, req)
		return
	}
	rep := h.take(&arrival{at: time.Now(), method: req.Method, header: req.Header.Clone(), body: body})
	if rep.hang {
		<-req.Context().Done()
		return
	}
	for name, value := range rep.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(rep.status)
	_, _ = w.Write(rep.body) // whoever left does not want it
}

// take remembers an arrival and decides on the answer.
func (h *hook) take(a *arrival) reply {
	_ = json.Unmarshal(a.body, &a.event) // what is no object has no members
	a.kind = text(a.event["type"])
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, before := range h.arrivals {
		if before.kind != "verification" {
			n++
		}
	}
	if len(h.arrivals) < maxArrivals {
		h.arrivals = append(h.arrivals, a)
	}
	close(h.changed)
	h.changed = make(chan struct{})
	switch {
	case a.kind == "verification" && h.echo != nil:
		return h.echo(text(a.event["challenge"]))
	case a.kind == "verification":
		return echo(text(a.event["challenge"]))
	case h.answer != nil:
		return h.answer(n, a)
	}
	return reply{status: http.StatusNoContent}
}

func echo(challenge string) reply {
	return reply{status: 200, header: map[string]string{"Content-Type": "application/json"}, body: encode(map[string]string{"challenge": challenge})}
}

// respond sets how the next events are answered: one status each, then 204.
func (h *hook) respond(replies ...reply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	begun := 0
	for _, a := range h.arrivals {
		if a.kind != "verification" {
			begun++
		}
	}
	h.answer = func(n int, _ *arrival) reply {
		if i := n - begun; i < len(replies) {
			return replies[i]
		}
		return reply{status: http.StatusNoContent}
	}
}

// of returns the arrivals of a kind, and a channel that is closed at the next.
func (h *hook) of(kind string) (list []*arrival, next <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.arrivals {
		if a.kind == kind {
			list = append(list, a)
		}
	}
	return list, h.changed
}

// await waits until at least n arrivals of a kind are there, for at most d, and returns what is.
func (h *hook) await(ctx context.Context, kind string, n int, d time.Duration) []*arrival {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		list, next := h.of(kind)
		if len(list) >= n {
			return list
		}
		select {
		case <-next:
		case <-ctx.Done():
			return list
		}
	}
}

// find waits for an event that is wanted, for at most d; nil is none.
func (h *hook) find(ctx context.Context, wanted func(*arrival) bool, d time.Duration) *arrival {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		list, next := h.of("")
		if i := slices.IndexFunc(list, wanted); i >= 0 {
			return list[i]
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil
		}
	}
}

// verify checks the signature header of an arrival with a secret, in the words of the Standard Webhooks text: at least one of the
// v1 signatures is the HMAC of id, timestamp and the exact body.
func (a *arrival) verify(secret string) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(a.header.Get("webhook-id") + "." + a.header.Get("webhook-timestamp") + "."))
	mac.Write(a.body)
	want := mac.Sum(nil)
	for one := range strings.FieldsSeq(a.header.Get("webhook-signature")) {
		version, value, _ := strings.Cut(one, ",")
		have, err := base64.StdEncoding.DecodeString(value)
		if version == "v1" && err == nil && hmac.Equal(have, want) {
			return true
		}
	}
	return false
}

// stamp is the webhook-timestamp of an arrival.
func (a *arrival) stamp() (at time.Time, ok bool) {
	value := a.header.Get("webhook-timestamp")
	n, err := strconv.ParseInt(value, 10, 64)
	return time.Unix(n, 0), err == nil && value == strconv.FormatInt(n, 10)
}

// String is the arrival as a finding shows it.
func (a *arrival) String() string {
	var b bytes.Buffer
	b.WriteString(a.method)
	for _, name := range []string{"content-type", "webhook-id", "webhook-timestamp", "webhook-signature", "x-mcp-subscription-id"} {
		b.WriteString(" " + name + ": " + a.header.Get(name) + ";")
	}
	b.WriteString(" " + string(a.body))
	return quote(b.String())
}

// newSecret makes a signing secret of n bytes.
func newSecret(n int) string {
	key := make([]byte, n)
	_, _ = rand.Read(key) // it never fails
	return "whsec_" + base64.StdEncoding.EncodeToString(key)
}
