package egress

import (
	"encoding/binary"
	"net/netip"
)

// row is a range that no call may reach, and why.
type row struct {
	prefix netip.Prefix
	reason reason
}

// reason is why an address is not public, with the document that says so.
type reason string

func (r reason) Error() string { return string(r) }

// special4 is the IANA IPv4 special-purpose registry, and multicast, which has a registry of its own.
//
// Three rows (192.31.196.0/24, 192.52.193.0/24, 192.175.48.0/24) and two addresses of 192.0.0.0/24 are marked globally
// reachable there. They are refused all the same: the nearest node answers them, often one inside the operator's own
// network, and nobody's receiver lives there.
var special4 = []row{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network (RFC 791)"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private use (RFC 1918)"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared with a carrier's NAT (RFC 6598)"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback (RFC 1122)"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local, cloud metadata (RFC 3927)"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private use (RFC 1918)"},
	{netip.MustParsePrefix("192.0.0.0/24"), "protocol assignments (RFC 6890)"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation (RFC 5737)"},
	{netip.MustParsePrefix("192.31.196.0/24"), "AS112 sinks (RFC 7535)"},
	{netip.MustParsePrefix("192.52.193.0/24"), "multicast relays (RFC 7450)"},
	{netip.MustParsePrefix("192.88.99.0/24"), "former 6to4 relays (RFC 7526)"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private use (RFC 1918)"},
	{netip.MustParsePrefix("192.175.48.0/24"), "AS112 sinks (RFC 7534)"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarking (RFC 2544)"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation (RFC 5737)"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation (RFC 5737)"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast (RFC 5771)"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved, limited broadcast (RFC 1112, RFC 919)"},
}

// special6 is the IANA IPv6 special-purpose registry, and the ranges that embed an IPv4 address. Each row is found before
// the rule that refuses everything outside globalUnicast, so that the reason is the exact one.
var special6 = []row{
	{netip.MustParsePrefix("::/128"), "unspecified (RFC 4291)"},
	{netip.MustParsePrefix("::1/128"), "loopback (RFC 4291)"},
	{netip.MustParsePrefix("::/96"), "IPv4-compatible (RFC 4291)"},
	{netip.MustParsePrefix("::ffff:0:0/96"), "IPv4-mapped (RFC 4291)"},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), "IPv4-translated (RFC 2765)"},
	{nat64, "NAT64 (RFC 6052)"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "local NAT64 (RFC 8215)"},
	{netip.MustParsePrefix("100::/64"), "discard-only (RFC 6666)"},
	{netip.MustParsePrefix("100:0:0:1::/64"), "dummy prefix (RFC 9780)"},
	{netip.MustParsePrefix("2001::/32"), "Teredo (RFC 4380)"},
	{netip.MustParsePrefix("2001::/23"), "protocol assignments (RFC 2928)"},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation (RFC 3849)"},
	{netip.MustParsePrefix("2002::/16"), "6to4 (RFC 3056)"},
	{netip.MustParsePrefix("2620:4f:8000::/48"), "AS112 sinks (RFC 7534)"},
	{netip.MustParsePrefix("3fff::/20"), "documentation (RFC 9637)"},
	{netip.MustParsePrefix("5f00::/16"), "segment routing (RFC 9602)"},
	{netip.MustParsePrefix("fc00::/7"), "unique local (RFC 4193)"},
	{netip.MustParsePrefix("fe80::/10"), "link-local (RFC 4291)"},
	{netip.MustParsePrefix("fec0::/10"), "former site-local (RFC 3879)"},
	{netip.MustParsePrefix("ff00::/8"), "multicast (RFC 4291)"},
}

var (
	globalUnicast = netip.MustParsePrefix("2000::/3")
	nat64         = netip.MustParsePrefix("64:ff9b::/96")
)

// CheckAddr returns nil for an address that is globally reachable, and an [*Error] of kind NotPublic, with the reason as
// its cause, for any other. What counts are the IANA special-purpose registries. An IPv6 address that embeds an IPv4
// address in one of the known ways is refused whatever it embeds, and so is one with a zone.
func CheckAddr(addr netip.Addr) error {
	why := special(addr)
	if why == "" {
		return nil
	}
	return &Error{Kind: NotPublic, Host: addr.String(), Detail: "must name a public host", Err: why}
}

// special returns why addr is not globally reachable, or nothing when it is.
func special(addr netip.Addr) reason {
	if !addr.IsValid() {
		return "no address"
	}
	if addr.Zone() != "" {
		return "bound to a zone (RFC 4007)"
	}
	if addr.Is4() {
		return find(special4, addr)
	}
	if r := find(special6, addr); r != "" {
		return r
	}
	if !globalUnicast.Contains(addr) {
		return "outside global unicast (RFC 4291)"
	}
	if isISATAP(addr) {
		return "ISATAP (RFC 5214)"
	}
	return ""
}

func find(rows []row, addr netip.Addr) reason {
	for i := range rows {
		if rows[i].prefix.Contains(addr) {
			return rows[i].reason
		}
	}
	return ""
}

// isISATAP reports an interface identifier of the form 0:5efe:a.b.c.d or 200:5efe:a.b.c.d, which may stand under any
// prefix (RFC 5214, section 6.1).
func isISATAP(addr netip.Addr) bool {
	b := addr.As16()
	return binary.BigEndian.Uint32(b[8:])&^0x0200_0000 == 0x0000_5efe
}

// embedded4 returns the IPv4 address at the end of addr, where the well-known NAT64 prefix has it.
func embedded4(addr netip.Addr) netip.Addr {
	b := addr.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}
