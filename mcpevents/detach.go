package mcpevents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"time"
)

// errHungUp ends a detached stream whose client is gone.
var errHungUp = errors.New("mcpevents: the client hung up")

// streamEnd is how a stream ended.
type streamEnd struct {
	result json.RawMessage
	err    error
}

// serveDetached serves a stream on a goroutine of the server's own, and returns once that has taken the connection or
// the call is over. It reports whether it did; otherwise nothing was done. See HandlerOptions.Detach.
func (e *Endpoint) serveDetached(w http.ResponseWriter, r *http.Request, m *message, c Caller) bool {
	ctx, leave := context.WithCancelCause(context.WithoutCancel(r.Context()))
	attached := context.AfterFunc(r.Context(), func() { leave(errHungUp) })
	taken, over := make(chan struct{}), make(chan streamEnd, 1)
	out := &frames{w: w, control: http.NewResponseController(w)}
	out.detach = func(conn net.Conn) {
		attached()
		e.hub.spawn(func() { watchHangUp(conn, leave) })
		close(taken)
	}
	began := e.hub.spawn(func() {
		defer leave(nil)
		result, err := e.streamSafely(ctx, m, c, out)
		if out.conn == nil {
			over <- streamEnd{result, err}
			return
		}
		if err == nil && result != nil {
			_ = out.send(wireJSON(e.respond(m, result, nil))) // a client may have left
		}
		out.close()
	})
	if !began {
		leave(nil)
		return false
	}
	select {
	case <-taken:
	case end := <-over:
		e.endStream(w, r, m, out, end)
	}
	return true
}

// streamSafely turns a panic of the application's functions, which net/http would have caught, into the end of the stream.
func (e *Endpoint) streamSafely(ctx context.Context, m *message, c Caller, out *frames) (result json.RawMessage, err error) {
	defer func() {
		if v := recover(); v != nil {
			e.log.Error("panic in a stream", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			err = internal("serve a stream", errors.New("panic"))
		}
	}()
	return e.stream(ctx, m, c, func(n Notification) error { return out.send(wireJSON(n)) })
}

// watchHangUp ends a stream when its client closes the connection. A byte means that a client sends its next request
// early; it learns that the connection closes.
func watchHangUp(conn net.Conn, leave context.CancelCauseFunc) {
	var b [1]byte
	if _, err := conn.Read(b[:]); err != nil {
		leave(errHungUp)
	}
}

// take takes the connection from the HTTP server, so that waiting costs a socket and two small stacks, and lets go of
// what belongs to the server. A connection that carries other requests too cannot be taken: it stays as it is.
func (f *frames) take(head http.Header) error {
	if f.detach == nil {
		return nil
	}
	conn, _, err := f.control.Hijack()
	if err != nil {
		return nil
	}
	_ = conn.SetDeadline(time.Time{}) // the server's
	f.conn, f.w, f.control = conn, nil, nil
	head.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	head.Set("Connection", "close")
	head.Set("Transfer-Encoding", "chunked")
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 200 OK\r\n")
	_ = head.Write(&b) // memory does not fail
	b.WriteString("\r\n")
	f.detach(conn)
	f.detach = nil
	return f.write(b.Bytes())
}

// write sends bytes to a connection that was taken.
func (f *frames) write(b []byte) error {
	_ = f.conn.SetWriteDeadline(time.Now().Add(writeTimeout)) // a connection that has none fails by writing
	_, err := f.conn.Write(b)
	return err
}

// chunk wraps one frame for a connection that was taken.
func chunk(data []byte) []byte {
	return append(append(fmt.Appendf(nil, "%x\r\n", len(data)), data...), "\r\n"...)
}

// close ends the answer on a connection that was taken.
func (f *frames) close() {
	_ = f.write([]byte("0\r\n\r\n")) // a client may have left
	_ = f.conn.Close()
}
