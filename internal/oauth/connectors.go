package oauth

import (
	"context"
	"slices"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// Connector is an approved client as its person sees it.
type Connector struct {
	Key   relay.Key
	Grant relay.Grant
}

// Connectors lists the mailbox's connectors that work, oldest first.
func (s *Service) Connectors(ctx context.Context, m relay.MailboxID) (list []Connector, err error) {
	err = s.Store.View(ctx, func(tx store.Tx) error {
		list = nil
		grants, err := tx.Grants().List(m)
		if err != nil {
			return err
		}
		keys, err := tx.Keys().List(m)
		for _, g := range grants {
			i := slices.IndexFunc(keys, func(k relay.Key) bool { return k.ID == g.Key && k.Active() })
			if i >= 0 {
				list = append(list, Connector{Key: keys[i], Grant: g})
			}
		}
		return err
	})
	return list, err
}

// EndConnector revokes a connector at once: its key, its tokens and what hangs on them. NotFound when the mailbox has no
// such connector; one that was revoked before is no error.
func (s *Service) EndConnector(ctx context.Context, m relay.MailboxID, id relay.KeyID, by relay.DeviceID, now time.Time) error {
	err := s.Store.Update(ctx, func(tx store.Tx) error {
		key, err := tx.Keys().Get(m, id)
		if err != nil {
			return err
		}
		if key.Kind != relay.KindOAuth {
			return fault.NotFoundf("that key is no connector")
		}
		if !key.Active() {
			return nil
		}
		g, err := tx.Grants().Get(m, id)
		if err != nil {
			return err
		}
		return s.end(tx, g, string(by), now)
	})
	switch {
	case err == nil:
		s.Hub.Publish(relay.Hint{Kind: relay.HintRevoked, Mailbox: m})
	case fault.Is(err, fault.NotFound):
		err = fault.NotFoundf("this mailbox has no connector with that id; list the connectors to see them")
	}
	return err
}

// History returns up to limit decisions about connectors of the mailbox's person, made before before (zero: all), newest
// first.
func (s *Service) History(ctx context.Context, m relay.MailboxID, before time.Time, limit int) (list []relay.AuditEntry, err error) {
	err = s.Store.View(ctx, func(tx store.Tx) error {
		person, err := personOf(tx, m)
		if err != nil || person == "" {
			return err
		}
		list, err = tx.Audit().List(person, before, min(max(limit, 1), maxAuditPage))
		return err
	})
	return list, err
}

// Told is what a stream has told its device of a request: the code it showed.
type Told map[relay.ConsentID]string

// News is one thing that a stream has to tell its device.
type News struct {
	relay.Consent
	// Resolved says that a request which the stream told of waits no longer; otherwise it waits and is to be shown.
	Resolved bool
	// Again says that the device was shown the request before, on another stream.
	Again bool
}

// News compares what a stream told device d with what is true at now: requests that wait and were not told with their
// present code, oldest first, and told ones that wait no longer.
func (s *Service) News(ctx context.Context, m relay.MailboxID, d relay.DeviceID, told Told, now time.Time) (news []News, err error) {
	err = s.Store.View(ctx, func(tx store.Tx) error {
		news = nil
		pending, err := tx.Consents().Pending(m)
		if err != nil {
			return err
		}
		if news, err = resolved(tx, told, pending, now); err != nil {
			return err
		}
		for _, c := range pending {
			if c.Open(now) && told[c.ID] != c.Code {
				news = append(news, News{Consent: c, Again: slices.Contains(c.Announced, d)})
			}
		}
		return nil
	})
	return news, err
}

func resolved(tx store.Tx, told Told, pending []relay.Consent, now time.Time) (news []News, err error) {
	for id := range told {
		if slices.ContainsFunc(pending, func(c relay.Consent) bool { return c.ID == id && c.Open(now) }) {
			continue
		}
		c, err := tx.Consents().Get(id)
		if fault.Is(err, fault.NotFound) {
			c, err = relay.Consent{ID: id, Status: relay.Lapsed}, nil
		}
		if err != nil {
			return nil, err
		}
		c.Status = c.StatusAt(now)
		news = append(news, News{Consent: c, Resolved: true})
	}
	return news, nil
}

// maxAnnounced bounds the devices that a request remembers; a mailbox has fewer.
const maxAnnounced = relay.MaxLinkedDevices

// Announced notes that a device was shown a request with that code. One that changed meanwhile is left alone.
func (s *Service) Announced(ctx context.Context, id relay.ConsentID, code string, d relay.DeviceID) error {
	return s.Store.Update(ctx, func(tx store.Tx) error {
		c, err := tx.Consents().Get(id)
		if err != nil || c.Code != code || slices.Contains(c.Announced, d) || len(c.Announced) >= maxAnnounced {
			return absent(err)
		}
		c.Announced = append(c.Announced, d)
		return tx.Consents().Save(c)
	})
}
