package mcpevents_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/mcpevents"
	"github.com/herald-relay/herald/mcpevents/driver"
	"github.com/herald-relay/herald/mcpevents/eventstest"
)

// credential is what this application's authentication finds.
type credential struct {
	mailbox, key, person, workspace string
	scopes                          string
}

// newTwoFamilies makes a server as the relay is one: replies of a mailbox, and a business ledger with a catalog for each
// workspace, under two policies on one store.
func newTwoFamilies(t *testing.T, net *eventstest.Net) *mcpevents.Server {
	t.Helper()
	replies, err := mcpevents.NewCatalog(mcpevents.EventType{Name: "notification.reply"})
	if err != nil {
		t.Fatal(err)
	}
	workspace, err := mcpevents.NewCatalog(mcpevents.EventType{Name: "opportunity.won"}, mcpevents.EventType{Name: "opportunity.lost"})
	if err != nil {
		t.Fatal(err)
	}
	forbidden := func(reason string) error {
		return &mcpevents.Error{Meaning: mcpevents.Forbidden, Message: "not for this credential", Data: map[string]any{"reason": reason}}
	}
	srv, err := mcpevents.New(newMemory(), []mcpevents.Family{
		{Name: "relay", Policy: mcpevents.Relay(), Catalog: replies, Admit: func(_ context.Context, c mcpevents.Caller) (mcpevents.Caller, error) {
			who := c.Value.(credential)
			if !strings.Contains(who.scopes, "notify") {
				return c, forbidden("scope")
			}
			return mcpevents.Caller{Principal: "key/" + who.key, Ledger: "mailbox/" + who.mailbox}, nil
		}},
		{Name: "ledger", Policy: mcpevents.Ledger(), CatalogOf: func(ledger string) *mcpevents.Catalog {
			if strings.HasPrefix(ledger, "workspace/") {
				return workspace
			}
			return nil
		}, Admit: func(_ context.Context, c mcpevents.Caller) (mcpevents.Caller, error) {
			who := c.Value.(credential)
			if who.person == "" {
				return c, forbidden("person_required")
			}
			return mcpevents.Caller{Principal: "person/" + who.person, Ledger: "workspace/" + who.workspace}, nil
		}},
	}, &mcpevents.Options{Egress: net})
	if err != nil {
		t.Fatal(err)
	}
	return srv
}

func TestTwoFamiliesInOneServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, net: eventstest.NewNet()}
		w.srv = newTwoFamilies(t, w.net)
		w.run()
		r := w.receiver()
		both := mcpevents.Caller{Value: credential{mailbox: "m1", key: "k1", person: "ann", workspace: "w1", scopes: "notify workspace"}}
		agent := mcpevents.Caller{Value: credential{mailbox: "m1", key: "k2", scopes: "notify"}}
		names := func(c mcpevents.Caller) (all []string) {
			for _, e := range w.must(w.callAs(c, mcpevents.DialectSketch, "events/list", "{}"))["events"].([]any) {
				all = append(all, e.(map[string]any)["name"].(string))
			}
			return all
		}
		if diff := cmp.Diff([]string{"notification.reply", "opportunity.lost", "opportunity.won"}, names(both)); diff != "" {
			t.Errorf("a person's connector lists (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"notification.reply"}, names(agent)); diff != "" {
			t.Errorf("an agent lists (-want +got):\n%s", diff)
		}
		subscribe := func(c mcpevents.Caller, name string) (map[string]any, error) {
			return w.callAs(c, mcpevents.DialectSketch, "events/subscribe", `{"name":%q,"delivery":{"mode":"webhook","url":%q,"secret":%q}}`, name, hookURL, secret1)
		}
		reply := w.must(subscribe(both, "notification.reply"))
		won := w.must(subscribe(both, "opportunity.won"))
		if len(reply["id"].(string)) != 24 || len(won["id"].(string)) != 36 || reply["cursor"] != "0" || won["cursor"] != nil {
			t.Errorf("grants %v and %v, want each policy's own", reply, won)
		}
		_, err := subscribe(agent, "nothing.known")
		wantError(t, err, mcpevents.DialectSketch, -32602, nil)

		emit := func(e mcpevents.Emission) {
			t.Helper()
			e.Data = struct{}{}
			if _, err := w.srv.Emit(w.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		emit(mcpevents.Emission{Ledger: "mailbox/m1", Name: "notification.reply", Audience: "key/k2"})
		emit(mcpevents.Emission{Ledger: "mailbox/m1", Name: "notification.reply", Audience: "key/k1"})
		emit(mcpevents.Emission{Ledger: "workspace/w2", Name: "opportunity.won", ID: "elsewhere"})
		emit(mcpevents.Emission{Ledger: "workspace/w1", Name: "opportunity.won", ID: "mine"})
		after(time.Second)
		want := []string{fmt.Sprintf("evt_2_%s", strings.TrimPrefix(reply["id"].(string), "sub_")), "mine"}
		got := r.Events() // in any order: they are two subscriptions'
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		w.halt()
	})
}

