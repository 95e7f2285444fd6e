package postgres

import (
	"cmp"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/herald-relay/herald/internal/fault"
)

// unreachedCode is for the operator alone; it never goes over the wire.
const unreachedCode = "database_unreachable"

// Unreached says which server could not be used and why, when err is what Open made of that; any other error passes. It
// is for the operator who starts a relay: addresses and the server's words are in it, the password is not.
func Unreached(url string, err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Code != unavailableCode || f.Err == nil {
		return err
	}
	config, bad := pgconn.ParseConfig(url)
	if bad != nil {
		return err
	}
	where, why := serversOf(config), reason(f.Err, config.Password)
	if f.Detail == unknownRemedy {
		return fault.New(fault.Unavailable, unreachedCode, "PostgreSQL at %s cannot be used: %s", where, why).Because(err)
	}
	return fault.New(fault.Unavailable, unreachedCode, "%s (PostgreSQL at %s: %s)", f.Detail, where, why).Because(err)
}

// serversOf lists the addresses that a connection tries.
func serversOf(c *pgconn.Config) string {
	_, first := pgconn.NetworkAddress(c.Host, c.Port)
	list := []string{first}
	for _, other := range c.Fallbacks {
		if _, address := pgconn.NetworkAddress(other.Host, other.Port); !slices.Contains(list, address) {
			list = append(list, address)
		}
	}
	return strings.Join(list, ", ")
}

// reason is the innermost error that says something to a person, without the password.
func reason(cause error, password string) string {
	text := cause.Error()
	if e, ok := errors.AsType[*pgconn.PgError](cause); ok {
		text = cmp.Or(e.Message, text)
	} else if e, ok := errors.AsType[*net.DNSError](cause); ok {
		text = e.Error()
	} else if e, ok := errors.AsType[*net.OpError](cause); ok {
		text = e.Error()
	}
	if password != "" {
		text = strings.ReplaceAll(text, password, "[redacted]")
	}
	return text
}
