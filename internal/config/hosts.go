package config

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/herald-relay/herald/internal/egress"
)

// publicHosts reads one entry of a list of hosts in the guard's own way, so that what passes here is what may be called
// later. A blank entry yields nothing.
func publicHosts(entry string) ([]string, error) {
	list, err := egress.ParseAllowlist([]string{entry})
	return slices.Sorted(maps.Keys(list)), err
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
