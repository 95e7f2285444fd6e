package postgres_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/postgres"
)

// A server that is not there is named with its address and the cause, and the password stays out.
func TestUnreachedNamesServerAndCause(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil { // nobody is there now
		t.Fatal(err)
	}
	for _, url := range []string{
		"postgres://herald:s3cret-pw@" + address + "/herald",
		"host=127.0.0.1 port=" + address[strings.LastIndex(address, ":")+1:] + " user=herald password=s3cret-pw",
	} {
		_, opened := postgres.Open(t.Context(), url, nil)
		f, ok := errors.AsType[*fault.Error](postgres.Unreached(url, opened))
		if !ok || f.Code != "database_unreachable" || !strings.Contains(f.Detail, "PostgreSQL at "+address) || !strings.Contains(f.Detail, "connection refused") {
			t.Errorf("%v", f)
		}
		if strings.Contains(f.Detail, "s3cret-pw") {
			t.Errorf("the password is in %q", f.Detail)
		}
	}
}

func TestUnreachedLetsOtherErrorsPass(t *testing.T) {
	for _, err := range []error{nil, errors.New("x"), fault.New(fault.Unavailable, "database_newer", "newer")} {
		if got := postgres.Unreached("postgres://127.0.0.1:1/herald", err); got != err {
			t.Errorf("Unreached(%v) = %v", err, got)
		}
	}
}
