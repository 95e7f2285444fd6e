package telemetry

import (
	"io"
	"log/slog"
	"strings"
)

// NewLog returns the process's logger. format is "json" or "text"; times are UTC with milliseconds.
func NewLog(w io.Writer, format string, level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: replace}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

func replace(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindTime:
		a.Value = slog.StringValue(a.Value.Time().UTC().Format("2006-01-02T15:04:05.000Z"))
	case slog.KindString:
		a.Value = slog.StringValue(Blank(a.Value.String()))
	case slog.KindAny:
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(Blank(err.Error()))
		}
	}
	return a
}

// The least length of what follows a prefix before it counts as a secret.
const (
	minTokenRest  = 64 // hex digits, counted without the underscores between parts
	minSecretRest = 32 // base64
)

// Blank replaces the secret part of whatever looks like a Herald token (hrd_, hrk_, hra_, hrr_, hrc_, hrv_) or a Standard Webhooks secret
// (whsec_) by "…". The first eight characters stay, so that lines can be told apart.
func Blank(s string) string {
	if !strings.Contains(s, "hr") && !strings.Contains(s, "whsec_") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		n := secretAt(s[i:])
		if n == 0 {
			b.WriteByte(s[i])
			i++
			continue
		}
		b.WriteString(s[i:min(i+12, i+n)] + "…")
		i += n
	}
	return b.String()
}

// secretAt returns how many bytes at the beginning of s are a secret; 0 when none are.
func secretAt(s string) int {
	if rest, ok := strings.CutPrefix(s, "whsec_"); ok {
		n := span(rest, isBase64)
		if n < minSecretRest {
			return 0
		}
		return len("whsec_") + n
	}
	if len(s) < 4 || s[0] != 'h' || s[1] != 'r' || strings.IndexByte("dkarcv", s[2]) < 0 || s[3] != '_' {
		return 0
	}
	n := span(s[4:], isHexOrLine)
	if n-strings.Count(s[4:4+n], "_") < minTokenRest {
		return 0
	}
	return 4 + n
}

func span(s string, in func(byte) bool) (n int) {
	for n < len(s) && in(s[n]) {
		n++
	}
	return n
}

func isHexOrLine(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func isBase64(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '+' || c == '/' || c == '=' || c == '-' || c == '_'
}
