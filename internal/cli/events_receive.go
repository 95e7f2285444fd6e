package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/herald-relay/herald/internal/cli/receive"
	"github.com/herald-relay/herald/webhook"
)

// secretFlags are the secrets that deliveries are signed with.
type secretFlags struct {
	Secret     []string `placeholder:"WHSEC" help:"A signing secret. Other users of this machine may see it; better is --secret-file, or the variable HERALD_EVENT_SECRET."`
	SecretFile []string `type:"path" placeholder:"FILE" help:"A file that holds a signing secret, or two while one replaces the other, - for standard input."`
}

// secrets gathers them, the first given first. A malformed one is named by its place, never shown.
func (f *secretFlags) secrets(w *World) ([]webhook.Secret, error) {
	texts := f.Secret
	for _, name := range f.SecretFile {
		text, err := readSmall(w, name)
		if err != nil {
			return nil, err
		}
		texts = append(texts, strings.Fields(text)...)
	}
	if len(texts) == 0 {
		texts = strings.Fields(os.Getenv("HERALD_EVENT_SECRET"))
	}
	all := make([]webhook.Secret, len(texts))
	for i, text := range texts {
		var err error
		if all[i], err = webhook.ParseSecret(text); err != nil {
			return nil, &outcome{status: statusUsage, text: fmt.Sprintf("secret %d is none: %s", i+1, strings.TrimPrefix(err.Error(), "webhook: ")), hint: makeSecret}
		}
	}
	if len(all) == 0 {
		return nil, &outcome{status: statusUsage, text: "there is no secret", hint: makeSecret}
	}
	return all, nil
}

const makeSecret = "make one with: herald events receive --generate-secret >secret, and give it with --secret-file secret"

type eventsReceiveCmd struct {
	Listen         string        `default:"127.0.0.1:8790" placeholder:"ADDR" help:"Address and port to receive on; ${default} by default. Any path is received."`
	TLSCert        string        `name:"tls-cert" type:"path" placeholder:"FILE" help:"A certificate in PEM, to receive over TLS by itself."`
	TLSKey         string        `name:"tls-key" type:"path" placeholder:"FILE" help:"Its key in PEM."`
	GenerateSecret bool          `help:"Print a new secret and end."`
	Subscription   []string      `placeholder:"ID" help:"Refuse deliveries of other subscriptions; give the flag again for more."`
	Script         string        `placeholder:"STEPS" help:"How to answer the next deliveries and challenges, such as wrong-echo,500*3,429=7,slow=10s,ok."`
	Count          int           `placeholder:"N" help:"End after N verified deliveries; challenges do not count."`
	Timeout        time.Duration `placeholder:"TIME" help:"End after this time, such as 30s."`
	Save           string        `type:"path" placeholder:"DIR" help:"Keep each arrival in this directory."`
	secretFlags
	jsonFlag
}

// Help is shown below the flags.
func (*eventsReceiveCmd) Help() string {
	return `What arrives is verified as a careful receiver does: signature, timestamp, subscription. Only then the script answers; all else is refused with 400, 401, 405, 413, 415 or 503. Challenges are echoed.

A script is a list of steps with commas between them. Deliveries take ok, a status such as 410, 413 or 503, a status with Retry-After such as 429=7 or 429=date+30s, redirect=URL, slow=10s, drip=1s (a byte of the answer at a time), drop and hang. slow and drip may be followed by what is answered then, as in slow=10s+503. Challenges take echo and wrong-echo, and any other step after challenge:, as in challenge:500. *3 after a step repeats it, * alone makes it the answer to all the rest. After the last step everything is answered rightly.

Exit status: 0 as many came as --count says, or the time is over and no --count was given; 3 the time is over and fewer came; 1 something was refused; 130 interrupted.

Examples:
  herald events receive --generate-secret >secret
  herald events receive --secret-file secret --script 503*2,ok
  herald events receive --secret-file secret --script wrong-echo,echo --count 1 --timeout 1m --json`
}

// Run receives.
func (c *eventsReceiveCmd) Run(ctx context.Context, w *World) error {
	if c.GenerateSecret {
		w.print("%s", webhook.NewSecret().Reveal())
		return nil
	}
	opts, err := c.options(w)
	if err != nil {
		return err
	}
	var folder *receive.Folder
	if c.Save != "" {
		if folder, err = receive.NewFolder(c.Save); err != nil {
			return err
		}
	}
	listener, scheme, err := c.listen()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if c.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, c.Timeout, errTooLong)
		defer stop()
	}
	t := &tally{w: w, json: c.JSON, folder: folder, want: c.Count, end: cancel}
	opts.Tell = t.tell
	c.announce(w, fmt.Sprintf("%s://%s/", scheme, listener.Addr()))
	if err := serveArrivals(ctx, listener, receive.New(opts), opts.Script.Longest()); err != nil {
		return err
	}
	return t.result(context.Cause(ctx))
}

