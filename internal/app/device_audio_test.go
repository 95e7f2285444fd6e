package app_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/config"
	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/testkit"
)

const maxClip = 1 << 20

// Beginnings of files as recorders write them.
var (
	mp4Bytes  = []byte("\x00\x00\x00\x1cftypM4A \x00\x00\x00\x00M4A isommp42")
	webmBytes = []byte("\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01webm")
	oggBytes  = []byte("OggS\x00\x02\x00\x00\x00\x00OpusHead")
	aacBytes  = []byte("\xff\xf1\x50\x80\x02\x1f\xfc")
	noBytes   = []byte("RIFF\x24\x00\x00\x00WAVEfmt ") // nothing that is recognised
)

func upload(d *testkit.Device, id, label string, clip []byte) testkit.Answer {
	d.T.Helper()
	return d.Call("PUT", "/v1/device/reply/"+id+"/audio", clip, "Content-Type", label)
}

// clipOf replies by voice and downloads the clip as the agent does.
func clipOf(t *testing.T, d *testkit.Device, agent *testkit.Agent, agentID, id string) testkit.Answer {
	t.Helper()
	devOK(t, d.Call("POST", "/v1/device/reply", map[string]any{"id": id, "transcript": "ship it"}), 200, `{"ok":true}`)
	link := devReceipt(agent, agentID).Text("audioUrl")
	return d.Do("GET", strings.TrimPrefix(link, d.URL), "", nil)
}

// TestAClipIsServedUnderItsTrueType covers decisions 8 and 32, and case 96 of the public cases: a recognised container
// wins over the label, unrecognised bytes keep one of the documented labels.
func TestAClipIsServedUnderItsTrueType(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	tests := []struct {
		name   string
		clip   []byte
		label  string
		served string // "" is a refusal
	}{
		{"mp4 as audio/mp4", mp4Bytes, "audio/mp4", "audio/mp4"},
		{"mp4 as audio/x-m4a", mp4Bytes, "audio/x-m4a", "audio/mp4"},
		{"case 096: mp4 labelled webm", mp4Bytes, "audio/webm", "audio/mp4"},
		{"mp4 without a label", mp4Bytes, "", "audio/mp4"},
		{"mp4 under any label", mp4Bytes, "application/octet-stream", "audio/mp4"},
		{"aac as audio/aac", aacBytes, "audio/aac", "audio/aac"},
		{"webm as audio/webm", webmBytes, "audio/webm;codecs=opus", "audio/webm"},
		{"webm labelled mp4", webmBytes, "audio/mp4", "audio/webm"},
		{"ogg as audio/ogg", oggBytes, "audio/ogg; codecs=opus", "audio/ogg"},
		{"ogg labelled aac", oggBytes, "audio/aac", "audio/ogg"},
		{"unrecognised as audio/mp4", noBytes, "audio/mp4", "audio/mp4"},
		{"unrecognised as audio/x-m4a", noBytes, "audio/x-m4a", "audio/mp4"},
		{"unrecognised as audio/aac", noBytes, "audio/aac", "audio/aac"},
		{"a parameter behind the label", noBytes, "audio/mp4; codecs=mp4a.40.2", "audio/mp4"},
		{"a label in capitals", noBytes, "Audio/MP4", "audio/mp4"},
		{"a broken parameter behind the label", noBytes, "audio/mp4; codecs=;;=", "audio/mp4"},
		{"unrecognised as audio/webm", noBytes, "audio/webm", ""},
		{"unrecognised as audio/ogg", noBytes, "audio/ogg", ""},
		{"unrecognised as audio/wav", noBytes, "audio/wav", ""},
		{"unrecognised without a label", noBytes, "", ""},
		{"unrecognised as a mere prefix", noBytes, "audio/mp4a", ""},
		{"a page labelled text", []byte("<!doctype html><script>1</script>"), "text/html", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			agentID, id := devQueued(d, agent)
			a := upload(d, id, test.label, test.clip)
			if test.served == "" {
				devRefused(t, a, 415, "unsupported_media_type")
				if got := devReceipt(agent, agentID); got.Body["queued"] != true {
					t.Errorf("a refused clip changed the receipt: %s", got.Raw)
				}
				d.Call("POST", "/v1/device/receipt", map[string]any{"id": id, "kind": "displayed"})
				return
			}
			devOK(t, a, 200, fmt.Sprintf(`{"ok":true,"bytes":%d}`, len(test.clip)))
			got := clipOf(t, d, agent, agentID, id)
			if got.Status != 200 || !bytes.Equal(got.Raw, test.clip) {
				t.Fatalf("clip = %d %q", got.Status, got.Raw)
			}
			want := map[string]string{
				"Content-Type": test.served, "Cache-Control": "private, no-store",
				"Content-Length": fmt.Sprint(len(test.clip)), "X-Content-Type-Options": "nosniff",
			}
			for name, value := range want {
				if got.Header.Get(name) != value {
					t.Errorf("%s = %q, want %q", name, got.Header.Get(name), value)
				}
			}
		})
	}
}

