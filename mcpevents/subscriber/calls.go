package subscriber

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/herald-relay/herald/mcpevents"
)

// Type is an event type as a server lists it.
type Type struct {
	Name          string           `json:"name"`
	Description   string           `json:"description,omitempty"`
	Delivery      []mcpevents.Mode `json:"delivery"`
	InputSchema   json.RawMessage  `json:"inputSchema,omitempty"`
	PayloadSchema json.RawMessage  `json:"payloadSchema,omitempty"`
	Meta          json.RawMessage  `json:"_meta,omitempty"`
}

// maxPages bounds how far a list is followed.
const maxPages = 1000

// Types pages through a server's event types. An error ends it.
func Types(ctx context.Context, c Conn) iter.Seq2[Type, error] {
	return func(yield func(Type, error) bool) {
		params, seen := map[string]any{}, map[string]bool{}
		for range maxPages {
			next, more, err := typesOf(ctx, c, params, yield)
			if err != nil {
				yield(Type{}, err)
			}
			if err != nil || !more || next == "" {
				return
			}
			if seen[next] {
				yield(Type{}, errors.New("subscriber: the server's list of event types runs in a circle"))
				return
			}
			seen[next] = true
			params["cursor"] = next
		}
	}
}

// typesOf hands on one page.
func typesOf(ctx context.Context, c Conn, params map[string]any, yield func(Type, error) bool) (next string, more bool, err error) {
	raw, err := c.Call(ctx, mcpevents.MethodList, params)
	if err != nil {
		return "", false, err
	}
	var page struct {
		Events     []Type `json:"events"`
		NextCursor string `json:"nextCursor"`
	}
	if err := json.Unmarshal(raw, &page); err != nil {
		return "", false, fmt.Errorf("subscriber: answer to events/list: %w", err)
	}
	for _, t := range page.Events {
		if !yield(t, nil) {
			return "", false, nil
		}
	}
	return page.NextCursor, true, nil
}

// Subscription is a webhook subscription as its server knows it.
type Subscription struct {
	Name string
	// Arguments are an object; nil is {}.
	Arguments json.RawMessage
	// URL is where events go.
	URL string
	// Secret signs them. Unsubscribe needs none.
	Secret string
	// Cursor is the position to go on from; nil is now.
	Cursor *string
	// MaxAge is how old a replayed event may be; zero is any age.
	MaxAge time.Duration
	// TTL is how long the subscription should last; zero leaves it to the server.
	TTL time.Duration
	// Endless asks for no end, instead of a TTL. Servers may grant one nevertheless.
	Endless bool
}

// Grant is what a server answered to Subscribe.
type Grant struct {
	ID string
	// RefreshBefore is when it ends; zero is never.
	RefreshBefore time.Time
	Cursor        *string
	// Truncated says that events between the position asked for and Cursor are lost.
	Truncated bool
	// Status is how deliveries went since the last refresh; nil when the server does not say.
	Status *Status
}

// Status is how deliveries of a subscription go.
type Status struct {
	Active         bool       `json:"active"`
	LastDeliveryAt *time.Time `json:"lastDeliveryAt,omitempty"`
	LastError      *string    `json:"lastError,omitempty"`
	FailedSince    *time.Time `json:"failedSince,omitempty"`
	Throttled      bool       `json:"throttled,omitempty"`
	RetryAfterMs   int64      `json:"retryAfterMs,omitempty"`
}

// key is what tells one subscription of a principal from another. The mode is sent because some servers insist on it.
func (s *Subscription) key() (params, delivery map[string]any) {
	delivery = map[string]any{"mode": mcpevents.Webhook, "url": s.URL}
	params = map[string]any{"name": s.Name, "arguments": s.Arguments, "delivery": delivery}
	if len(s.Arguments) == 0 {
		params["arguments"] = json.RawMessage(`{}`)
	}
	return params, delivery
}

// Subscribe makes or refreshes a webhook subscription. The server sends a challenge to the URL before it answers.
func Subscribe(ctx context.Context, c Conn, s Subscription) (Grant, error) {
	params, delivery := s.key()
	delivery["secret"] = s.Secret
	params["cursor"] = s.Cursor
	if s.MaxAge > 0 {
		params["maxAgeMs"] = s.MaxAge.Milliseconds()
	}
	switch {
	case s.Endless:
		params["ttlMs"] = nil
	case s.TTL > 0:
		params["ttlMs"] = s.TTL.Milliseconds()
	}
	raw, err := c.Call(ctx, mcpevents.MethodSubscribe, params)
	if err != nil {
		return Grant{}, err
	}
	return readGrant(raw)
}

func readGrant(raw json.RawMessage) (Grant, error) {
	var got struct {
		ID             string  `json:"id"`
		RefreshBefore  *string `json:"refreshBefore"`
		Cursor         *string `json:"cursor"`
		Truncated      bool    `json:"truncated"`
		DeliveryStatus *Status `json:"deliveryStatus"`
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		return Grant{}, fmt.Errorf("subscriber: answer to events/subscribe: %w", err)
	}
	if got.ID == "" {
		return Grant{}, errors.New("subscriber: answer to events/subscribe has no id")
	}
	g := Grant{ID: got.ID, Cursor: got.Cursor, Truncated: got.Truncated, Status: got.DeliveryStatus}
	if got.RefreshBefore != nil {
		end, err := time.Parse(time.RFC3339, *got.RefreshBefore)
		if err != nil {
			return Grant{}, fmt.Errorf("subscriber: refreshBefore: %w", err)
		}
		g.RefreshBefore = end
	}
	return g, nil
}

// Unsubscribe ends a webhook subscription. What was not there is no error in the older dialect, and NotFound in the newer.
func Unsubscribe(ctx context.Context, c Conn, s Subscription) error {
	params, _ := s.key()
	_, err := c.Call(ctx, mcpevents.MethodUnsubscribe, params)
	return err
}
