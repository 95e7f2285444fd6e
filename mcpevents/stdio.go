package mcpevents

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"
)

// maxCalls bounds the calls, streams not counted, that one pipe has under way.
const maxCalls = 64

// finishWithin bounds how long calls that are under way at the end of the input may go on.
const finishWithin = 2 * time.Second

// ServePipe is the MCP endpoint of a server that a client started as a process: one JSON-RPC message a line, from in and
// to out. Everything comes from one caller. Streams of any number are told apart by their ids; notifications/cancelled
// ends a call, and nothing more is sent for it. At the end of in streams end, and calls that are under way are answered if
// that takes no more than moments. It returns nil then, or the error that ended ctx, in or out. A nil server has no events.
func ServePipe(ctx context.Context, s *Server, in io.Reader, out io.Writer, c Caller, opts *HandlerOptions) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	streams, endStreams := context.WithCancel(ctx)
	defer endStreams()
	p := &pipe{Endpoint: NewEndpoint(s, opts), caller: c, out: out, broken: cancel, calls: map[string]context.CancelFunc{},
		room: make(chan struct{}, maxCalls), streams: streams}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 4096), maxRequest)
	var err error
	for ctx.Err() == nil && lines.Scan() {
		if len(lines.Bytes()) > 0 {
			p.take(ctx, append([]byte(nil), lines.Bytes()...))
		}
	}
	if err = lines.Err(); err != nil {
		cancel(err)
	}
	endStreams()
	late := time.AfterFunc(finishWithin, func() { cancel(errFinished) })
	p.under.Wait()
	late.Stop()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errFinished) {
		return cause
	}
	return nil
}

// errFinished gives up calls that outlive their client.
var errFinished = errors.New("the client is gone")

// pipe is one client on a pair of streams.
type pipe struct {
	*Endpoint
	caller Caller
	broken context.CancelCauseFunc
	under  sync.WaitGroup
	room   chan struct{}
	// streams ends before calls do.
	streams context.Context

	writing sync.Mutex // guards out
	out     io.Writer

	mu    sync.Mutex // guards calls
	calls map[string]context.CancelFunc
}

func (p *pipe) take(ctx context.Context, line []byte) {
	m, err := readMessage(line)
	if err == nil && m.id != nil {
		err = m.checkRevision()
	}
	switch {
	case err != nil:
		p.send(wireJSON(p.respond(&m, nil, err)))
	case m.method == "notifications/cancelled":
		p.cancel(m.params)
	case m.id == nil:
	default:
		p.begin(ctx, m)
	}
}

func (p *pipe) begin(ctx context.Context, m message) {
	if m.streams() {
		ctx = p.streams
	}
	ctx, cancel := context.WithCancel(ctx)
	key := string(m.id)
	p.mu.Lock()
	_, taken := p.calls[key]
	if !taken {
		p.calls[key] = cancel
	}
	p.mu.Unlock()
	if taken {
		cancel()
		p.send(wireJSON(p.respond(&m, nil, &Error{Meaning: InvalidRequest, Message: "a request with this id is under way"})))
		return
	}
	if !m.streams() {
		select {
		case p.room <- struct{}{}:
		case <-ctx.Done():
			p.end(key, cancel)
			return
		}
	}
	p.under.Go(func() {
		if !m.streams() {
			defer func() { <-p.room }()
		}
		answer := p.answer(ctx, &m, p.caller, p.send)
		p.end(key, cancel) // before the client can know, and take the id again
		if answer != nil {
			_ = p.send(answer) // send has told of a broken pipe
		}
	})
}

func (p *pipe) end(key string, cancel context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, key)
	cancel()
}

func (p *pipe) cancel(params json.RawMessage) {
	m, err := readMembers(params, "params")
	if err != nil {
		return // a notification has no answer
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if cancel := p.calls[string(m["requestId"])]; cancel != nil {
		cancel()
	}
}

func (p *pipe) send(line []byte) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	_, err := p.out.Write(append(line, '\n'))
	if err != nil {
		p.broken(err)
	}
	return err
}
