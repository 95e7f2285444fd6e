package egress_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/herald-relay/herald/internal/egress"
)

func TestKindOf(t *testing.T) {
	refusal := &egress.Error{Kind: egress.NotPublic, Host: "example.com", Detail: "must name a public host", Err: context.DeadlineExceeded}
	for _, c := range []struct {
		err  error
		want egress.Kind
	}{
		{nil, egress.None},
		{refusal, egress.NotPublic},
		{fmt.Errorf("post: %w", refusal), egress.NotPublic},
		{context.DeadlineExceeded, egress.Timeout},
		{os.ErrDeadlineExceeded, egress.Timeout},
		{fmt.Errorf("read: %w", &net.DNSError{IsTimeout: true}), egress.Timeout},
		{context.Canceled, egress.Unreachable},
		{errors.New("EOF"), egress.Unreachable},
	} {
		if got := egress.KindOf(c.err); got != c.want {
			t.Errorf("KindOf(%v) = %v, want %v", c.err, got, c.want)
		}
	}
}

func TestKindsHaveNamesAndTellRefusals(t *testing.T) {
	refused := map[string]bool{"malformed": true, "inner_name": true, "not_public": true, "not_listed": true,
		"none": false, "unreachable": false, "timeout": false, "tls": false, "unknown": false}
	for kind := range egress.TLS + 2 {
		if want, ok := refused[kind.String()]; !ok || kind.Refused() != want {
			t.Errorf("kind %d is %q, refused %v", kind, kind, kind.Refused())
		}
		delete(refused, kind.String())
	}
	if len(refused) != 0 {
		t.Errorf("no kind is called any of %v", refused)
	}
}

func TestErrorText(t *testing.T) {
	err := &egress.Error{Kind: egress.Unreachable, Host: "example.com", Detail: "names a host that does not resolve", Err: errors.New("no such host")}
	if want := "egress: example.com: unreachable: URL names a host that does not resolve: no such host"; err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	if err.Timeout() || !(&egress.Error{Kind: egress.Timeout}).Timeout() {
		t.Error("exactly the kind Timeout is one")
	}
}
