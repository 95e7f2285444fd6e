package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/herald-relay/herald/internal/admin"
	"github.com/herald-relay/herald/internal/allowance"
	"github.com/herald-relay/herald/internal/clips"
	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/egress"
	"github.com/herald-relay/herald/internal/events"
	"github.com/herald-relay/herald/internal/mailbox"
	"github.com/herald-relay/herald/internal/oauth"
	"github.com/herald-relay/herald/internal/pairing"
	"github.com/herald-relay/herald/internal/postgres"
	"github.com/herald-relay/herald/internal/presence"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/sqlite"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/mcpevents"
)

// DatabaseFile is the embedded database's name in the data directory.
const DatabaseFile = "herald.db"

// core is everything below the edges.
type core struct {
	store   *observed
	signer  *credential.Signer
	clips   *clips.Dir
	hub     *presence.Hub
	meter   *allowance.Meter
	mailbox *mailbox.Service
	pairing *pairing.Service
	oauth   *oauth.Service
	events  *events.Service

	watch     *observer
	documents *http.Client // calls out, through the address guard
}

// ways are how the relay calls out.
type ways struct {
	events mcpevents.Egress // to agents' addresses; nil for the address guard
}

func openCore(ctx context.Context, cfg config.Config, log *slog.Logger, raw store.Store, out ways) (*core, error) {
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w; choose another with --data, or make it writable", err)
	}
	if raw == nil {
		opened, err := openStore(ctx, cfg)
		if err != nil {
			return nil, err
		}
		raw = opened
	}
	secret, err := relaySecret(ctx, cfg, raw)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	signer := credential.NewSigner(secret)
	watch := &observer{}
	replies, err := newEvents(cfg, log, raw, signer, out, watch)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	st := &observed{Store: events.Guard(raw, replies.Server()), update: func(time.Duration, bool) {}}
	files, err := clips.Open(filepath.Join(cfg.Data, "clips"))
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	c := &core{store: st, clips: files, signer: signer, events: replies, watch: watch, hub: presence.New(st.Bus()), meter: allowance.NewMeter(st, log)}
	c.mailbox = &mailbox.Service{Store: st, Hub: c.hub, Meter: c.meter, Clips: files, Events: replies, Limits: limitsOf(cfg), Log: log}
	c.pairing = &pairing.Service{
		Store: st, Hub: c.hub, Signer: c.signer, Clips: files, PairingSecret: cfg.PairingSecret.Reveal(), Log: log,
		Limits: pairing.Limits{MaxDevices: cfg.MaxDevices, StartsPerHour: cfg.PairStartsPerHour, StartsInAll: cfg.PairStartsGlobalPerHour},
	}
	c.oauth = &oauth.Service{
		Store: st, Hub: c.hub, Signer: c.signer, EndKey: c.mailbox.EndKey, Log: log,
		Limits: oauth.Limits{RegistrationsPerHour: cfg.RegisterPerHour},
	}
	c.readDocuments(egress.New(nil).Client())
	return c, nil
}

// newEvents makes the events service.
func newEvents(cfg config.Config, log *slog.Logger, st store.Store, signer *credential.Signer, out ways, watch mcpevents.Observer) (*events.Service, error) {
	if out.events == nil {
		hosts, err := egress.ParseAllowlist(cfg.EventCallbackHosts)
		if err != nil {
			return nil, fmt.Errorf("EVENT_CALLBACK_HOSTS: %w", err)
		}
		out.events = egress.New(&egress.Options{Allowlist: hosts, Dev: cfg.Dev})
	}
	return events.New(st, events.Options{
		Egress: out.events, Sealer: signer.Sealer("events"), Hosts: cfg.EventCallbackHosts, Log: log, Observer: watch,
		Alone: cfg.Embedded(), Grace: cfg.Grace / 2,
	})
}

// readDocuments sets by what client the descriptions of OAuth clients are read.
func (c *core) readDocuments(client *http.Client) {
	c.documents = client
	c.oauth.Documents = oauth.NewDocuments(client)
}

func openStore(ctx context.Context, cfg config.Config) (store.Store, error) {
	if cfg.Embedded() {
		return sqlite.Open(ctx, filepath.Join(cfg.Data, DatabaseFile), nil)
	}
	st, err := postgres.Open(ctx, cfg.Database.Reveal(), nil)
	if err != nil { // a nil *postgres.Store is no nil store.Store
		return nil, postgres.Unreached(cfg.Database.Reveal(), err)
	}
	return st, nil
}

// relaySecret is the configured one, or, on the embedded default, the one that the data directory keeps.
func relaySecret(ctx context.Context, cfg config.Config, st store.Store) (string, error) {
	if s := cfg.RelaySecret.Reveal(); s != "" {
		return s, nil
	}
	if !cfg.Embedded() {
		return "", errors.New("RELAY_SECRET is not set: with --database every process must be given the same one, 32 random bytes or more")
	}
	path := filepath.Join(cfg.Data, config.SecretFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := nobodyPaired(ctx, st, path); err != nil {
			return "", err
		}
	}
	s, _, err := config.Secrets(cfg.Data)
	return s.Reveal(), err
}

// nobodyPaired refuses to make a new secret for a store whose mailboxes another one signs: it would unpair them all.
func nobodyPaired(ctx context.Context, st store.Store, path string) error {
	return st.View(ctx, func(tx store.Tx) error {
		people, err := tx.People().List()
		if err != nil {
			return err
		}
		for _, p := range people {
			boxes, err := tx.Mailboxes().List(p.ID)
			if err != nil {
				return err
			}
			if len(boxes) > 0 {
				return fmt.Errorf("relay secret: %s is missing, and the paired devices are known by it; restore the file, "+
					"or give the RELAY_SECRET that the relay had before (with a new one every device must pair again)", path)
			}
		}
		return nil
	})
}

func limitsOf(cfg config.Config) mailbox.Limits {
	return mailbox.Limits{
		Admission:         relay.AdmissionLimits{PerKey: cfg.RateLimitPerKey, PerDay: cfg.NotificationsPerDay, Queue: cfg.QueueMax},
		QueueTTL:          cfg.QueueTTL,
		RequestsPerDay:    cfg.RequestsPerDay,
		PollSecondsPerDay: cfg.PollSecondsPerDay,
		ClipsPerDay:       cfg.AudioUploadsPerDay,
		ClipBytesPerDay:   cfg.AudioBytesPerDay,
	}
}

func (c *core) close() error {
	c.documents.CloseIdleConnections()
	return errors.Join(c.clips.Close(), c.store.Close())
}

// OpenAdmin reaches the relay of a configuration for its operator: the running one when there is one, else its store
// itself. Close the result.
func OpenAdmin(ctx context.Context, cfg config.Config, log *slog.Logger) (admin.Admin, error) {
	client, err := admin.Dial(ctx, cfg.Data)
	if err == nil {
		return client, nil
	}
	if !errors.Is(err, admin.ErrNotRunning) {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(cfg.Data, DatabaseFile)); cfg.Embedded() && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no relay keeps its data in %s; name the directory of yours with --data, or begin one there with herald serve", cfg.Data)
	}
	c, err := openCore(ctx, cfg, log, nil, ways{})
	if err != nil {
		return nil, err
	}
	return &admin.Direct{
		Pairing: c.pairing, Release: c.close,
		Origin: func() string { return originOf(cfg, cfg.Listen) },
	}, nil
}
