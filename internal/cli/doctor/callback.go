package doctor

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/herald-relay/herald/webhook"
)

// CallbackListen is where a callback is received when its address is not this machine's own: what answers at the address
// must pass the call on to here.
const CallbackListen = "127.0.0.1:8788"

// webhooks has the relay call out. Without a callback it is asked to call itself, which must be refused for the answer and
// not for want of a way out; so nothing is subscribed.
func (x *outside) webhooks(ctx context.Context) {
	if x.Callback != "" {
		x.calledBack(ctx)
		return
	}
	if u, err := url.Parse(x.address); err != nil || u.Scheme != "https" || u.Port() != "" {
		x.note("webhooks", "whether the relay can call out is only seen with --callback")
		return
	}
	switch _, out := x.subscribe(ctx, x.address+"/health", webhook.NewSecret()); {
	case slices.Contains(answered, out.Error.Data.Reason):
		x.pass("webhooks", "the relay can call out: it reached itself")
	case out.Error.Data.Reason == "host_not_allowed":
		x.note("webhooks", "EVENT_CALLBACK_HOSTS limits where the relay may call")
	default:
		x.warn("webhooks", "asked to call its own address, the relay says: "+out.says(), "let the relay reach public addresses on port 443; where only its own is out of reach, as behind some routers, --callback tells more")
	}
}

// answered are the grounds on which an address is refused that did answer, as relays and other servers name them.
var answered = []string{"bad_status", "challenge_mismatch", "http_4xx", "http_5xx"}

func (r *rpcAnswer) says() string {
	if r.Error.Data.Reason != "" {
		return r.Error.Message + " (" + r.Error.Data.Reason + ")"
	}
	return r.Error.Message
}

func (x *outside) subscribe(ctx context.Context, to string, secret webhook.Secret) (id string, out rpcAnswer) {
	params, err := json.Marshal(map[string]any{"name": replyEvent, "delivery": map[string]string{"mode": "webhook", "url": to, "secret": secret.Reveal()}})
	if err != nil {
		out.Error.Message = err.Error()
		return "", out
	}
	out, wrong := x.call(ctx, message{method: "events/subscribe", params: members(params), stateless: true}, func(r *rpcAnswer) bool { return r.Result.ID != "" })
	if out.Error.Message == "" {
		out.Error.Message = wrong
	}
	return out.Result.ID, out
}

// callback takes the relay's challenge.
type callback struct {
	secret webhook.Secret

	mu    sync.Mutex // guards what follows
	calls int
	wrong string // of the last call
}

func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAnswer))
	if err == nil {
		_, err = webhook.Verify(r.Header, body, time.Now(), c.secret)
	}
	var d struct {
		Type      string `json:"type"`
		Challenge string `json:"challenge"`
	}
	if err == nil {
		err = json.Unmarshal(body, &d)
	}
	if err == nil && d.Type != "verification" {
		err = fmt.Errorf("it is of type %q", d.Type)
	}
	c.mu.Lock()
	c.calls++
	if c.wrong = ""; err != nil {
		c.wrong = err.Error()
	}
	c.mu.Unlock()
	if err != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	answer, err := json.Marshal(map[string]string{"challenge": d.Challenge})
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // the relay tells whether it came
}

// state says how many calls came, and what was wrong with the last.
func (c *callback) state() (calls int, wrong string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls, c.wrong
}

// calledBack subscribes an address that leads to this machine, answers the challenge, and ends the subscription.
func (x *outside) calledBack(ctx context.Context) {
	l, err := net.Listen("tcp", x.callbackListen())
	if err != nil {
		x.fail("webhooks", err.Error(), "free the port, or choose another with --callback-listen")
		return
	}
	if x.opened != nil {
		x.opened(l.Addr().String())
	}
	to := x.Callback
	if u, err := url.Parse(to); err == nil && u.Port() == "0" { // whichever port is free
		u.Host = l.Addr().String()
		to = u.String()
	}
	c := &callback{secret: webhook.NewSecret()}
	srv := &http.Server{Handler: c, ReadTimeout: answerWithin, WriteTimeout: answerWithin, MaxHeaderBytes: maxHeader}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(l) }) // it ends by Close
	defer serving.Wait()
	defer func() { _ = srv.Close() }()

	id, out := x.subscribe(ctx, to, c.secret)
	calls, wrong := c.state()
	switch {
	case wrong != "":
		x.fail("webhooks", "a call came, and does not verify: "+wrong, "something on the way changes the body or the headers; the clocks may differ too")
	case id == "" && calls == 0:
		x.fail("webhooks", "no call came to "+l.Addr().String()+"; the relay says: "+out.says(), "have "+to+" lead here; the relay calls public https addresses on port 443 only, and must be let out")
	case id == "":
		x.fail("webhooks", "the call came and was answered; the relay says: "+out.says(), "let the answer pass to the relay as it is")
	default:
		x.pass("webhooks", "the relay called back, signed as it should be")
		x.unsubscribe(ctx, to)
	}
}

func (x *outside) unsubscribe(ctx context.Context, to string) {
	params, err := json.Marshal(map[string]any{"name": replyEvent, "delivery": map[string]string{"mode": "webhook", "url": to}})
	if err != nil {
		return
	}
	_, wrong := x.call(ctx, message{method: "events/unsubscribe", params: members(params), stateless: true}, func(*rpcAnswer) bool { return true })
	if wrong != "" {
		x.warn("webhooks", "the subscription of this check stays: "+wrong, "end it on a device")
	}
}

// members are an object's, without its braces.
func members(object []byte) string { return string(object[1 : len(object)-1]) }

func (x *outside) callbackListen() string {
	if u, err := url.Parse(x.Callback); err == nil && x.CallbackListen == "" && loopback(u.Hostname()) && u.Port() != "" {
		return u.Host
	}
	if x.CallbackListen == "" {
		return CallbackListen
	}
	return x.CallbackListen
}
