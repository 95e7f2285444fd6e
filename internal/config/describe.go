package config

import (
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Setting is one line of Describe.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`  // as a file would hold it; secrets redacted, empty when not set
	Source string `json:"source"` // default, file, environment or flag
}

// Describe lists every setting in the order of the documentation.
func (c Config) Describe() (list []Setting) {
	for _, s := range settings {
		source := c.sources[s.key]
		if source == "" {
			source = "default"
		}
		list = append(list, Setting{Key: s.key, Value: s.text(&c), Source: source})
	}
	return list
}

// text writes the field's value as a file would hold it, a secret redacted.
func (s setting) text(c *Config) string {
	switch v := reflect.ValueOf(c).Elem().Field(s.index).Interface().(type) {
	case Secret:
		if s.as == "database" {
			return describeDatabase(v)
		}
		return v.String()
	case time.Duration:
		if s.as == "hours" {
			return strconv.FormatFloat(v.Hours(), 'g', -1, 64)
		}
		return v.String()
	case slog.Level:
		return strings.ToLower(v.String())
	case []string:
		return strings.Join(v, ",")
	case []netip.Prefix:
		parts := make([]string, len(v))
		for i, p := range v {
			parts[i] = p.String()
		}
		return strings.Join(parts, ",")
	default:
		return fmt.Sprint(v)
	}
}

// describeDatabase shows where a database is, and nothing that may be secret.
func describeDatabase(s Secret) string {
	u, err := url.Parse(s.Reveal())
	if s == "" || err != nil {
		return s.String()
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// String lists what differs from the defaults, secrets redacted.
func (c Config) String() string {
	var b strings.Builder
	for _, s := range c.Describe() {
		if s.Source != "default" {
			fmt.Fprintf(&b, " %s=%s", s.Key, s.Value)
		}
	}
	return "config{" + strings.TrimPrefix(b.String(), " ") + "}"
}

// GoString is String, so that %#v shows no secret either.
func (c Config) GoString() string { return c.String() }

// LogValue logs what differs from the defaults, secrets redacted.
func (c Config) LogValue() slog.Value {
	var attrs []slog.Attr
	for _, s := range c.Describe() {
		if s.Source != "default" {
			attrs = append(attrs, slog.String(s.Key, s.Value))
		}
	}
	return slog.GroupValue(attrs...)
}
