package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/herald-relay/herald/internal/lifecycle"
)

// ErrAttached says that a request cannot be detached: its connection carries others, or is none that can be taken over.
var ErrAttached = errors.New("web: the request stays attached to its connection")

// errHungUp is why the context of a detached request ends.
var errHungUp = errors.New("the client hung up")

// HungUp reports whether err is that of a request whose client is gone: nobody is there to be answered.
func HungUp(err error) bool { return errors.Is(err, errHungUp) || errors.Is(err, context.Canceled) }

// answerWithin is how long a client may take to accept the answer of a detached request.
const answerWithin = 10 * time.Second

// Detach takes a request that has to wait long off the server, so that waiting costs its socket and two small stacks
// instead of the server's buffers: about a quarter. It returns at once; the caller must return too and not touch
// w or r again. answer runs on a goroutine of the router's own and writes, or returns an error, as a Handler does; its
// context ends when the client hangs up. The connection closes behind the answer, and the client, told so, opens
// another for its next request.
//
// ErrAttached means that nothing was done and the caller has to wait in place, as under HTTP/2, and for HEAD, whose
// answer must leave its body out.
func Detach(w http.ResponseWriter, r *http.Request, answer func(ctx context.Context, w http.ResponseWriter) error) error {
	rec, ok := w.(*recorder)
	if !ok || r.Method == http.MethodHead {
		return ErrAttached
	}
	rec.router.detaching.Lock()
	defer rec.router.detaching.Unlock()
	if rec.router.waited {
		return ErrAttached
	}
	header := rec.Header().Clone()
	conn, _, err := http.NewResponseController(rec.ResponseWriter).Hijack()
	if err != nil {
		return ErrAttached
	}
	rec.detached = true
	d := &recorder{ResponseWriter: &letter{header: header}, router: rec.router, pattern: rec.pattern, start: rec.start}
	rec.router.detached.Go(func() { d.serve(conn, answer) })
	return nil
}

// serve waits for the answer while it watches whether the client is still there, then posts it.
func (d *recorder) serve(conn net.Conn, answer func(ctx context.Context, w http.ResponseWriter) error) {
	ctx, hangUp := context.WithCancelCause(context.Background())
	defer hangUp(nil)
	d.router.detached.Go(func() {
		var b [1]byte
		if _, err := conn.Read(b[:]); err != nil {
			hangUp(errHungUp)
		} // a byte means that a client sends its next request early; it learns that the connection closes
	})
	err := d.router.call(func() error { return answer(ctx, d) })
	d.router.finish(ctx, d, err)
	_ = conn.SetDeadline(time.Now().Add(answerWithin))
	if ctx.Err() == nil {
		_ = d.ResponseWriter.(*letter).post(conn) // a failure means that the client is gone
	}
	_ = conn.Close()
}

// WaitDetached returns when every detached request has been answered, or with ctx's cause.
func (rt *Router) WaitDetached(ctx context.Context) error {
	rt.detaching.Lock()
	rt.waited = true // nothing is detached any more: counting up must not race with the wait
	rt.detaching.Unlock()
	return lifecycle.Await(ctx, &rt.detached)
}

// letter is a response that is written whole before it is sent.
type letter struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header returns the header to be sent.
func (l *letter) Header() http.Header { return l.header }

// WriteHeader keeps the first status.
func (l *letter) WriteHeader(status int) {
	if l.status == 0 {
		l.status = status
	}
}

// Write adds to the body.
func (l *letter) Write(b []byte) (int, error) {
	l.WriteHeader(http.StatusOK)
	return l.body.Write(b)
}

// post sends the response and announces that the connection closes.
func (l *letter) post(conn io.Writer) error {
	l.header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	res := &http.Response{
		StatusCode: l.status, ProtoMajor: 1, ProtoMinor: 1, Header: l.header, Close: true,
		Body: io.NopCloser(&l.body), ContentLength: int64(l.body.Len()),
	}
	var whole bytes.Buffer // one packet, where it fits
	if err := res.Write(&whole); err != nil {
		return err
	}
	_, err := conn.Write(whole.Bytes())
	return err
}
