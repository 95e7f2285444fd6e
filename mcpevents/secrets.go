package mcpevents

import (
	"fmt"
	"time"

	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/webhook"
)

// seal makes a secret fit to be stored. The subscription's id is what it is bound to.
func (s *Server) seal(secret webhook.Secret, subscription string) ([]byte, error) {
	plain := []byte(secret.Reveal())
	if s.opts.Sealer == nil {
		return plain, nil
	}
	sealed, err := s.opts.Sealer.Seal(plain, subscription)
	if err != nil {
		return nil, fmt.Errorf("seal the secret: %w", err)
	}
	return sealed, nil
}

func (s *Server) open(stored driver.Secret, subscription string) (webhook.Secret, error) {
	plain := stored.Sealed
	if s.opts.Sealer != nil {
		var err error
		if plain, err = s.opts.Sealer.Open(stored.Sealed, subscription); err != nil {
			return webhook.Secret{}, fmt.Errorf("open the secret: %w", err)
		}
	}
	return webhook.ParseSecret(string(plain))
}

// openAll returns the secrets that sign at now, the newest first.
func (s *Server) openAll(sub *Subscription, now time.Time) ([]webhook.Secret, error) {
	var secrets []webhook.Secret
	for _, stored := range sub.Secrets {
		if !stored.Until.IsZero() && !stored.Until.After(now) {
			continue
		}
		secret, err := s.open(stored, sub.ID)
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, secret)
	}
	return secrets, nil
}
