package webhook_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/webhook"
)

const (
	body1 = `{"eventId":"evt_789","name":"incident.created","timestamp":"2026-02-19T16:00:00Z","data":{"incidentId":"INC-1234","severity":"P1"},"cursor":"c42"}`
	body2 = `{"type":"terminated","error":{"code":-32012,"message":"Forbidden","data":{"reason":"Access revoked"}}}`
	body3 = `{"eventId":"evt_u","name":"t","timestamp":"2026-02-19T16:00:00Z","data":{"s":"Zoë ☃ 🚀"},"cursor":null}`

	at1 = 1771516800 // seconds, of most vectors
)

// vectors are signatures that others computed: the first is from the Standard Webhooks specification, the rest from
// contract/mcp-events.md, e.1.
var vectors = []struct {
	name, secret, id string
	at               int64
	body, want       string
}{
	{"1 specification", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, `{"test": 2432232314}`, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
	{"2 event", text1, "evt_789", at1, body1, "v1,s2D9nxsS6QN8dFGLO/XrAm8+/cEoloHBHP2xNaAt0cI="},
	{"3 other secret", text2, "evt_789", at1, body1, "v1,wiOvP6uoBUkWiCMla+ZfjIRVMYNCP7D/MTofRJMpfwQ="},
	{"4 retry", text1, "evt_789", at1 + 60, body1, "v1,RctrWZRENvnyt5JQ7AXAqr2xiHif8iQTUvKSsy9/6dA="},
	{"5 verification", text1, "msg_verification_0001", at1, `{"type":"verification","challenge":"n0nce-0123456789abcdef"}`, "v1,8CAPNTLrzOYlFWdJxFUBui3OFb+hFmGkcE790r2lkM8="},
	{"6 gap", text1, "msg_gap_0001", at1, `{"type":"gap","cursor":"c100"}`, "v1,pDqDdpaYigAWEwdoJzOw3pb6Lr4zi1CLQzRBjHEwN2Y="},
	{"7 terminated", text1, "msg_terminated_0001", at1, body2, "v1,g/2iEuhvFvyk8cDkm83ZMebgzhZKjYCNhgPz+KQc8yc="},
	{"8 terminated, other dialect", text1, "msg_terminated_0001", at1, strings.Replace(body2, "-32012", "-32024", 1), "v1,vkjY0lVPZO4AzZh2bUzeNAXN+qvmO9GD3KrP5mu4CpI="},
	{"9 UTF-8", text1, "evt_u", at1, body3, "v1,gbsO8wQI4j2tfMEfJv/lhSps+dVKa+T9wH8rABSQtIo="},
}

// literalKey signs message 2 with the text of the secret as the key. A known mistake, which must not verify (vector 10).
const literalKey = "v1,ZmyUviHDNBFHejtyvH06vv2TN5FKjw/4GpGru+px1qU="

func TestVectors(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			s, at := secret(t, v.secret), time.Unix(v.at, 0)
			got, err := webhook.Sign(v.id, at, []byte(v.body), s)
			if err != nil || got != v.want {
				t.Fatalf("Sign = %q, %v, want %q", got, err, v.want)
			}
			h := headers(v.id, strconv.FormatInt(v.at, 10), v.want)
			verified, err := webhook.Verify(h, []byte(v.body), at, s)
			if diff := cmp.Diff(webhook.Verified{ID: v.id, At: at}, verified); diff != "" || err != nil {
				t.Errorf("Verify: %v (-want +got):\n%s", err, diff)
			}
			if _, err := webhook.Verify(h, []byte(v.body+" "), at, s); !errors.Is(err, webhook.ErrSignature) {
				t.Errorf("with a space after the body: %v", err)
			}
		})
	}
}

func headers(id, timestamp, signature string) http.Header {
	h := http.Header{}
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", timestamp)
	h.Set("Webhook-Signature", signature)
	return h
}