func TestAClipMakesAReplyWithoutWords(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	agentID, id := devQueued(d, agent)
	devOK(t, upload(d, id, "audio/mp4", mp4Bytes), 200, `{"ok":true,"bytes":28}`)
	if got := devReceipt(agent, agentID); got.Body["replied"] != false || got.Body["audioUrl"] != nil || got.Body["queued"] != true {
		t.Errorf("a clip alone is no reply yet: %s", got.Raw)
	}
	devOK(t, d.Call("POST", "/v1/device/reply", map[string]any{"id": id}), 200, `{"ok":true}`)
	got := devReceipt(agent, agentID)
	link := `http://127.0.0.1:<int>/v1/audio/` + d.Mailbox + `/` + id + `.m4a?exp=<int>&sig=<hex64>`
	devMatch(t, "receipt", got.Raw, `{"notificationId":"`+agentID+`","received":true,"receivedAt":"<time>","queued":false,"displayed":false,"spoken":false,`+
		`"replied":true,"repliedAt":"<time>","audioUrl":"`+link+`","audioUrlExpiresInSeconds":3600,"expectReply":true,"suppressed":false}`)
}

func TestANewerClipTakesThePlaceOfTheOlder(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	d := r.Pair("laptop")
	agent := d.Agent("bot")
	agentID, id := devQueued(d, agent)
	for _, clip := range [][]byte{mp4Bytes, webmBytes, aacBytes, oggBytes} {
		devOK(t, upload(d, id, "audio/mp4", clip), 200, `{"ok":true,"bytes":<int>}`)
		if got := clipOf(t, d, agent, agentID, id); !bytes.Equal(got.Raw, clip) {
			t.Errorf("clip = %q, want the newer %q", got.Raw, clip)
		}
		if files := clipFiles(t, r, d.Mailbox); len(files) != 1 {
			t.Errorf("files = %v, want the newer one alone", files)
		}
	}
	if uploads, size := devUsage(d, "audioUploads"), devUsage(d, "audioBytes"); uploads != 4 || size != len(mp4Bytes)+len(webmBytes)+len(aacBytes)+len(oggBytes) {
		t.Errorf("usage = %d uploads of %d bytes, want every upload counted", uploads, size)
	}
}

func clipFiles(t *testing.T, r *testkit.Relay, mailbox string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(r.Dir, "clips", mailbox))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// claims declares a length and sends nothing more.
func claims(t *testing.T, d *testkit.Device, id string, length int64) testkit.Answer {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "PUT /v1/device/reply/%s/audio HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", id, d.Token, length)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	a := testkit.Answer{Status: res.StatusCode, Header: res.Header}
	if a.Raw, err = io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal(a.Raw, &a.Body) // devRefused looks at it
	return a
}