func TestAHiddenFamilySaysWhy(t *testing.T) {
	w := &world{T: t, net: eventstest.NewNet()}
	w.srv = newTwoFamilies(t, w.net)
	person := mcpevents.Caller{Value: credential{person: "ann", workspace: "w1"}}
	_, err := w.callAs(person, mcpevents.DialectSketch, "events/subscribe", `{"name":"notification.reply"}`)
	wantError(t, err, mcpevents.DialectSketch, -32012, map[string]any{"reason": "scope"})
}

func TestFamiliesMustNotShareNames(t *testing.T) {
	a, err := mcpevents.NewCatalog(mcpevents.EventType{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = mcpevents.New(newMemory(), []mcpevents.Family{{Name: "a", Catalog: a}, {Name: "b", Catalog: a}, {Name: "b"}}, nil)
	for _, part := range []string{`"x": in families "a" and "b"`, `"b": named twice`, "has no catalog"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want %s in it", err, part)
		}
	}
}

func TestEmitTxJoinsTheCallersTransaction(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		r := w.receiver()
		w.subscribe()
		ours := errors.New("the caller's own")
		err := w.db.Update(w.Context(), func(tx driver.Tx) error {
			if _, err := w.srv.EmitTx(tx, mcpevents.Emission{ID: "e1", Name: "ticket.opened", Data: map[string]string{"id": "x"}}); err != nil {
				return err
			}
			return ours
		})
		after(time.Minute)
		if !errors.Is(err, ours) || len(r.Deliveries()) != 0 {
			t.Errorf("%v, %d deliveries of an event that was rolled back", err, len(r.Deliveries()))
		}
		if done := w.emit("e1"); done.Duplicate || done.Event.Sequence != 1 {
			t.Errorf("%+v after the rollback", done)
		}
	})
}

func TestSampleIsSignedAndLeavesNothing(t *testing.T) {
	bubble(t, mcpevents.SEP(), func(w *world) {
		r := w.receiver().Script(eventstest.Step{Status: 202, After: 300 * time.Millisecond})
		id := w.subscribe()["id"].(string)
		o, verdict, err := w.srv.Sample(w.Context(), id, map[string]string{"id": "sample"})
		if err != nil || o.Status != 202 || verdict != mcpevents.Done || o.Elapsed != 300*time.Millisecond {
			t.Errorf("%+v, %s, %v", o, verdict, err)
		}
		if d := r.Deliveries()[0]; len(d.Secrets) != 1 || !strings.HasPrefix(d.Event, "evt_sample_") {
			t.Errorf("sample %+v", d)
		}
		if log, err := w.srv.Deliveries(w.Context(), id, 0, 9); err != nil || len(log) != 0 {
			t.Errorf("log %v, %v", log, err)
		}
	})
}

// sealer turns bytes around and binds them to their context.
type sealer struct{}

func (sealer) Seal(secret []byte, context string) ([]byte, error) {
	return append([]byte(context+"|"), reversed(secret)...), nil
}

func (sealer) Open(sealed []byte, context string) ([]byte, error) {
	rest, ok := bytes.CutPrefix(sealed, []byte(context+"|"))
	if !ok {
		return nil, errors.New("sealed for another")
	}
	return reversed(rest), nil
}

func reversed(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := len(b) - 1; i >= 0; i-- {
		out = append(out, b[i])
	}
	return out
}

func TestSecretsAreStoredSealed(t *testing.T) {
	bubbleWith(t, mcpevents.SEP(), func(_ *mcpevents.Family, o *mcpevents.Options) { o.Sealer = sealer{} }, func(w *world) {
		r := w.receiver()
		id := w.subscribe()["id"].(string)
		sub, err := w.srv.Subscription(w.Context(), id)
		if err != nil || bytes.Contains(sub.Secrets[0].Sealed, []byte("whsec_")) {
			t.Errorf("stored %q, %v", sub.Secrets[0].Sealed, err)
		}
		w.emit("e1")
		after(time.Second)
		if d := r.Deliveries(); len(d) != 1 || len(d[0].Secrets) != 1 {
			t.Errorf("deliveries %+v", d)
		}
	})
}

// TestNothingSecretIsLogged looks through everything the server says.
func TestNothingSecretIsLogged(t *testing.T) {
	var log bytes.Buffer
	bubbleWith(t, mcpevents.SEP(), logInto(&log), func(w *world) {
		w.receiver().Script(eventstest.Step{Status: 500, Body: "PRIVATE"})
		w.subscribe()
		w.emit("e1", func(e *mcpevents.Emission) { e.Data = map[string]string{"id": "PAYLOAD"} })
		after(time.Minute)
		w.must(w.call(mcpevents.DialectSketch, "events/unsubscribe", `{"name":"ticket.opened","delivery":{"url":%q}}`, hookURL))
	})
	for _, secret := range []string{"whsec_", "AAECAwQF", "PRIVATE", "PAYLOAD", "/hooks"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
	if !strings.Contains(log.String(), "agent.example.com") {
		t.Error("the log names no host: this test looks at nothing")
	}
}
