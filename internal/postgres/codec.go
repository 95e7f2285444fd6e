package postgres

import (
	"encoding/hex"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/herald-relay/herald/internal/relay"
)

// hexText is an id that the database keeps as bytes: scan one as (*hexText)(&id).
type hexText string

// ScanBytes implements pgtype.BytesScanner. NULL is "".
func (h *hexText) ScanBytes(b []byte) error {
	*h = hexText(hex.EncodeToString(b))
	return nil
}

const notificationPrefix = "r_"

// noteID is a relay.NotificationID that the database keeps as bytes, without its prefix.
type noteID string

// ScanBytes implements pgtype.BytesScanner.
func (n *noteID) ScanBytes(b []byte) error {
	*n = noteID(notificationPrefix + hex.EncodeToString(b))
	return nil
}

// hashBytes is a relay.Hash as the database keeps it.
type hashBytes relay.Hash

// ScanBytes implements pgtype.BytesScanner.
func (h *hashBytes) ScanBytes(b []byte) error {
	if copy(h[:], b) != len(h) || len(b) != len(h) {
		return errors.New("a stored hash has the wrong length")
	}
	return nil
}

// instant is a time that the database keeps as Unix milliseconds: scan one as (*instant)(&t). NULL is the zero time.
type instant time.Time

// ScanInt64 implements pgtype.Int64Scanner.
func (i *instant) ScanInt64(v pgtype.Int8) error {
	*i = instant{}
	if v.Valid {
		*i = instant(time.UnixMilli(v.Int64).UTC())
	}
	return nil
}

// millis is the stored form of t; the zero time is NULL.
func millis(t time.Time) pgtype.Int8 {
	return pgtype.Int8{Int64: t.UnixMilli(), Valid: !t.IsZero()}
}

// idBytes is the stored form of an id in hex. One that is not hex was never parsed and belongs to nothing: it is
// stored as no bytes at all, which every table refuses and no row equals.
func idBytes[T ~string](id T) []byte {
	b, err := hex.DecodeString(string(id))
	if err != nil {
		return []byte{}
	}
	return b
}

func noteBytes(id relay.NotificationID) []byte {
	return idBytes(strings.TrimPrefix(string(id), notificationPrefix))
}

// optionalID is idBytes with "" as NULL.
func optionalID[T ~string](id T) []byte {
	if id == "" {
		return nil
	}
	return idBytes(id)
}

// storable reports whether PostgreSQL can hold s as text: valid UTF-8 without NUL.
func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// column gathers one column of a set of rows.
func column[R, V any](rows []R, value func(*R) V) []V {
	out := make([]V, len(rows))
	for i := range rows {
		out[i] = value(&rows[i])
	}
	return out
}
