package app_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/admin"
	"github.com/herald-relay/herald/internal/app"
	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/testkit"
)

// operator dials the running relay's socket.
func operator(t *testing.T, r *testkit.Relay) *admin.Client {
	t.Helper()
	c, err := admin.Dial(t.Context(), r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// names lists the people as "name mailboxes".
func names(t *testing.T, a admin.Admin) (out []string) {
	t.Helper()
	list, err := a.People(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if _, err := time.Parse("2006-01-02T15:04:05.000Z", p.CreatedAt); err != nil {
			t.Errorf("createdAt = %q", p.CreatedAt)
		}
		out = append(out, p.Name+strings.Repeat(" +", p.Mailboxes))
	}
	return out
}

func wantFault(t *testing.T, what string, err error, kind fault.Kind, code string) {
	t.Helper()
	f := fault.From(err)
	if err == nil || f.Kind != kind || f.Code != code || f.Detail == "" {
		t.Errorf("%s: %v, want %v %s", what, err, kind, code)
	}
}

func TestAFreshRelayHasOnePersonWhoseDevicesPairOpenly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := testkit.New(t, testkit.Options{Dir: dir})
	if !r.App.Fresh() {
		t.Error("a fresh relay does not know that it is")
	}
	if diff := cmp.Diff([]string{"owner"}, names(t, operator(t, r))); diff != "" {
		t.Errorf("people (-want +got):\n%s", diff)
	}
	d := r.Pair("laptop")
	r.Stop()
	r = testkit.New(t, testkit.Options{Dir: dir})
	if r.App.Fresh() {
		t.Error("a relay started again takes itself for fresh")
	}
	if diff := cmp.Diff([]string{"owner +"}, names(t, operator(t, r))); diff != "" {
		t.Errorf("people (-want +got):\n%s", diff)
	}
	d.Relay = r
	devSettle(d.Stream())
}

func TestPeopleAreAddedInvitedAndRemoved(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	op, ctx := operator(t, r), t.Context()
	inv, err := op.AddPerson(ctx, "ada-1")
	if err != nil {
		t.Fatal(err)
	}
	devMatch(t, "code", []byte(inv.Code), "<code>")
	devMatch(t, "link", []byte(inv.Link), r.URL+"/pair#"+inv.Code)
	devMatch(t, "expiresAt", []byte(inv.ExpiresAt), "<time>")
	if inv.Person != "ada-1" {
		t.Errorf("person = %q", inv.Person)
	}
	laptop := r.Redeem(inv.Code, "laptop")
	again, err := op.Invite(ctx, "ada-1")
	if err != nil || again.Code == inv.Code {
		t.Fatalf("invite = %+v, %v", again, err)
	}
	studio := r.Redeem(again.Code, "studio")
	if got := reasons(laptop); len(got) != 2 {
		t.Errorf("devices = %v, want the two of the person", got)
	}
	if diff := cmp.Diff([]string{"owner", "ada-1 + +"}, names(t, op)); diff != "" {
		t.Errorf("people (-want +got):\n%s", diff)
	}

	for _, name := range []string{"", "Ada", "a b", "-a", "é", "a/b", strings.Repeat("a", 33), "..", "a\n"} {
		_, err := op.AddPerson(ctx, name)
		wantFault(t, "add "+name, err, fault.Invalid, "invalid_request")
	}
	_, err = op.AddPerson(ctx, "ada-1")
	wantFault(t, "add twice", err, fault.Conflict, "name_taken")
	for _, name := range []string{"nobody", "a/b", "a b", "%2e", "?"} {
		_, err = op.Invite(ctx, name)
		wantFault(t, "invite "+name, err, fault.NotFound, "not_found")
		wantFault(t, "remove "+name, op.RemovePerson(ctx, name), fault.NotFound, "not_found")
	}

	agent, s := laptop.Agent("bot"), laptop.Stream()
	_, id := devNotified(agent, s)
	devOK(t, upload(laptop, id, "audio/mp4", mp4Bytes), 200, `{"ok":true,"bytes":28}`)
	pending, err := op.Invite(ctx, "ada-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := op.RemovePerson(ctx, "ada-1"); err != nil {
		t.Fatal(err)
	}
	wantClosed(t, s, unpaired)
	devRefused(t, laptop.Call("GET", "/v1/device/info", nil), 401, "unauthorized")
	devRefused(t, studio.Call("GET", "/v1/device/info", nil), 401, "unauthorized")
	devRefused(t, agent.Call("GET", "/v1/status", nil), 401, "unauthorized")
	devRefused(t, r.Do("POST", "/v1/pair", "", map[string]any{"code": pending.Code}), 403, "bad_code")
	if files := clipFiles(t, r, laptop.Mailbox); len(files) != 0 {
		t.Errorf("clips left: %v", files)
	}
	if diff := cmp.Diff([]string{"owner"}, names(t, op)); diff != "" {
		t.Errorf("people (-want +got):\n%s", diff)
	}
	wantFault(t, "the last person", op.RemovePerson(ctx, "owner"), fault.Conflict, "invalid_request")
	r.Pair("still open")
}

// When the first person goes, open pairing is the next one's.
func TestOpenPairingIsTheFirstPersons(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	op := operator(t, r)
	if _, err := op.AddPerson(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	r.Pair("laptop")
	if diff := cmp.Diff([]string{"owner +", "ada"}, names(t, op)); diff != "" {
		t.Errorf("people (-want +got):\n%s", diff)
	}
	waiting := r.Do("POST", "/v1/pair/start", "", nil).Text("code")
	if err := op.RemovePerson(t.Context(), "owner"); err != nil {
		t.Fatal(err)
	}
	devRefused(t, r.Do("POST", "/v1/pair", "", map[string]any{"code": waiting}), 403, "bad_code")
	r.Pair("laptop")
	if diff := cmp.Diff([]string{"ada +"}, names(t, op)); diff != "" {
		t.Errorf("people (-want +got):\n%s", diff)
	}
}

// Nobody sees that others exist (decision 5): lists, names, limits, removal and pruning are a person's own.
func TestPeopleDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) {
		c.MaxDevices, c.PairStartsPerHour = 2, 100
	}})
	op := r.App.Admin()
	invite := func(name, device string) *testkit.Device {
		t.Helper()
		inv, err := op.Invite(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return r.Redeem(inv.Code, device)
	}
	if _, err := op.AddPerson(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	mine, adas := r.Pair("laptop"), invite("ada", "laptop") // the same name, and neither replaces the other
	mine.Stream()
	if got, want := reasons(mine), reasons(adas); !cmp.Equal(got, []string{"laptop -"}) || !cmp.Equal(want, got) {
		t.Errorf("the lists are %v and %v, want one entry each", got, want)
	}
	invite("ada", "studio")
	r.Pair("studio") // the limit of two is each one's own
	devRefused(t, r.Do("POST", "/v1/pair/start", "", nil), 403, "device_limit")
	inv, err := op.Invite(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	devRefused(t, r.Do("POST", "/v1/pair", "", map[string]any{"code": inv.Code, "deviceName": "third"}), 403, "device_limit")

	// The mailboxes have the same name: to the same person they would be doubles, removable and to be pruned.
	for _, d := range []*testkit.Device{adas, mine} {
		other := map[*testkit.Device]*testkit.Device{adas: mine, mine: adas}[d]
		unknown := d.Call("DELETE", "/v1/device/devices/"+strings.Repeat("0", 48), nil)
		devRefused(t, d.Call("DELETE", "/v1/device/devices/"+other.Mailbox, nil), 404, "not_found")
		if a := d.Call("DELETE", "/v1/device/devices/"+other.Mailbox, nil); string(a.Raw) != string(unknown.Raw) {
			t.Errorf("another person's mailbox answers %s, nobody's %s", a.Raw, unknown.Raw)
		}
		d.Call("POST", "/v1/device/prune", nil)
		if a := other.Call("GET", "/v1/device/info", nil); a.Status != 200 {
			t.Errorf("pruning reached another person's mailbox: %d %s", a.Status, a.Raw)
		}
	}
	if diff := cmp.Diff([]string{"owner + +", "ada + +"}, names(t, op)); diff != "" {
		t.Errorf("people (-want +got):\n%s", diff)
	}
}

func TestAnInvitationIsForOneDeviceAndTenMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true, Config: func(c *config.Config) {
			c.PairingSecret, c.Origin = "open sesame", "https://relay.example"
		}})
		op := r.App.Admin()
		inv, err := op.Invite(t.Context(), "owner")
		if err != nil {
			t.Fatal(err)
		}
		if want := time.Now().Add(10 * time.Minute).UTC().Format("2006-01-02T15:04:05.000Z"); inv.ExpiresAt != want {
			t.Errorf("expiresAt = %s, want %s", inv.ExpiresAt, want)
		}
		devMatch(t, "link", []byte(inv.Link), "https://relay.example/pair#<code>")
		r.Redeem(inv.Code, "laptop") // the operator's invitation needs no pairing secret
		devRefused(t, r.Do("POST", "/v1/pair", "", map[string]any{"code": inv.Code}), 403, "bad_code")
		if inv, err = op.Invite(t.Context(), "owner"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		devRefused(t, r.Do("POST", "/v1/pair", "", map[string]any{"code": inv.Code}), 403, "bad_code")
	})
}