// TestClipsAreRefusedInOrder sends requests that are wrong in several ways at once: unknown id, declared length, daily
// count, empty, real size, daily bytes, type (contract section 6.5).
func TestClipsAreRefusedInOrder(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("x"), maxClip+1)
	limited := func(count, size int64) testkit.Options {
		return testkit.Options{Config: func(c *config.Config) { c.AudioUploadsPerDay, c.AudioBytesPerDay = count, size }}
	}
	ready := func(t *testing.T, o testkit.Options) (*testkit.Device, string) {
		d := testkit.New(t, o).Pair("laptop")
		_, id := devQueued(d, d.Agent("bot"))
		return d, id
	}
	t.Run("an unknown id comes before the declared length", func(t *testing.T) {
		t.Parallel()
		d, _ := ready(t, limited(0, 0))
		devRefused(t, upload(d, unknownID, "text/plain", big), 404, "not_found")
	})
	t.Run("another mailbox's id is unknown", func(t *testing.T) {
		t.Parallel()
		d, _ := ready(t, testkit.Options{})
		other := d.Pair("other")
		_, foreign := devQueued(other, other.Agent("bot"))
		devRefused(t, upload(d, foreign, "audio/mp4", mp4Bytes), 404, "not_found")
	})
	t.Run("the declared length comes before the daily count", func(t *testing.T) {
		t.Parallel()
		d, id := ready(t, limited(0, 0))
		devRefused(t, upload(d, id, "text/plain", big), 413, "too_large")
	})
	t.Run("the declared length is judged before the bytes arrive", func(t *testing.T) {
		t.Parallel()
		d, id := ready(t, testkit.Options{})
		devRefused(t, claims(t, d, id, 100<<20), 413, "too_large")
	})
	t.Run("the daily count comes before the empty body", func(t *testing.T) {
		t.Parallel()
		d, id := ready(t, limited(0, 0))
		a := upload(d, id, "text/plain", nil)
		devRefusedUntilMidnight(t, a)
	})
	t.Run("the daily count comes before the real size", func(t *testing.T) {
		t.Parallel()
		d, id := ready(t, limited(0, 0))
		devRefusedUntilMidnight(t, chunked(d, id, big))
	})
	t.Run("an empty body comes before the type", func(t *testing.T) {
		t.Parallel()
		d, id := ready(t, limited(9, 0))
		devRefused(t, upload(d, id, "text/plain", nil), 400, "invalid_request")
		devRefused(t, chunked(d, id, nil), 400, "invalid_request")
	})
	t.Run("the real size comes before the daily bytes", func(t *testing.T) {
		t.Parallel()
		d, id := ready(t, limited(9, 1))
		devRefused(t, chunked(d, id, big), 413, "too_large")
	})
	t.Run("the daily bytes come before the type", func(t *testing.T) {
		t.Parallel()
		d, id := ready(t, limited(9, 1))
		devRefusedUntilMidnight(t, upload(d, id, "text/plain", noBytes))
	})
	t.Run("the type comes last", func(t *testing.T) {
		t.Parallel()
		d, id := ready(t, limited(9, 9999))
		devRefused(t, upload(d, id, "text/plain", noBytes), 415, "unsupported_media_type")
	})
	t.Run("a refused clip counts for nothing and leaves nothing behind", func(t *testing.T) {
		t.Parallel()
		d, id := ready(t, testkit.Options{})
		for _, refused := range []testkit.Answer{
			upload(d, unknownID, "audio/mp4", mp4Bytes), upload(d, id, "audio/mp4", big), upload(d, id, "audio/mp4", nil),
			chunked(d, id, big), upload(d, id, "text/plain", noBytes),
		} {
			if refused.Status < 400 {
				t.Errorf("accepted: %s", refused.Raw)
			}
		}
		if uploads, size := devUsage(d, "audioUploads"), devUsage(d, "audioBytes"); uploads != 0 || size != 0 {
			t.Errorf("usage = %d uploads of %d bytes, want none", uploads, size)
		}
		if files := clipFiles(t, d.Relay, d.Mailbox); len(files) != 0 {
			t.Errorf("left behind: %v", files)
		}
		devOK(t, chunked(d, id, append(append([]byte(nil), mp4Bytes...), big[:maxClip-len(mp4Bytes)]...)), 200, `{"ok":true,"bytes":1048576}`)
	})
}

// chunked uploads without declaring a length.
func chunked(d *testkit.Device, id string, clip []byte) testkit.Answer {
	d.T.Helper()
	return d.Do("PUT", "/v1/device/reply/"+id+"/audio", d.Token, io.MultiReader(bytes.NewReader(clip)), "Content-Type", "audio/mp4")
}

