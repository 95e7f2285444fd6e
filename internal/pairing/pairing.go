// Package pairing binds devices to mailboxes by short codes, and lets a person's devices see and end each other.
//
// A code is single use, lives ten minutes and is stored only as a keyed hash. Guessing is bounded per address; starting
// is bounded per address and for the whole relay. All windows live in the store, so a restart forgives nothing and
// several processes count together.
package pairing

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"github.com/herald-relay/herald/internal/clips"
	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/presence"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// Tallies kept as marks.
const (
	markStart     = "pair_start"
	markWrong     = "pair_wrong"
	markLinkStart = "link_start"
)

// Fixed limits of the contract's section 10, and ours for links.
const (
	wrongPerAddress    = 10
	wrongWindow        = 10 * time.Minute
	startWindow        = time.Hour
	waitingPerAddress  = 3
	waitingInAll       = 60
	linkStartsPerHour  = 20
	maxDeviceNameChars = 60
)

// Limits are the configurable ones.
type Limits struct {
	MaxDevices    int // mailboxes per person
	StartsPerHour int // per address
	StartsInAll   int // per hour, whole relay
}

// Service pairs and unpairs. All fields are set once, before use.
type Service struct {
	Store         store.Store
	Hub           *presence.Hub
	Signer        *credential.Signer
	Clips         *clips.Dir
	Limits        Limits
	PairingSecret string // "" when pairing needs none
	Log           *slog.Logger
}

// alphabet leaves out what people confuse: I, L, O, 0 and 1.
const alphabet = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"

const codeLength = 8

func newCode() string {
	var b [codeLength]byte
	for i := range b {
		b[i] = alphabet[randomBelow(len(alphabet))]
	}
	return string(b[:4]) + "-" + string(b[4:])
}

// randomBelow draws without bias by refusing the uneven rest of a byte.
func randomBelow(n int) int {
	limit := 256 - 256%n
	var b [1]byte
	for {
		rand.Read(b[:])
		if int(b[0]) < limit {
			return int(b[0]) % n
		}
	}
}

// normalise makes codes comparable: without case, dash or blanks.
func normalise(code string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' || r == '\t' {
			return -1
		}
		return r
	}, strings.ToUpper(code))
}

// CleanName trims a device name and keeps its first 60 characters. What could command a terminal or reorder a line
// becomes a blank: strangers name devices, and a person reads the names.
func CleanName(name string) string {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' {
			return ' '
		}
		return r
	}, name)
	return strings.TrimSpace(relay.FirstChars(strings.TrimSpace(clean), maxDeviceNameChars))
}

// CheckSecret proves that the caller may start a pairing at all. It comes before everything else of the request.
func (s *Service) CheckSecret(secret string) error {
	if s.PairingSecret != "" && !credential.EqualText(secret, s.PairingSecret) {
		return fault.Unauthorized("pairing with this relay needs its pairing secret in the header X-Pairing-Secret")
	}
	return nil
}

// Start makes a code for a new mailbox of the relay's first person, after CheckSecret. The checks come in the order of
// the contract's section 7.1: device limit, address rate, total rate, waiting codes.
func (s *Service) Start(ctx context.Context, name, address string, now time.Time) (code string, err error) {
	name, address = CleanName(name), s.Signer.AddressHash(address)
	err = s.Store.Update(ctx, func(tx store.Tx) error {
		person, err := firstPerson(tx)
		if err != nil {
			return err
		}
		if err := s.roomFor(tx, person.ID, name); err != nil {
			return err
		}
		if err := s.startAllowed(tx, address, now); err != nil {
			return err
		}
		code, err = s.createCode(tx, relay.PairCode{Person: person.ID, Name: name, Address: address}, now)
		return err
	})
	return code, err
}

func firstPerson(tx store.Tx) (relay.Person, error) {
	people, err := tx.People().List()
	if err != nil {
		return relay.Person{}, err
	}
	if len(people) == 0 {
		return relay.Person{}, fault.New(fault.Internal, "misconfigured", "this relay has no person yet; its operator adds one with: herald person add NAME")
	}
	return people[0], nil
}

// roomFor judges the device limit. A name that is paired already takes its own place again.
func (s *Service) roomFor(tx store.Tx, p relay.PersonID, name string) error {
	boxes, err := tx.Mailboxes().List(p)
	if err != nil {
		return err
	}
	taken := len(boxes)
	for _, b := range boxes {
		if name != "" && b.Name == name {
			taken--
		}
	}
	if taken >= s.Limits.MaxDevices {
		return fault.New(fault.Forbidden, "device_limit",
			"%d devices are paired already, this relay's limit; remove one from the device list, or pair under its name to replace it", s.Limits.MaxDevices)
	}
	return nil
}

