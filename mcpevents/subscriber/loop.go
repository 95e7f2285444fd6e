package subscriber

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/herald-relay/herald/mcpevents"
)

const (
	firstRetry   = time.Second
	longestRetry = 5 * time.Minute
	steady       = 30 * time.Second // how long a round must last for the next wait to be short again
	withoutEnd   = time.Hour        // between refreshes of a subscription that has no end
)

// errAgain ends one round of a mode: begin again from the list of event types.
var errAgain = errors.New("subscriber: the server ended it for now")

// keep runs one subscription until ctx ends or it is over for good.
func (s *Subscriber) keep(ctx context.Context, e *entry) {
	retry := firstRetry
	for ctx.Err() == nil {
		began := time.Now()
		err := s.round(ctx, e)
		if ctx.Err() != nil {
			return
		}
		if final(err) {
			s.lost(e, err, 0)
			s.stop(context.WithoutCancel(ctx), e, reasonOf(err))
			return
		}
		if time.Since(began) > steady {
			retry = firstRetry // it worked for a while: perhaps something on the way ends long streams
		}
		wait := jitter(retry)
		s.log.Info("subscription begins again", "subscription", e.want.Key, "event_type", e.want.Name, "in", wait, "err", err)
		s.lost(e, err, wait)
		if pause(ctx, e, wait) != nil {
			return
		}
		retry = min(2*retry, longestRetry)
	}
}

func (s *Subscriber) lost(e *entry, err error, again time.Duration) {
	if s.opts.Lost != nil {
		s.opts.Lost(e.want.Key, err, again)
	}
}

// final reports whether trying again can help nothing: the server said that this is not ours, or wrong.
func final(err error) bool {
	var refusal *mcpevents.Error
	if errors.Is(err, ErrNoMode) {
		return true
	}
	return errors.As(err, &refusal) && (refusal.Meaning == mcpevents.Forbidden || refusal.Meaning == mcpevents.InvalidParams)
}

func reasonOf(err error) string {
	var refusal *mcpevents.Error
	if errors.As(err, &refusal) {
		return refusal.Meaning.String() + ": " + refusal.Message
	}
	return err.Error()
}

// jitter spreads a wait over 0.75 to 1.25 of it, so that clients of a server that came back do not come all at once.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2))
}

// pause waits, or returns early because it was prodded.
func pause(ctx context.Context, e *entry, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-e.prod:
	case <-t.C:
	}
	return nil
}

// round chooses a mode and follows it until it breaks.
func (s *Subscriber) round(ctx context.Context, e *entry) error {
	mode, err := s.choose(ctx, e)
	if err != nil {
		return err
	}
	if err := s.leaveWebhook(ctx, e, mode); err != nil {
		return err
	}
	if err := s.change(ctx, e, func(r *Record) { r.Mode = mode }); err != nil {
		return err
	}
	switch mode {
	case mcpevents.Webhook:
		return s.followWebhook(ctx, e)
	case mcpevents.Push:
		return s.followStream(ctx, e)
	}
	return s.followPoll(ctx, e)
}

// leaveWebhook unsubscribes when a webhook is given up for another mode, so that the server stops sending. Its position
// is where the other mode goes on.
func (s *Subscriber) leaveWebhook(ctx context.Context, e *entry, next mcpevents.Mode) error {
	rec := e.record()
	if rec.Mode != mcpevents.Webhook || next == mcpevents.Webhook || rec.ID == "" || s.opts.URL == "" {
		return nil
	}
	if err := s.unsubscribe(ctx, e); err != nil {
		return err
	}
	return s.change(ctx, e, func(r *Record) { r.ID = "" })
}

// choose lists the server's event types and picks the first mode of the application's order that both sides can do.
func (s *Subscriber) choose(ctx context.Context, e *entry) (mcpevents.Mode, error) {
	offered, err := find(ctx, e.want.Server, e.want.Name)
	if err != nil {
		return "", err
	}
	wanted := s.opts.Modes
	if e.want.Mode != "" {
		wanted = []mcpevents.Mode{e.want.Mode}
	}
	for _, mode := range wanted {
		_, streams := e.want.Server.(Streamer)
		able := mode == mcpevents.Poll || mode == mcpevents.Push && streams || mode == mcpevents.Webhook && s.opts.URL != ""
		if able && slices.Contains(offered, mode) {
			return mode, nil
		}
	}
	return "", fmt.Errorf("%w: %s offers %v", ErrNoMode, e.want.Name, offered)
}

// find pages through events/list for a name.
func find(ctx context.Context, c Conn, name string) ([]mcpevents.Mode, error) {
	for t, err := range Types(ctx, c) {
		if err != nil {
			return nil, err
		}
		if t.Name == name {
			return t.Delivery, nil
		}
	}
	return nil, fmt.Errorf("subscriber: the server does not list %s", name)
}

// followWebhook subscribes and refreshes until that fails.
func (s *Subscriber) followWebhook(ctx context.Context, e *entry) error {
	for {
		wait, err := s.refresh(ctx, e)
		if err != nil {
			return s.judgeRefresh(ctx, e, err)
		}
		if err := pause(ctx, e, wait); err != nil {
			return err
		}
		if rec := e.record(); rec.State != Active {
			return errAgain // it was terminated
		}
	}
}

// judgeRefresh keeps what is granted while the server cannot be reached: the loop tries again before that runs out.
func (s *Subscriber) judgeRefresh(ctx context.Context, e *entry, err error) error {
	if ctx.Err() == nil && e.record().RefreshBefore.Before(time.Now()) {
		_ = s.change(ctx, e, func(r *Record) { r.State, r.Reason = Pending, reasonOf(err) }) // the round's error tells more
	}
	return err
}

// refresh makes one subscribe call and returns when to make the next.
func (s *Subscriber) refresh(ctx context.Context, e *entry) (time.Duration, error) {
	rec := e.record()
	e.asking.Store(true)
	got, err := Subscribe(ctx, e.want.Server, Subscription{Name: rec.Name, Arguments: rec.Arguments, URL: s.opts.URL,
		Secret: rec.Secrets[0].Text, Cursor: rec.Cursor, MaxAge: e.want.MaxAge})
	e.asking.Store(false)
	if err != nil {
		return 0, err
	}
	err = s.change(ctx, e, func(r *Record) {
		r.ID, r.RefreshBefore, r.State, r.Reason = got.ID, got.RefreshBefore, Active, ""
		if got.Cursor != nil {
			r.Cursor = got.Cursor
		}
	})
	if got.Truncated {
		s.gap(rec.Key)
	}
	return untilRefresh(got.RefreshBefore, time.Now(), rand.Float64()), err
}

// untilRefresh is between half and four fifths of what is granted, at most an hour for one without end.
func untilRefresh(end, now time.Time, random float64) time.Duration {
	if end.IsZero() {
		return withoutEnd
	}
	wait := time.Duration(float64(end.Sub(now)) * (0.5 + 0.3*random))
	return max(wait, firstRetry)
}

func (s *Subscriber) unsubscribe(ctx context.Context, e *entry) error {
	rec := e.record()
	return Unsubscribe(ctx, e.want.Server, Subscription{Name: rec.Name, Arguments: rec.Arguments, URL: s.opts.URL})
}