func (c *eventsReceiveCmd) options(w *World) (opts receive.Options, err error) {
	if opts.Script, err = receive.ParseScript(c.Script); err != nil {
		return opts, &outcome{status: statusUsage, text: err.Error(), hint: "herald events receive --help shows what a script may hold"}
	}
	if c.Count < 0 || c.Timeout < 0 || (c.TLSCert == "") != (c.TLSKey == "") {
		return opts, &outcome{status: statusUsage, text: "--count and --timeout must not be negative, and --tls-cert needs --tls-key"}
	}
	opts.Subscriptions = c.Subscription
	opts.Secrets, err = c.secrets(w)
	return opts, err
}

// listen opens the door.
func (c *eventsReceiveCmd) listen() (l net.Listener, scheme string, err error) {
	if c.TLSCert == "" {
		l, err = net.Listen("tcp", c.Listen)
		return l, "http", err
	}
	pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
	if err != nil {
		return nil, "", fmt.Errorf("read the certificate: %w", err)
	}
	l, err = tls.Listen("tcp", c.Listen, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	return l, "https", err
}

// announce says where it receives, once it does.
func (c *eventsReceiveCmd) announce(w *World, address string) {
	if c.JSON {
		w.say(`{"herald":"receiving","url":%q}`, address)
		return
	}
	w.say("receiving on %s", address)
}

// Why receiving ends by itself.
var (
	errEnough  = errors.New("as many came as were asked for")
	errTooLong = errors.New("the time is over")
)

// serveArrivals serves until ctx ends, and lets answers be finished.
func serveArrivals(ctx context.Context, l net.Listener, h http.Handler, slowest time.Duration) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, MaxHeaderBytes: 64 << 10,
		ErrorLog: log.New(discard{}, "", 0)}
	var serving sync.WaitGroup
	failed := make(chan error, 1)
	serving.Go(func() { failed <- server.Serve(l) })
	defer serving.Wait()
	select {
	case err := <-failed:
		return fmt.Errorf("receive: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(slowest, time.Minute)+5*time.Second)
	defer cancel()
	if server.Shutdown(grace) != nil {
		_ = server.Close() // whoever is answered slower than that is left
	}
	return nil
}

// discard takes the HTTP server's own remarks, which repeat what strangers did.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// tally shows arrivals and counts them.
type tally struct {
	w      *World
	json   bool
	folder *receive.Folder
	want   int
	end    context.CancelCauseFunc

	came, refused int // written by tell, which is called by one at a time; read after the server's end
}

func (t *tally) tell(a receive.Arrival) {
	if err := t.show(a); err != nil {
		t.end(err)
		return
	}
	switch {
	case a.Verdict != receive.Verified:
		t.refused++
	case a.Kind != receive.KindVerification:
		t.came++
	}
	if t.want > 0 && t.came >= t.want {
		t.end(errEnough)
	}
}

func (t *tally) show(a receive.Arrival) error {
	if t.folder != nil {
		if err := t.folder.Save(a); err != nil {
			return err
		}
	}
	text := []byte(a.Text(t.w.style()))
	if t.json {
		var err error
		if text, err = a.JSON(); err != nil {
			return err
		}
	}
	_, err := t.w.Out.Write(text)
	return err
}

// result turns how it ended into an exit status.
func (t *tally) result(cause error) error {
	switch {
	case t.refused > 0 && (cause == nil || errors.Is(cause, errEnough) || errors.Is(cause, errTooLong)):
		return &outcome{status: statusFailed, code: "refused", text: fmt.Sprintf("%s refused; %d came", count(int64(t.refused), "arrival"), t.came)}
	case cause == nil || errors.Is(cause, errEnough):
		return nil
	case errors.Is(cause, errTooLong) && t.want > 0:
		return &outcome{status: statusTimedOut, code: "timed_out", text: fmt.Sprintf("%d of %d deliveries came in time", t.came, t.want)}
	case errors.Is(cause, errTooLong):
		return nil
	}
	return cause
}
