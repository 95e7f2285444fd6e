package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/herald-relay/herald/internal/fault"
)

// SQLSTATE codes that decide something (PostgreSQL documentation, appendix A).
const (
	codeUniqueViolation    = "23505"
	codeForeignKey         = "23503"
	codeReadOnly           = "25006"
	codeSerialization      = "40001"
	codeDeadlock           = "40P01"
	codeMissingDatabase    = "3D000"
	codeNoPrivilege        = "42501"
	codeOutOfSpace         = "53100"
	codeTooManyConnections = "53300"
	codeLockTimeout        = "55P03"
	codeQueryCanceled      = "57014"
	codeAdminShutdown      = "57P01"
	codeCrashShutdown      = "57P02"
	codeCannotConnect      = "57P03"
	codeDatabaseDropped    = "57P04"
	codeIdleSession        = "57P05"
	codeIdleTransaction    = "25P03"
	codeUnknownOutcome     = "08007"
	codeIOError            = "58030"
	classConnection        = "08"
	classAuthorization     = "28"
	classResources         = "53"
	unavailableCode        = "unavailable"
	newerSchemaCode        = "database_newer"
	unsuitableCode         = "database_unsuitable"
	unknownRemedy          = "the relay's database cannot be reached or is busy; try again, and if it lasts, its operator should check the server"
)

// remedies tell the operator what to do; they name nothing that a stranger may not know.
var remedies = map[string]string{
	codeOutOfSpace:         "the relay's database has no room left; its operator must free space on the database server",
	codeReadOnly:           "the relay's database takes no writes: it is a standby or set read-only; its operator must point the relay at the primary",
	codeTooManyConnections: "the relay's database takes no more connections; its operator should raise max_connections or lower the relay's pool",
	codeAdminShutdown:      "the relay's database is being shut down or restarted; try again",
	codeCrashShutdown:      "the relay's database is recovering from a crash; try again",
	codeCannotConnect:      "the relay's database is starting up or shutting down; try again",
	codeMissingDatabase:    "the relay's database does not exist; its operator must create it or correct the URL",
	codeNoPrivilege:        "the relay's database user lacks a right; its operator must make it the owner of the relay's tables",
	codeLockTimeout:        "another process holds what this needs for too long; try again, and if it lasts, its operator should look for a stuck session",
	codeQueryCanceled:      "the relay's database took too long or was told to stop; try again",
	classAuthorization:     "the relay's database refuses its user or password; its operator must correct the URL",
}

// sqlState returns the server's error code, "" when the error is not the server's.
func sqlState(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// unavailable makes the fault for a database that cannot serve now.
func unavailable(cause error) *fault.Error {
	code := sqlState(cause)
	detail, ok := remedies[code]
	if !ok && strings.HasPrefix(code, classAuthorization) {
		detail, ok = remedies[classAuthorization], true
	}
	if !ok {
		detail = unknownRemedy
	}
	return fault.New(fault.Unavailable, unavailableCode, detail).Because(cause)
}

// translate gives an error of the database its meaning. Faults, and what is not the database's, pass.
func translate(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	code := sqlState(err)
	switch {
	case code == codeUniqueViolation:
		return fault.New(fault.Conflict, "conflict", "that exists already").Because(err)
	case code == codeForeignKey:
		return fault.NotFoundf("what this belongs to is gone").Because(err)
	case isUnavailable(code), code == "" && (network(err) || errors.Is(err, errElsewhere) || errors.Is(err, errSpoil)):
		return unavailable(err)
	}
	return fmt.Errorf("postgres: %w", err)
}

func isUnavailable(code string) bool {
	switch code {
	case codeReadOnly, codeLockTimeout, codeQueryCanceled, codeAdminShutdown, codeCrashShutdown, codeCannotConnect,
		codeDatabaseDropped, codeIdleSession, codeIdleTransaction, codeIOError, codeMissingDatabase, codeNoPrivilege,
		codeSerialization, codeDeadlock, codeUnknownOutcome:
		return true
	}
	return len(code) == 5 && (code[:2] == classConnection || code[:2] == classAuthorization || code[:2] == classResources)
}

// network reports whether err came from the way to the server and not from a mistake of this program.
func network(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err) || errors.Is(err, errLost)
}

// errLost marks errors of a connection that broke.
var errLost = errors.New("connection to the database lost")

func errClosed() error {
	return fault.New(fault.Unavailable, unavailableCode, "the relay is stopping; try again")
}
