package listen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/herald-relay/herald/internal/cli/desk"
	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/internal/client"
)

// Remark is a JSON line of the program's own, beside the relay's frames.
type Remark struct {
	// Herald is connecting, live, lost, replied, approved, denied or error.
	Herald       string  `json:"herald"`
	ID           string  `json:"id,omitzero"`
	Error        string  `json:"error,omitzero"`
	RetrySeconds float64 `json:"retrySeconds,omitzero"`
}

func (l *Listener) jsonFrame(f client.Frame, raw jsontext.Value) error {
	if _, pong := f.(client.Pong); pong {
		return nil
	}
	raw = raw.Clone()
	if err := raw.Compact(); err != nil {
		return nil // ReadFrame took it, so it is JSON
	}
	if err := l.emit(raw); err != nil {
		return fmt.Errorf("write a frame: %w", err)
	}
	n, notified := f.(client.Notified)
	if !notified {
		return nil
	}
	l.Desk.Put(n.ID, "", n.Payload.ExpectReply)
	if !n.Payload.ExpectReply {
		l.dealtWith()
	}
	return nil
}

func (l *Listener) emit(text []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.opt.Out.Write(append(screen.JSON(text), '\n'))
	return err
}

func (l *Listener) remark(r Remark) {
	r.Error = screen.Line(r.Error)
	data, err := json.Marshal(r)
	if err == nil {
		err = l.emit(data)
	}
	if err != nil {
		l.end(fmt.Errorf("write a remark: %w", err))
	}
}

func (l *Listener) jsonCondition(c client.Condition, err error, retry time.Duration) {
	switch c {
	case client.Connecting:
		l.remark(Remark{Herald: "connecting"})
	case client.Live:
		l.remark(Remark{Herald: "live"})
	case client.Lost:
		l.remark(Remark{Herald: "lost", Error: err.Error(), RetrySeconds: retry.Seconds()})
	}
}

// jsonAnswers takes JSON lines: reports, shaped as the body of POST /v1/device/receipt, and decisions, shaped as that of
// POST /v1/device/consent.
func (l *Listener) jsonAnswers(ctx context.Context) {
	lines := newPipe(l.opt.Piped)
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return
		}
		var r jsonLine
		if err == nil {
			err = json.Unmarshal([]byte(line), &r, json.RejectUnknownMembers(true))
		}
		if err == nil {
			err = l.jsonLine(ctx, r)
		}
		if err != nil {
			l.remark(Remark{Herald: "error", ID: r.ID, Error: err.Error()})
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// jsonLine is a line of standard input: a report, or the decision about a request for approval.
type jsonLine struct {
	client.Report `json:",embed"`
	Decision      string `json:"decision,omitzero"` // approve or deny
}

func (l *Listener) jsonLine(ctx context.Context, r jsonLine) error {
	switch r.Decision {
	case "":
		return l.jsonReport(ctx, r.Report)
	case "approve", "deny":
	default:
		return errors.New("decision must be approve or deny")
	}
	status, _, err := l.opt.Device.Decide(ctx, r.ID, r.Decision == "approve")
	if err == nil {
		l.remark(Remark{Herald: status, ID: r.ID})
	}
	return err
}

func (l *Listener) jsonReport(ctx context.Context, r client.Report) error {
	switch r.Kind {
	case client.Displayed, client.Spoken:
		l.line.Report(r)
		return nil
	case client.Suppressed:
		l.line.Report(r)
		l.settled(desk.Item{ID: r.ID}, desk.Ended)
		return nil
	case client.Replied:
		if err := l.opt.Device.Reply(ctx, r); err != nil {
			return err
		}
		l.remark(Remark{Herald: "replied", ID: r.ID})
		l.settled(desk.Item{ID: r.ID}, desk.Answered)
		return nil
	}
	return errors.New("kind must be displayed, spoken, replied or suppressed")
}
