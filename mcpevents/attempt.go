package mcpevents

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/webhook"
)

const (
	maxDrained = 4 << 10          // bytes read of an answer, to keep its connection
	noFamily   = 10 * time.Minute // until a delivery of a family that this process does not know is looked at again
)

// result is what came of a lease.
type result struct {
	lease    driver.Lease
	outcome  Outcome
	verdict  Verdict
	category Category
	ended    time.Time
	// settlement says what becomes of the delivery.
	settlement driver.Settlement
	attempted  bool
}

// carry brings one leased delivery as far as it comes: it prepares a request, makes it, and judges the outcome.
func (d *dispatcher) carry(work context.Context, l driver.Lease, claimed time.Time) result {
	r := result{lease: l}
	r.settlement = driver.Settlement{Subscription: l.Delivery.Subscription, Sequence: l.Delivery.Sequence, Lease: l.Delivery.Lease}
	f := d.family(l.Subscription.Family)
	now := time.Now()
	switch {
	case f == nil:
		return r.giveBack(now.Add(noFamily))
	case !l.Delivery.Deadline.IsZero() && now.After(l.Delivery.Deadline):
		return r.drop(ReasonDeadline, now)
	case time.Since(claimed) > leaseMargin/2: // the process was stopped for a while: the lease may have run out
		return r.giveBack(now)
	}
	req, err := d.request(work, f, &l)
	if err != nil {
		d.log.Error("delivery cannot be prepared", "subscription", l.Subscription.ID, "sequence", l.Delivery.Sequence, "err", err)
		return r.giveBack(now.Add(noFamily))
	}
	r.outcome = d.do(req, f.Policy.Timeout)
	if r.outcome.Err != nil && errors.Is(context.Cause(work), errStopped) {
		return r.giveBack(time.Now())
	}
	r.ended = time.Now()
	return r.judge(&f.Policy, now, rand.Float64())
}

// giveBack ends a lease without an attempt.
func (r result) giveBack(due time.Time) result {
	r.ended = time.Now()
	r.settlement.State, r.settlement.Due, r.settlement.At = driver.Pending, due, r.ended
	return r
}

func (r result) drop(reason string, now time.Time) result {
	r.ended = now
	r.verdict = Drop
	r.settlement.State, r.settlement.Reason, r.settlement.At = driver.Dropped, reason, now
	return r
}

// judge decides what an outcome means, by the policy alone.
func (r result) judge(p *Policy, started time.Time, random float64) result {
	r.attempted = true
	r.verdict, r.category = p.Verdicts.Judge(r.outcome), p.Verdicts.Category(r.outcome)
	set := &r.settlement
	set.At = r.ended
	set.Attempt = &Attempt{Started: started, Elapsed: r.outcome.Elapsed, Status: r.outcome.Status,
		Category: string(r.category), Verdict: string(r.verdict)}
	switch r.verdict {
	case Done:
		set.State = driver.Delivered
	case End:
		set.State, set.Reason = driver.Dropped, ReasonGone
	case Drop:
		set.State, set.Reason = driver.Dropped, dropReason(r.outcome.Status)
	default:
		r.again(p, random)
	}
	return r
}

func (r *result) again(p *Policy, random float64) {
	d := &r.lease.Delivery
	next, ok := p.Schedule.Next(d.Tries+1, r.ended, r.outcome.RetryAfter, d.Deadline, random)
	set := &r.settlement
	switch _, more := p.Schedule.Wait(d.Tries + 1); {
	case ok:
		set.State, set.Due = driver.Pending, next
	case more:
		set.State, set.Reason = driver.Dropped, ReasonDeadline
	default:
		set.State, set.Reason = driver.Dropped, ReasonExhausted
	}
}

func dropReason(status int) string {
	switch status {
	case http.StatusGone:
		return ReasonGone
	case http.StatusRequestEntityTooLarge:
		return ReasonTooLarge
	}
	return ReasonRefused
}

// body renders what is sent for a delivery: the same bytes at every attempt, since all that goes in is fixed.
func (f *Family) body(l *driver.Lease, epoch string) (id string, body []byte) {
	id = f.Policy.EventIDs.wireID(&l.Event, l.Subscription.ID)
	o := placed{Occurrence: occurrence(&l.Event, id)}
	if l.Delivery.Cursor >= 0 {
		c := f.Policy.Replay.write(l.Delivery.Cursor, epoch)
		o.Cursor = &c
	}
	return id, render(o)
}

// render writes an occurrence without touching the bytes of its payload: the standard encoder would compact them and
// escape what HTML cannot hold, and then a receiver's hash would not equal the ledger's.
func render(o placed) []byte {
	b := append([]byte(`{"eventId":`), wireJSON(o.EventID)...)
	b = append(append(b, `,"name":`...), wireJSON(o.Name)...)
	b = append(append(b, `,"timestamp":`...), wireJSON(o.Timestamp)...)
	b = append(append(b, `,"data":`...), o.Data...)
	b = append(append(b, `,"cursor":`...), wireJSON(o.Cursor)...)
	if len(o.Meta) > 0 {
		b = append(append(b, `,"_meta":`...), o.Meta...)
	}
	return append(b, '}')
}

func (d *dispatcher) request(ctx context.Context, f *Family, l *driver.Lease) (*http.Request, error) {
	secrets, err := d.openAll(&l.Subscription, time.Now())
	if err != nil {
		return nil, err
	}
	id, body := f.body(l, l.Epoch)
	return d.newPost(ctx, l.Subscription.URL, id, l.Subscription.ID, secrets, body)
}

// newPost makes a signed request. Timestamp and signatures are of this moment.
func (s *Server) newPost(ctx context.Context, url, id, subscription string, secrets []webhook.Secret, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if err := webhook.SetHeaders(req.Header, id, time.Now(), body, secrets...); err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", typeJSON)
	req.Header.Set("User-Agent", s.opts.UserAgent)
	req.Header[headerSub] = []string{subscription} // in lower case on the wire, like the three beside it
	return req, nil
}

// do makes one request and reads nothing of the answer but its status and Retry-After.
func (s *Server) do(req *http.Request, timeout time.Duration) Outcome {
	started := time.Now()
	ctx, cancel := context.WithTimeout(req.Context(), timeout)
	defer cancel()
	resp, err := s.opts.Egress.RoundTrip(req.WithContext(ctx))
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return Outcome{Err: err, Elapsed: time.Since(started)}
	}
	o := Outcome{Status: resp.StatusCode, Elapsed: time.Since(started)}
	if o.Status < 200 || o.Status > 299 {
		o.RetryAfter, _ = webhook.ParseRetryAfter(resp.Header.Get("Retry-After"), time.Now())
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrained) // judged by its status already
	_ = resp.Body.Close()
	return o
}
