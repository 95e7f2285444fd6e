package config

import (
	"fmt"
	"io"
	"log/slog"
)

const redacted = "[redacted]"

// Secret is text that must not be shown. Every way of printing, logging or encoding it yields a placeholder; Reveal is
// the one way to the text.
type Secret string

// Reveal returns the text.
func (s Secret) Reveal() string { return string(s) }

// String is the placeholder, or nothing when there is no secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format keeps the text out of every verb, %x and %#v included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText keeps the text out of JSON and other encodings.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