func TestTheOperatorsSocketIsForItsUserAlone(t *testing.T) {
	t.Parallel()
	short := t.TempDir()
	long := filepath.Join(t.TempDir(), strings.Repeat("deep/", 30))
	if err := os.MkdirAll(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"in the data directory": short, "beside a data directory with a long path": long} {
		t.Run(name, func(t *testing.T) {
			path, err := admin.SocketPath(dir)
			if err != nil {
				t.Fatal(err)
			}
			if dir == long {
				t.Cleanup(func() { _ = os.Remove(filepath.Dir(path)) })
			}
			if inside := strings.HasPrefix(path, dir); inside != (dir == short) || len(path) > 100 {
				t.Errorf("socket path = %s", path)
			}
			if _, err := admin.Dial(t.Context(), dir); !errors.Is(err, admin.ErrNotRunning) {
				t.Errorf("without a relay: %v, want ErrNotRunning", err)
			}
			// A leftover of a process that died must not be in the way.
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			r := testkit.New(t, testkit.Options{Dir: dir})
			for file, want := range map[string]fs.FileMode{path: fs.ModeSocket | 0o600, filepath.Dir(path): fs.ModeDir | 0o700} {
				if dir == short && file != path {
					continue // the test's own directory
				}
				info, err := os.Stat(file)
				if err != nil || info.Mode() != want {
					t.Errorf("%s: %v, %v; want %v", file, info.Mode(), err, want)
				}
			}
			if diff := cmp.Diff([]string{"owner"}, names(t, operator(t, r))); diff != "" {
				t.Errorf("people (-want +got):\n%s", diff)
			}
			r.Stop()
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the socket is left behind: %v", err)
			}
			entries, err := os.ReadDir(filepath.Dir(path))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), ".s") {
					t.Errorf("left behind: %s", e.Name())
				}
			}
			if _, err := admin.Dial(t.Context(), dir); !errors.Is(err, admin.ErrNotRunning) {
				t.Errorf("after the relay: %v, want ErrNotRunning", err)
			}
		})
	}
}

