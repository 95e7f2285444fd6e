package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/postgres"
	"github.com/herald-relay/herald/internal/relay"
)

func TestErrorsOfTheDatabase(t *testing.T) {
	t.Parallel()
	state := func(code string) error {
		return fmt.Errorf("doing something: %w", &pgconn.PgError{Code: code, Message: "m"})
	}
	for _, c := range []struct {
		name string
		err  error
		kind fault.Kind
		hint string
	}{
		{"unique violation", state("23505"), fault.Conflict, "exists already"},
		{"foreign key", state("23503"), fault.NotFound, "gone"},
		{"check violation", state("23514"), fault.Internal, ""},
		{"syntax error", state("42601"), fault.Internal, ""},
		{"disk full", state("53100"), fault.Unavailable, "free space"},
		{"out of memory", state("53200"), fault.Unavailable, "operator"},
		{"too many connections", state("53300"), fault.Unavailable, "max_connections"},
		{"read-only", state("25006"), fault.Unavailable, "primary"},
		{"shutting down", state("57P01"), fault.Unavailable, "restarted"},
		{"crashed", state("57P02"), fault.Unavailable, "crash"},
		{"starting up", state("57P03"), fault.Unavailable, "starting up"},
		{"wrong password", state("28P01"), fault.Unavailable, "password"},
		{"no database", state("3D000"), fault.Unavailable, "does not exist"},
		{"no right", state("42501"), fault.Unavailable, "right"},
		{"lock timeout", state("55P03"), fault.Unavailable, "stuck session"},
		{"statement timeout", state("57014"), fault.Unavailable, "too long"},
		{"serialization, at last", state("40001"), fault.Unavailable, ""},
		{"connection failure", state("08006"), fault.Unavailable, ""},
		{"unreachable", &pgconn.ConnectError{}, fault.Unavailable, "cannot be reached"},
		{"deadline", context.DeadlineExceeded, fault.Unavailable, ""},
		{"a mistake", io.ErrShortBuffer, fault.Internal, ""},
		{"a fault", fault.NotFoundf("nothing"), fault.NotFound, "nothing"},
	} {
		got := fault.From(postgres.TranslateForTest(c.err))
		if got.Kind != c.kind || c.kind != fault.Internal && !strings.Contains(got.Detail, c.hint) {
			t.Errorf("%s: kind %v, %q; want %v with %q", c.name, got.Kind, got.Detail, c.kind, c.hint)
		}
		if !errors.Is(postgres.TranslateForTest(c.err), c.err) {
			t.Errorf("%s: the cause is lost", c.name)
		}
	}
	if err := postgres.TranslateForTest(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

func TestNoticesCarryEveryHint(t *testing.T) {
	t.Parallel()
	var hints []relay.Hint
	for i := range 500 {
		h := someHint
		h.Stream = strings.Repeat("s", i)
		hints = append(hints, h)
	}
	notices, err := postgres.EncodeNoticesForTest("me", hints)
	if err != nil {
		t.Fatal(err)
	}
	var got []relay.Hint
	for _, n := range notices {
		if len(n) > postgres.MaxNoticeForTest {
			t.Errorf("a message has %d bytes, the limit is %d", len(n), postgres.MaxNoticeForTest)
		}
		if own := postgres.DecodeNoticeForTest("me", n); own != nil {
			t.Errorf("a process hears %d hints of its own", len(own))
		}
		got = append(got, postgres.DecodeNoticeForTest("you", n)...)
	}
	if d := cmp.Diff(hints, got); d != "" {
		t.Errorf("hints (-sent +got):\n%s", d)
	}
}

func TestNoticesLeaveOutWhatFitsInNone(t *testing.T) {
	t.Parallel()
	huge := someHint
	huge.Stream = strings.Repeat("s", postgres.MaxNoticeForTest)
	notices, err := postgres.EncodeNoticesForTest("me", []relay.Hint{someHint, huge, someHint})
	if err != nil || len(notices) != 2 {
		t.Fatalf("%d messages, %v; want 2", len(notices), err)
	}
	if none, err := postgres.EncodeNoticesForTest("me", []relay.Hint{huge}); len(none) != 0 || err != nil {
		t.Errorf("%d messages, %v; want none", len(none), err)
	}
}

// Anybody who may connect to the database may send messages on the channel.
func FuzzDecodeNotice(f *testing.F) {
	whole, _ := postgres.EncodeNoticesForTest("me", []relay.Hint{someHint, {Kind: relay.HintQueued, Mailbox: "m"}})
	f.Add(whole[0])
	for _, seed := range []string{"", "{}", "null", `{"p":"x","h":[{"k":1,"k":2}]}`, `{"p":"x","h":[{"k":999}]}`, `{"P":"x","H":[]}`, `[1]`, "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		hints := postgres.DecodeNoticeForTest("you", payload)
		again, err := postgres.EncodeNoticesForTest("other", hints)
		if err != nil {
			t.Fatalf("hints that were read cannot be written: %v", err)
		}
		if len(hints) == 0 && len(again) != 0 {
			t.Fatal("hints out of nothing")
		}
	})
}
