package payload_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/payload"
	"github.com/herald-relay/herald/internal/strictjson"
)

// FuzzParse holds Parse to its promises: a refusal is a fault that can be shown, and an accepted payload is JSON that
// is accepted again and comes out unchanged, whatever way it is read.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		typical, `{}`, `{"title":"t"}`, `{"title":" a\r\nb ","status":"OK","duration":1e21,"tags":["a ","a","b"],"voice":"x"}`,
		`{"title":"t","speak":{"text":"a","voice":"v","speed":1.5,"lang":"en-us"},"presentation":"both","speed":2}`,
		`{"title":"t","speak":false,"voice":"v"}`, `{"title":"t","icon":"data:image/png;base64,iVBORw0KGgo"}`,
		`{"title":"t","link":"https://[::1]:8443/%20?q#f","imageURL":"HTTPS://x"}`, `{"title":"t","timeoutSeconds":1.5,"persistent":true}`,
		`{"title":"\u0085a\u2028\t b","command":1}`, `{"Title":"x"}`, `{"title":"t","title":1}`, `{"title":"t","speak":{"x":1,"x":2}}`,
		`{"title":"t","duration":-0.0000001,"priority":"urgent","sound":"Glass 2","notificationId":"a:b.c_d-e","allowVoiceReply":false}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		first, err := payload.Parse(body, maxBody)
		if err != nil {
			showable(t, err)
			return
		}
		if !json.Valid(first.JSON) || first.Title == "" || !strings.HasPrefix(string(first.JSON), `{"title":`) {
			t.Fatalf("stored payload %s", first.JSON)
		}
		v, err := strictjson.ParseObject(first.JSON)
		if err != nil {
			t.Fatal(err)
		}
		second, err := payload.FromValue(v)
		if err != nil {
			t.Fatalf("stored payload %s is refused: %v", first.JSON, err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("reading it again changed it (-first +second):\n%s", diff)
		}
	})
}

func showable(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*fault.Error](err)
	switch {
	case !ok:
		t.Errorf("not a fault: %v", err)
	case e.Kind != fault.Invalid && e.Kind != fault.TooLarge:
		t.Errorf("kind %v: %v", e.Kind, err)
	case e.Detail == "" || len(e.Detail) > 32<<10 || len(e.Fields) > 64:
		t.Errorf("%d fields, message of %d bytes", len(e.Fields), len(e.Detail))
	}
}
