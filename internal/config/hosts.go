package config

import (
	"net"
	"net/netip"
	"strings"
)

// normalHost trims a host, lowers it and drops one trailing dot (decision 37).
func normalHost(s string) string {
	return strings.TrimSuffix(strings.ToLower(strings.TrimSpace(s)), ".")
}

// publicHost accepts what an event subscription may ever call: a public host name or a globally reachable IP address.
func publicHost(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return publicAddress(addr)
	}
	return publicHostName(host)
}

// publicHostName follows the contract's section 5.4: a dot, and none of the names that stay inside a network.
func publicHostName(host string) bool {
	if !validHostName(host) || !strings.Contains(host, ".") {
		return false
	}
	for _, inner := range []string{"local", "localhost", "internal", "home.arpa"} {
		if host == inner || strings.HasSuffix(host, "."+inner) {
			return false
		}
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	return strings.Trim(last, "0123456789") != "" // "1.2.3" is no name, and no address either
}

// validHostName accepts labels of letters, digits and inner hyphens (RFC 1123), up to 253 characters. Underscores pass in
// no label.
func validHostName(host string) bool {
	if host == "" || len(host) > 253 {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			c := label[i]
			if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
				return false
			}
		}
	}
	return true
}

// notGlobal are the special-purpose ranges of the IANA registries that netip's own questions do not cover, and the IPv6
// forms that embed an IPv4 address.
var notGlobal = prefixes("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "::/16", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23",
	"2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10")

func prefixes(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func publicAddress(addr netip.Addr) bool {
	if !addr.IsGlobalUnicast() || addr.IsPrivate() || addr.Zone() != "" {
		return false
	}
	for _, p := range notGlobal {
		if p.Contains(addr) {
			return false
		}
	}
	return true
}

// loopbackHost accepts names and addresses that mean this machine.
func loopbackHost(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// loopbackAddress reports whether a listener on address is reachable from this machine only.
func loopbackAddress(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && loopbackHost(strings.ToLower(host))
}
