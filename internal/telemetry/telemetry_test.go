package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Made at run time, so that no token stands in the source.
var (
	mailboxPart = strings.Repeat("ab", 24)
	secretPart  = strings.Repeat("0123456789abcdef", 4)
)

func TestTheLogBlanksWhatLooksLikeASecret(t *testing.T) {
	agentKey := "hrk_" + mailboxPart + "_01234567_" + secretPart
	deviceToken := "hrd_" + mailboxPart + "_" + secretPart
	signing := "whsec_" + strings.Repeat("QUJD", 8)
	for _, format := range []string{"text", "json"} {
		var out strings.Builder
		log := NewLog(&out, format, slog.LevelInfo)
		log.With("key", agentKey).Info("pair "+deviceToken+".", "err", fmt.Errorf("refused %s", signing), slog.Group("g", "token", deviceToken))
		log.Debug("not shown")
		for _, secret := range []string{secretPart, signing, "not shown"} {
			if strings.Contains(out.String(), secret) {
				t.Errorf("%s: %q shows in %s", format, secret, &out)
			}
		}
		for _, rest := range []string{"hrk_abababab…", "pair hrd_abababab….", "whsec_QUJDQU…"} {
			if !strings.Contains(out.String(), rest) {
				t.Errorf("%s: %q is missing in %s", format, rest, &out)
			}
		}
	}
}

func TestBlankLeavesTheRestAlone(t *testing.T) {
	for _, s := range []string{"", "three hrs", "hrk_", "hrk_" + secretPart[:20], "hrx_" + secretPart, "whsec_short",
		"r_0123456789abcdef01234567", "/v1/audio/" + mailboxPart + "/r.m4a", "größe hr 人"} {
		if got := Blank(s); got != s {
			t.Errorf("Blank(%q) = %q", s, got)
		}
	}
}

func FuzzBlank(f *testing.F) {
	f.Add("x", mailboxPart+"_"+secretPart, "y")
	f.Fuzz(func(t *testing.T, before, middle, after string) {
		if got := Blank(before + " hra_" + mailboxPart + "_" + secretPart + " " + after); strings.Contains(got, secretPart+" "+after) && !strings.Contains(before+after, secretPart) {
			t.Errorf("the secret shows: %q", got)
		}
		if once := Blank(middle); Blank(once) != once {
			t.Errorf("Blank is not stable on %q", middle)
		}
	})
}

func TestLogTimesAreUTCWithMilliseconds(t *testing.T) {
	var out strings.Builder
	NewLog(&out, "json", slog.LevelInfo).Info("x", "at", time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.FixedZone("", 3600)))
	if !regexp.MustCompile(`"time":"20\d\d-[^"]*\.\d{3}Z"`).MatchString(out.String()) || !strings.Contains(out.String(), `"at":"2026-01-02T02:04:05.006Z"`) {
		t.Errorf("line = %s", &out)
	}
}

func TestBuild(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Version: "v0.2.0"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"}}}
	for _, c := range []struct {
		info  *debug.BuildInfo
		named string
		want  string
	}{
		{info, "", "herald v0.2.0 (0123456789ab+changes, "},
		{info, "v9.9.9", "herald v9.9.9 (0123456789ab+changes, "},
		{nil, "", "herald devel (go1."},
		{&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "", "herald devel (go1."},
	} {
		if got := buildOf(c.info, c.named).String(); !strings.HasPrefix(got, c.want) {
			t.Errorf("Build = %q, want it to begin with %q", got, c.want)
		}
	}
	if ReadBuild().Go == "" {
		t.Error("ReadBuild knows no Go version")
	}
}

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	if rec.Code != http.StatusOK {
		t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}

func TestMetricsCountWithClosedLabels(t *testing.T) {
	m := NewMetrics(Build{Version: "v1", Go: "go1.26"}, []string{"GET /health"})
	m.Streams(func() int { return 3 })
	m.Waits(func() int { return 4 })
	m.Request("GET /health", 200, 3*time.Millisecond)
	m.Request("GET /health", 200, time.Minute)
	m.Request("GET /no/such/"+secretPart, 404, 0)
	m.Request("GET /health", 7, 0)
	m.Update(3*time.Millisecond, false)
	m.Update(time.Second, true)
	m.StreamClosed(StreamReplaced)
	m.StreamClosed(secretPart)
	m.Swept(SweptExpired, 5)
	m.Swept(SweptExpired, 0)
	m.Swept("whatever", 1)
	text := scrape(t, m)
	for _, line := range []string{
		`herald_build_info{commit="",go="go1.26",version="v1"} 1`,
		`herald_requests_total{route="GET /health",status="200"} 2`,
		`herald_requests_total{route="unmatched",status="404"} 1`,
		`herald_requests_total{route="GET /health",status="other"} 1`,
		`herald_request_seconds_bucket{route="GET /health",le="0.005"} 2`,
		`herald_store_update_seconds_bucket{le="0.005"} 1`,
		`herald_store_update_seconds_count 1`,
		`herald_store_updates_failed_total 1`,
		`herald_streams_closed_total{reason="replaced"} 1`,
		`herald_streams_closed_total{reason="other"} 1`,
		`herald_streams_closed_total{reason="slow"} 0`,
		`herald_swept_total{kind="expired"} 5`,
		`herald_swept_total{kind="other"} 1`,
		`herald_streams_open 3`,
		`herald_waits_open 4`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
	if strings.Contains(text, secretPart) {
		t.Error("a stranger's text became a label")
	}
}

func TestNoMetricsIsFine(t *testing.T) {
	var m *Metrics
	m.Request("GET /health", 200, 0)
	m.Update(0, true)
	m.StreamClosed(StreamGone)
	m.Swept(SweptClips, 1)
	m.Streams(nil)
	m.Waits(nil)
}

// The operator's page must name every metric of ours, and none that does not exist.
func TestTheOperatorsPageListsTheMetrics(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	m := NewMetrics(Build{}, nil)
	m.Streams(func() int { return 0 })
	m.Waits(func() int { return 0 })
	m.Request(Unmatched, 200, 0)
	want := names(`(?m)^# TYPE (herald_\w+)`, scrape(t, m))
	got := names("(?m)^\\| `(herald_\\w+)`", string(page))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics in docs/operate.md (-there are +documented):\n%s", diff)
	}
}

func names(pattern, text string) (list []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func TestThePrivateListener(t *testing.T) {
	p, err := ListenPrivate("127.0.0.1:0", NewMetrics(Build{}, nil), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	for _, c := range []struct {
		path, host string
		status     int
		holds      string
	}{
		{"/metrics", "", 200, "go_goroutines"},
		{"/metrics", "localhost:1", 200, "go_goroutines"},
		{"/metrics", "rebound.example", 403, ""},
		{"/debug/pprof/", "", 200, "goroutine"},
		{"/debug/pprof/heap?debug=1", "", 200, "heap profile"},
		{"/debug/pprof/cmdline", "", 404, ""},
		{"/", "", 404, ""},
	} {
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+p.Addr()+c.path, nil)
		req.Host = c.host
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != c.status || !strings.Contains(string(body), c.holds) {
			t.Errorf("GET %s for host %q: %d", c.path, c.host, res.StatusCode)
		}
	}
	if _, err := ListenPrivate(p.Addr(), nil, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "HERALD_PRIVATE_LISTEN") {
		t.Errorf("second listener: %v, want a hint", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run = %v after a deliberate stop", err)
	}
	http.DefaultClient.CloseIdleConnections()
}
