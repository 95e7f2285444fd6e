package config

import (
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// set parses raw into the field. used is false for a number that is not positive: by the wire's contract such a number
// does not count and the earlier value stays. What is no number at all is an error.
func (s setting) set(c *Config, raw string) (used bool, err error) {
	value, used, err := parsers[s.as](s, raw)
	if err != nil || !used {
		return used, err
	}
	field := reflect.ValueOf(c).Elem().Field(s.index)
	field.Set(reflect.ValueOf(value).Convert(field.Type()))
	return true, nil
}

// parsers by the name that a field's tag gives. Each returns a value that converts to the field's type.
var parsers = map[string]func(s setting, raw string) (value any, used bool, err error){
	"path":     always(parsePath),
	"address":  always(parseAddress),
	"private":  always(parsePrivate),
	"origin":   always(parseOrigin),
	"host":     always(parseHostName),
	"hosts":    always(parseHosts),
	"prefixes": always(parsePrefixes),
	"duration": always(parseDuration),
	"level":    always(parseLevel),
	"bool":     always(parseBool),
	"database": always(parseDatabase),
	"token":    always(parseToken),
	"choice":   parseChoice,
	"secret":   parseSecret,
	"count":    parseCount,
	"hours":    parseHours,
}

func always[T any](parse func(string) (T, error)) func(setting, string) (any, bool, error) {
	return func(_ setting, raw string) (any, bool, error) {
		v, err := parse(raw)
		return v, true, err
	}
}

func parsePath(raw string) (string, error) {
	path, err := filepath.Abs(raw)
	if err != nil {
		return "", wrong(quote(raw)+" is no path: "+err.Error(), "write an absolute path")
	}
	return path, nil
}

func parseAddress(raw string) (string, error) {
	host, port, err := net.SplitHostPort(raw)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || strings.ContainsAny(host, " /@") {
		return "", wrong(quote(raw)+" is not an address and port", "write it like 127.0.0.1:8787, [::1]:8787 or :8787")
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
}

func parsePrivate(raw string) (string, error) {
	if strings.EqualFold(raw, "off") {
		return "", nil
	}
	return parseAddress(raw)
}

func parseOrigin(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return "", wrong(quote(raw)+" is not a web address", "write it like https://relay.example")
	}
	if u.User != nil || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.ForceQuery || strings.Contains(raw, "#") {
		return "", wrong("it says more than an origin does", "leave only scheme, host and port: "+u.Scheme+"://"+u.Host)
	}
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if _, bad := strconv.ParseUint(port, 10, 16); port != "" && bad != nil {
		return "", wrong(quote(raw)+" has no valid port", "write it like https://relay.example:8443")
	}
	if _, err := netip.ParseAddr(host); err != nil && !validHostName(host) {
		return "", wrong(quote(host)+" is not a host name", "write international names in their xn-- form")
	}
	if u.Scheme != "https" && !loopbackHost(host) {
		return "", wrong("a public origin must be https", "write https://"+u.Host+" and let a proxy or HERALD_TLS_DOMAIN speak TLS")
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port != "" && port != defaultPort(u.Scheme) {
		host += ":" + port
	}
	return u.Scheme + "://" + host, nil
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

func parseHostName(raw string) (string, error) {
	names, err := publicHosts(raw)
	if err != nil || len(names) != 1 || !validHostName(names[0]) {
		return "", wrong(quote(raw)+" is not a public host name", "write a name such as relay.example, without scheme, port or path")
	}
	if _, err := netip.ParseAddr(names[0]); err == nil {
		return "", wrong(quote(raw)+" is an address", "certificates are for names: write one such as relay.example")
	}
	return names[0], nil
}

func parseHosts(raw string) (hosts []string, err error) {
	for entry := range strings.SplitSeq(raw, ",") {
		names, err := publicHosts(entry)
		if err != nil {
			return nil, wrong(quote(strings.TrimSpace(entry))+" is not a public host",
				"list host names such as hooks.example or public IP addresses; no scheme, port, path or wildcard")
		}
		hosts = append(hosts, names...)
	}
	return hosts, nil
}

func parsePrefixes(raw string) (list []netip.Prefix, err error) {
	for entry := range strings.SplitSeq(raw, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		p, err := netip.ParsePrefix(entry)
		if addr, bad := netip.ParseAddr(entry); bad == nil && addr.Zone() == "" {
			p, err = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
		}
		switch {
		case err != nil || p.Addr().Is4In6():
			return nil, wrong(quote(entry)+" is not an address or range", "write entries like 10.0.0.7 or 10.0.0.0/8, separated by commas")
		case p.Bits() == 0:
			return nil, wrong(quote(entry)+" would trust every address", "list only the addresses of your own proxies")
		}
		list = append(list, p.Masked())
	}
	return list, nil
}

func parseDuration(raw string) (time.Duration, error) {
	d, err := time.ParseDuration(raw)
	if err != nil || d < 0 || d > time.Hour {
		return 0, wrong(quote(raw)+" is not a time between 0s and 1h", "write a number with its unit, such as 10s or 2m")
	}
	return d, nil
}

func parseLevel(raw string) (level slog.Level, err error) {
	if level.UnmarshalText([]byte(raw)) != nil {
		return 0, wrong(quote(raw)+" is not a level", "write debug, info, warn or error")
	}
	return level, nil
}

func parseBool(raw string) (bool, error) {
	v, err := strconv.ParseBool(strings.ToLower(raw))
	if err != nil {
		return false, wrong(quote(raw)+" is neither true nor false", "write true or false")
	}
	return v, nil
}

// parseDatabase checks the shape only and never repeats the URL, which may hold a password.
func parseDatabase(raw string) (Secret, error) {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") || u.Opaque != "" {
		return "", wrong("it is not the URL of a PostgreSQL database",
			"write postgres://user:password@host:5432/name, with special characters of the password percent-encoded, or leave it out for the embedded database")
	}
	return Secret(raw), nil
}

func parseToken(raw string) (string, error) {
	if len(raw) > 128 || strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", wrong(quote(raw)+" is not a short word", "use at most 128 printable characters without blanks")
	}
	return raw, nil
}

func parseChoice(s setting, raw string) (any, bool, error) {
	for choice := range strings.FieldsSeq(s.of) {
		if strings.EqualFold(raw, choice) {
			return choice, true, nil
		}
	}
	return nil, true, wrong(quote(raw)+" is not one of its values", "write one of: "+strings.Join(strings.Fields(s.of), ", "))
}

func parseSecret(s setting, raw string) (any, bool, error) {
	switch {
	case len(raw) < s.min:
		return nil, true, wrong("it is shorter than "+strconv.Itoa(s.min)+" characters", "make one with: openssl rand -hex 32")
	case strings.ContainsFunc(raw, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return nil, true, wrong("it holds control characters", "make one with: openssl rand -hex 32")
	}
	return Secret(raw), true, nil
}

func parseCount(s setting, raw string) (any, bool, error) {
	n, err := strconv.ParseInt(raw, 10, 64)
	if err != nil || n > s.max {
		return nil, true, wrong(quote(raw)+" is not a whole number up to "+strconv.FormatInt(s.max, 10), "write digits only, without unit")
	}
	return n, n > 0, nil
}

func parseHours(s setting, raw string) (any, bool, error) {
	h, err := strconv.ParseFloat(raw, 64)
	if err != nil || math.IsNaN(h) || h > float64(s.max) {
		return nil, true, wrong(quote(raw)+" is not a number of hours up to "+strconv.FormatInt(s.max, 10), "write a number without unit, such as 24 or 0.5")
	}
	d := time.Duration(max(h, 0) * float64(time.Hour)).Round(time.Millisecond)
	return d, d > 0, nil
}