func (s *Service) startAllowed(tx store.Tx, address string, now time.Time) error {
	checks := []struct {
		subject string
		limit   int
	}{{address, s.Limits.StartsPerHour}, {"", s.Limits.StartsInAll}}
	for _, c := range checks {
		n, err := strokes(tx, markStart, c.subject, startWindow, now)
		if err != nil {
			return err
		}
		if n >= c.limit {
			return tooMany("too many pairings were started in the last hour; wait before starting another", startWindow)
		}
	}
	mine, err := tx.Pairing().CountWaiting(address, now)
	if err != nil {
		return err
	}
	all, err := tx.Pairing().CountWaiting("", now)
	if err != nil {
		return err
	}
	if mine >= waitingPerAddress || all >= waitingInAll {
		return tooMany("too many pairing codes wait to be used; use one, or wait until they run out", relay.PairCodeLife)
	}
	return tx.Marks().Add(markStart, address, now)
}

// strokes counts the strokes on a tally within the window that ends now, without those from before the clock was set back.
func strokes(tx store.Tx, kind, subject string, window time.Duration, now time.Time) (int, error) {
	all, err := tx.Marks().Count(kind, subject, now.Add(-window))
	if err != nil || all == 0 {
		return 0, err
	}
	ahead, err := tx.Marks().Count(kind, subject, now.Add(relay.ClockSlack))
	return all - ahead, err
}

func tooMany(detail string, after time.Duration) error {
	return fault.New(fault.Exhausted, "rate_limited", detail).WithRetry(after, false)
}

func (s *Service) createCode(tx store.Tx, c relay.PairCode, now time.Time) (string, error) {
	code := newCode()
	c.Hash = s.Signer.PairCodeHash(normalise(code))
	c.CreatedAt, c.ExpiresAt = relay.Millis(now), relay.Millis(now.Add(relay.PairCodeLife))
	return code, tx.Pairing().Create(c)
}

// StartFor makes a code for a new mailbox of a named person, without limits: it is the operator who asks.
func (s *Service) StartFor(ctx context.Context, person string, now time.Time) (code string, err error) {
	err = s.Store.Update(ctx, func(tx store.Tx) error {
		p, err := tx.People().ByName(person)
		if err != nil {
			return err
		}
		code, err = s.createCode(tx, relay.PairCode{Person: p.ID}, now)
		return err
	})
	return code, err
}

// StartLink makes a code that links one more device to the mailbox (decision 5). Only the owner may.
func (s *Service) StartLink(ctx context.Context, p credential.Principal, name string, now time.Time) (code string, err error) {
	if !p.Owner {
		return "", fault.New(fault.Forbidden, "forbidden", "only the device that paired this mailbox links more devices to it")
	}
	err = s.Store.Update(ctx, func(tx store.Tx) error {
		box, err := tx.Mailboxes().Get(p.Mailbox)
		if err != nil {
			return err
		}
		started, err := strokes(tx, markLinkStart, string(p.Mailbox), startWindow, now)
		if err != nil {
			return err
		}
		if started >= linkStartsPerHour {
			return tooMany("too many links were started for this mailbox in the last hour; wait before starting another", startWindow)
		}
		if err := linkRoom(tx, p.Mailbox, CleanName(name)); err != nil {
			return err
		}
		if err := tx.Marks().Add(markLinkStart, string(p.Mailbox), now); err != nil {
			return err
		}
		code, err = s.createCode(tx, relay.PairCode{Person: box.Person, Mailbox: p.Mailbox, Name: CleanName(name)}, now)
		return err
	})
	return code, err
}

func linkRoom(tx store.Tx, m relay.MailboxID, name string) error {
	devices, err := tx.Devices().List(m)
	if err != nil {
		return err
	}
	taken := len(devices)
	for _, d := range devices {
		if replaces(d, name) {
			taken--
		}
	}
	if taken >= relay.MaxLinkedDevices {
		return fault.New(fault.Forbidden, "device_limit",
			"%d devices share this mailbox already, the limit; unpair one first", relay.MaxLinkedDevices)
	}
	return nil
}

// replaces reports whether a device linked under name takes d's place. An owner is never replaced by a link.
func replaces(d relay.Device, name string) bool { return !d.Owner && name != "" && d.Name == name }
