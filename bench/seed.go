package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/payload"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/sqlite"
	"github.com/herald-relay/herald/internal/store"
)

// box is a seeded mailbox with one device and one key.
type box struct {
	id          relay.MailboxID
	device, key string // tokens
	keyID       relay.KeyID
	agentIDs    []string // of some of its notifications
}

// seed fills the database of a relay that does not run: that many mailboxes, and notifications spread over them and over
// the last 23 hours, already acknowledged as they would be in a relay at work.
func seed(dir string, mailboxes, notifications int) ([]box, error) {
	ctx := context.Background()
	st, err := sqlite.Open(ctx, databaseIn(dir), nil)
	if err != nil {
		return nil, err
	}
	boxes, err := seedBoxes(ctx, st, mailboxes)
	if err == nil {
		err = seedNotifications(ctx, st, boxes, notifications)
	}
	if e := st.Close(); err == nil {
		err = e
	}
	return boxes, err
}

func seedBoxes(ctx context.Context, st store.Store, count int) ([]box, error) {
	signer := credential.NewSigner(benchSecret)
	now := relay.Millis(time.Now())
	person := relay.Person{ID: relay.PersonID(relay.RandomHex(8)), Name: "owner", CreatedAt: now}
	if err := st.Update(ctx, func(tx store.Tx) error { return tx.People().Create(person) }); err != nil {
		return nil, err
	}
	boxes := make([]box, count)
	return boxes, inParallel(count, func(i int) error {
		b := box{id: signer.NewMailboxID()}
		token, deviceHash := credential.MintDeviceToken(b.id)
		key, keyID, keyHash := credential.MintAgentKey(b.id)
		b.device, b.key, b.keyID = token, key, keyID
		boxes[i] = b
		return st.Update(ctx, func(tx store.Tx) error {
			if err := tx.Mailboxes().Create(relay.Mailbox{ID: b.id, Person: person.ID, CreatedAt: now}); err != nil {
				return err
			}
			device := relay.Device{ID: relay.DeviceID(relay.RandomHex(8)), Mailbox: b.id, TokenHash: deviceHash, Owner: true, CreatedAt: now}
			if err := tx.Devices().Create(device); err != nil {
				return err
			}
			return tx.Keys().Create(relay.Key{
				ID: keyID, Mailbox: b.id, Hash: keyHash, Name: "bench", Client: "other", Scope: relay.ScopeNotify,
				Kind: relay.KindStatic, CreatedAt: now, LastUsedAt: now,
			})
		})
	})
}

func seedNotifications(ctx context.Context, st store.Store, boxes []box, count int) error {
	var mu sync.Mutex
	const group = 200
	begin := relay.Millis(time.Now().Add(-23 * time.Hour))
	apart := 23 * time.Hour / time.Duration(max(count, 1))
	return inParallel(count/group, func(i int) error {
		return st.Update(ctx, func(tx store.Tx) error {
			for k := range group {
				b := &boxes[(i*group+k)%len(boxes)]
				now := relay.Millis(begin.Add(time.Duration(i*group+k) * apart))
				agentID := fmt.Sprintf("job-%d-%d", i, k)
				in, err := payload.Parse(typicalBody(agentID), 32<<10)
				if err != nil {
					return err
				}
				n := relay.Notification{
					ID: relay.NewNotificationID(now), Mailbox: b.id, Key: b.keyID, AgentID: agentID, CreatedAt: now,
					Payload: in.JSON, ExpectReply: true, AckedAt: now, DisplayedAt: now,
				}
				if err := tx.Notifications().Insert(&n, now.Add(-24*time.Hour)); err != nil {
					return err
				}
				if i%50 == 0 {
					mu.Lock()
					b.agentIDs = append(b.agentIDs, agentID)
					mu.Unlock()
				}
			}
			return nil
		})
	})
}

// inParallel calls fn for 0..count-1 from many goroutines, so that the store can group commits.
func inParallel(count int, fn func(i int) error) error {
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	work := make(chan int)
	for range 128 {
		wg.Go(func() {
			for i := range work {
				if err := fn(i); err != nil {
					once.Do(func() { first = err })
				}
			}
		})
	}
	for i := range count {
		work <- i
	}
	close(work)
	wg.Wait()
	return first
}
