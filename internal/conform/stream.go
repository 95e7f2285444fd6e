package conform

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	maxFrames = 10_000  // that one stream remembers
	maxFrame  = 1 << 20 // bytes of one line
)

// frame is one event of a stream, or a comment.
type frame struct {
	at      time.Time
	comment bool
	raw     string
	message object
	method  string
	params  object
}

// stream is an open events/stream call.
type stream struct {
	sent   string
	method string
	id     string
	plain  *answer // when the answer was no stream
	header http.Header
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	frames  []frame
	over    bool
	changed chan struct{}
}

// follow opens events/stream with an id, which is raw JSON.
func (r *run) follow(id string, p params) (*stream, error) { return r.open("events/stream", id, p) }

// open makes a call that is answered by a stream.
func (r *run) open(method, id string, p params) (*stream, error) {
	ctx, cancel := context.WithCancel(r.ctx)
	req, body, err := r.newRequest(ctx, request{method: method, params: p, id: id})
	if err != nil {
		cancel()
		return nil, err
	}
	s := &stream{sent: quote(r.redact(body)), method: method, id: id, cancel: cancel, changed: make(chan struct{})}
	late := time.AfterFunc(r.o.Timeout, cancel) // for the headers only
	resp, err := r.o.HTTP.RoundTrip(req)
	if !late.Stop() && err == nil {
		_ = resp.Body.Close()
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		return nil, cannot("%s got no answer: %v", s.sent, err)
	}
	s.header = resp.Header
	if !isSSE(resp.Header) {
		defer cancel()
		defer resp.Body.Close()
		raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // a part is shown as it is
		s.plain = r.read(body, resp, raw)
		return s, nil
	}
	s.done.Go(func() { s.read(resp.Body) })
	r.streams = append(r.streams, s)
	return s, nil
}

// read takes frames until the stream ends.
func (s *stream) read(body io.ReadCloser) {
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxFrame)
	var data []string
	for lines.Scan() {
		line := lines.Text()
		switch rest, isData := strings.CutPrefix(line, "data:"); {
		case isData:
			data = append(data, strings.TrimPrefix(rest, " "))
		case strings.HasPrefix(line, ":"):
			s.add(frame{comment: true, raw: line})
		case line == "" && data != nil:
			s.add(newFrame(strings.Join(data, "\n")))
			data = nil
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	close(s.changed)
	s.changed = make(chan struct{})
}

func newFrame(raw string) frame {
	f := frame{raw: raw}
	_ = json.Unmarshal([]byte(raw), &f.message) // what is no object has no members
	f.method = text(f.message["method"])
	_ = json.Unmarshal(f.message["params"], &f.params) // likewise
	return f
}

// meta is the _meta of a notification.
func (f *frame) meta() (o object) {
	_ = json.Unmarshal(f.params["_meta"], &o) // what is no object has no members
	return o
}

func (s *stream) add(f frame) {
	f.at = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.frames) < maxFrames {
		s.frames = append(s.frames, f)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// all returns the frames so far, whether the stream is over, and a channel that is closed at the next change.
func (s *stream) all() (list []frame, over bool, next <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frames[:len(s.frames):len(s.frames)], s.over, s.changed
}

// await waits for the nth frame (from 1) that is wanted, until the stream is over or d has passed.
func (s *stream) await(ctx context.Context, n int, d time.Duration, wanted func(*frame) bool) (frame, bool) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		list, over, next := s.all()
		found := 0
		for i := range list {
			if wanted(&list[i]) {
				if found++; found == n {
					return list[i], true
				}
			}
		}
		if over {
			return frame{}, false
		}
		select {
		case <-next:
		case <-ctx.Done():
			return frame{}, false
		}
	}
}

// close abandons the stream, as a client does.
func (s *stream) close() {
	s.cancel()
	s.done.Wait()
}

func isMethod(method string) func(*frame) bool {
	return func(f *frame) bool { return f.method == method }
}

// tail is what a finding shows of a stream.
func (s *stream) tail() string {
	if s.plain != nil {
		return s.plain.String()
	}
	list, _, _ := s.all()
	var b strings.Builder
	for _, f := range list[max(0, len(list)-4):] {
		b.WriteString(quote(f.raw) + "\n")
	}
	if b.Len() == 0 {
		return "nothing"
	}
	return quote(b.String())
}

func (s *stream) but(want string) error { return fail(s.sent, want, "%s", s.tail()) }