// devRefusedUntilMidnight expects a daily cap whose body and header name the same seconds, those until midnight UTC.
func devRefusedUntilMidnight(t *testing.T, a testkit.Answer) {
	t.Helper()
	seconds, _ := a.Body["retryAfterSeconds"].(float64)
	left := relay.UntilNextDay(time.Now()).Seconds()
	if a.Status != 429 || a.Code() != "daily_cap" || a.Header.Get("Retry-After") != fmt.Sprint(seconds) {
		t.Errorf("answer = %d %s with Retry-After %q", a.Status, a.Raw, a.Header.Get("Retry-After"))
	}
	if seconds < left || seconds > left+60 && seconds > 60 {
		t.Errorf("retryAfterSeconds = %v, midnight UTC is %v away", seconds, left)
	}
}

func TestTheDailyClipsOfAMailboxReturnAtMidnight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("laptop")
		_, id := devQueued(d, d.Agent("bot"))
		time.Sleep(time.Hour) // of a day that began with the bubble
		phone := d.Link("phone")
		for i := range 40 {
			by := []*testkit.Device{d, phone}[i%2] // the limit is the mailbox's
			devOK(t, upload(by, id, "audio/mp4", mp4Bytes), 200, `{"ok":true,"bytes":28}`)
		}
		a := upload(d, id, "audio/mp4", mp4Bytes)
		devRefused(t, a, 429, "daily_cap", `"retryAfterSeconds":82800`)
		devRetryAfter(t, a, "82800")
		other := r.Pair("other")
		_, foreign := devQueued(other, other.Agent("bot"))
		devOK(t, upload(other, foreign, "audio/mp4", mp4Bytes), 200, `{"ok":true,"bytes":28}`)

		time.Sleep(23*time.Hour - 1500*time.Millisecond)
		a = upload(d, id, "audio/mp4", mp4Bytes)
		devRefused(t, a, 429, "daily_cap", `"retryAfterSeconds":2`)
		devRetryAfter(t, a, "2")
		time.Sleep(2 * time.Second)
		devOK(t, upload(d, id, "audio/mp4", mp4Bytes), 200, `{"ok":true,"bytes":28}`)
		if got := devUsage(d, "audioUploads"); got != 1 {
			t.Errorf("audioUploads = %d, want the new day's 1", got)
		}
	})
}

func TestTheDailyBytesOfClips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("laptop")
		_, id := devQueued(d, d.Agent("bot"))
		megabyte := append(append([]byte(nil), mp4Bytes...), make([]byte, maxClip-len(mp4Bytes))...)
		for range 19 {
			devOK(t, upload(d, id, "audio/mp4", megabyte), 200, `{"ok":true,"bytes":1048576}`)
		}
		devOK(t, upload(d, id, "audio/mp4", megabyte[:maxClip-1]), 200, `{"ok":true,"bytes":1048575}`)
		a := upload(d, id, "audio/mp4", mp4Bytes[:2])
		devRefused(t, a, 429, "daily_cap", `"retryAfterSeconds":86400`)
		devRetryAfter(t, a, "86400")
		devOK(t, upload(d, id, "audio/mp4", mp4Bytes[:1]), 200, `{"ok":true,"bytes":1}`) // to the byte: 20 MiB
		time.Sleep(24 * time.Hour)
		if got := devUsage(d, "audioBytes"); got != 0 {
			t.Errorf("audioBytes = %d on a new day", got)
		}
	})
}

func TestClipsThatComeAtOnceKeepTheLimit(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{Config: func(c *config.Config) { c.AudioUploadsPerDay = 5 }})
	d := r.Pair("laptop")
	_, id := devQueued(d, d.Agent("bot"))
	counts := inParallel(t, 15, func(int) testkit.Answer {
		a, err := r.Try(t.Context(), "PUT", "/v1/device/reply/"+id+"/audio", d.Token, mp4Bytes, "Content-Type", "audio/mp4")
		if err != nil {
			t.Error(err)
		}
		return a
	})
	if counts[200] != 5 || counts[429] != 10 {
		t.Errorf("answers = %v, want five clips and ten refusals", counts)
	}
	if got := devUsage(d, "audioUploads"); got != 5 {
		t.Errorf("audioUploads = %d", got)
	}
}