func TestASocketDirectoryThatOthersCanEnterIsRefused(t *testing.T) {
	t.Parallel()
	long := filepath.Join(t.TempDir(), strings.Repeat("deep/", 30))
	path, err := admin.SocketPath(long)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(path)
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.SocketPath(long); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("SocketPath = %v, want a refusal that names %s", err, dir)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.SocketPath(long); err == nil {
		t.Error("a link in place of the directory is followed")
	}
}

// The socket speaks HTTP; whatever is no route of it is refused like everywhere.
func TestTheOperatorsSocketRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	path, err := admin.SocketPath(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	t.Cleanup(client.CloseIdleConnections)
	for _, test := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/v1/device/info", "", 404}, {"GET", "/", "", 404}, {"PUT", "/people", "", 405}, {"DELETE", "/people", "", 405},
		{"POST", "/people", "not JSON", 400}, {"POST", "/people", `{"name":7}`, 400}, {"POST", "/people", strings.Repeat("x", 70<<10), 413},
		{"DELETE", "/people/nobody", "", 404}, {"POST", "/people/nobody/invitations", "", 404},
	} {
		req, err := http.NewRequestWithContext(t.Context(), test.method, "http://relay"+test.path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != test.want {
			t.Errorf("%s %s %.20q: %d, want %d", test.method, test.path, test.body, res.StatusCode, test.want)
		}
	}
}

func TestTheOperatorWorksOnAStoppedRelaysStoreToo(t *testing.T) {
	t.Parallel()
	testkit.OnSQLite(t)
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.RelaySecret = t.TempDir(), "127.0.0.1:8799", testkit.Secret
	log := slog.New(slog.DiscardHandler)
	r := testkit.New(t, testkit.Options{Dir: cfg.Data})
	r.Stop()

	op, err := app.OpenAdmin(t.Context(), cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	inv, err := op.AddPerson(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	devMatch(t, "link", []byte(inv.Link), "http://127.0.0.1:8799/pair#<code>")
	if err := op.Close(); err != nil {
		t.Fatal(err)
	}

	r = testkit.New(t, testkit.Options{Dir: cfg.Data})
	r.Redeem(inv.Code, "laptop")
	if op, err = app.OpenAdmin(t.Context(), cfg, log); err != nil { // now through the running one
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"owner", "ada +"}, names(t, op)); diff != "" {
		t.Errorf("people (-want +got):\n%s", diff)
	}
	inv, err = op.Invite(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	devMatch(t, "link", []byte(inv.Link), r.URL+"/pair#<code>")
	if err := op.RemovePerson(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	if err := op.Close(); err != nil {
		t.Fatal(err)
	}
	r.Stop()
	if op, err = app.OpenAdmin(t.Context(), cfg, log); err != nil {
		t.Fatal(err)
	}
	defer op.Close()
	if diff := cmp.Diff([]string{"owner"}, names(t, op)); diff != "" {
		t.Errorf("people (-want +got):\n%s", diff)
	}
	wantFault(t, "the last person", op.RemovePerson(t.Context(), "owner"), fault.Conflict, "invalid_request")
}
