package postgres

import (
	"context"
	"errors"

	"github.com/herald-relay/herald/internal/store"
)

// viewAttempts bounds how often a View looks for a working connection.
const viewAttempts = 3

// View implements store.Store. fn runs again only when it was told nothing before.
func (s *Store) View(ctx context.Context, fn func(store.Tx) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.exit()
	for attempt := 1; ; attempt++ {
		v := &member{s: s, ctx: ctx, line: s.views, reply: make(chan error, 1)}
		err := v.look(fn)
		how, bad := errors.AsType[*setback](v.dead)
		if !bad {
			return err
		}
		if how.retry == never || v.told || attempt == viewAttempts {
			return translate(how.cause)
		}
	}
}

// look runs fn once.
func (m *member) look(fn func(store.Tx) error) error {
	defer m.leave() // also when fn panics or ends its goroutine
	err := fn(&tx{v: m})
	if err == nil && m.dead != nil {
		err = m.dead
	}
	return err
}