func TestClipsAreKeptForSevenDays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.New(t, testkit.Options{Pipes: true})
		d := r.Pair("laptop")
		agent := d.Agent("bot")
		agentID, id := devQueued(d, agent)
		devOK(t, upload(d, id, "audio/mp4", mp4Bytes), 200, `{"ok":true,"bytes":28}`)
		if got := clipOf(t, d, agent, agentID, id); got.Status != 200 {
			t.Fatalf("clip = %d %s", got.Status, got.Raw)
		}
		get := func() testkit.Answer { return d.Do("GET", signedLink(d.Mailbox, id), "", nil) }
		// Letting a week pass would take as long as thousands of sweeps: the clip is made a week old instead.
		file := filepath.Join(r.Dir, "clips", d.Mailbox, clipFiles(t, r, d.Mailbox)[0])
		if info, err := os.Stat(file); err != nil || !info.ModTime().Equal(time.Now()) {
			t.Errorf("the clip is dated %v, %v; want the upload's time", info.ModTime(), err)
		}
		almost := time.Now().Add(-7*24*time.Hour + 10*time.Minute)
		if err := os.Chtimes(file, almost, almost); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Minute)
		if got := get(); got.Status != 200 || !bytes.Equal(got.Raw, mp4Bytes) {
			t.Errorf("a minute before seven days: %d %s", got.Status, got.Raw)
		}
		time.Sleep(10 * time.Minute)
		devRefused(t, get(), 404, "not_found")
		if files := clipFiles(t, r, d.Mailbox); len(files) != 0 {
			t.Errorf("left behind: %v", files)
		}
	})
}

// signedLink makes a link that is good now, as a receipt would hold it.
func signedLink(mailbox, id string) string {
	exp := fmt.Sprint(time.Now().Add(time.Hour).Unix())
	m, _ := relay.ParseMailboxID(mailbox)
	n, _ := relay.ParseNotificationID(id)
	return "/v1/audio/" + mailbox + "/" + id + ".m4a?exp=" + exp + "&sig=" + credential.NewSigner(testkit.Secret).ClipSignature(m, n, exp)
}

func TestClipsGoWithTheirMailbox(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{})
	keeper := r.Pair("keeper")
	_, kept := devQueued(keeper, keeper.Agent("bot"))
	devOK(t, upload(keeper, kept, "audio/mp4", mp4Bytes), 200, `{"ok":true,"bytes":28}`)
	ends := map[string]func(d *testkit.Device){
		"unpairing":              func(d *testkit.Device) { d.Call("DELETE", "/v1/device", nil) },
		"pairing under its name": func(d *testkit.Device) { r.Pair("laptop") },
		"unpairing a linked one": func(d *testkit.Device) { d.Link("phone").Call("DELETE", "/v1/device", nil) },
		"unlinking a linked one": func(d *testkit.Device) { d.Call("DELETE", "/v1/device/links/"+linkID(d.Link("phone")), nil) },
	}
	for name, end := range ends {
		d := r.Pair("laptop")
		_, id := devQueued(d, d.Agent("bot"))
		devOK(t, upload(d, id, "audio/mp4", mp4Bytes), 200, `{"ok":true,"bytes":28}`)
		end(d)
		want := 404
		if strings.Contains(name, "linked") {
			want = 200
		}
		if got := d.Do("GET", signedLink(d.Mailbox, id), "", nil); got.Status != want {
			t.Errorf("%s: the clip answers %d, want %d", name, got.Status, want)
		}
	}
	if got := r.Do("GET", signedLink(keeper.Mailbox, kept), "", nil); got.Status != 200 {
		t.Errorf("another mailbox's clip is gone too: %d %s", got.Status, got.Raw)
	}
}

// linkID finds the device's own entry in the list of links.
func linkID(d *testkit.Device) string {
	d.T.Helper()
	list, _ := d.Call("GET", "/v1/device/links", nil).Body["links"].([]any)
	for _, entry := range list {
		if e, _ := entry.(map[string]any); e["thisDevice"] == true {
			return e["id"].(string)
		}
	}
	d.T.Fatal("the device is not in its own list of links")
	return ""
}
