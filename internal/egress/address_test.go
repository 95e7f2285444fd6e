package egress_test

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"code.dny.dev/ssrf"

	"github.com/herald-relay/herald/internal/egress"
)

// notPublic are the first and last addresses of every range that is refused, and a word of the reason. Everything outside
// them is public.
var notPublic = []struct{ first, last, reason string }{
	{"0.0.0.0", "0.255.255.255", "this network"},
	{"10.0.0.0", "10.255.255.255", "private"},
	{"100.64.0.0", "100.127.255.255", "carrier"},
	{"127.0.0.0", "127.255.255.255", "loopback"},
	{"169.254.0.0", "169.254.255.255", "link-local"},
	{"172.16.0.0", "172.31.255.255", "private"},
	{"192.0.0.0", "192.0.0.255", "protocol"},
	{"192.0.2.0", "192.0.2.255", "documentation"},
	{"192.31.196.0", "192.31.196.255", "AS112"},
	{"192.52.193.0", "192.52.193.255", "multicast relays"},
	{"192.88.99.0", "192.88.99.255", "6to4"},
	{"192.168.0.0", "192.168.255.255", "private"},
	{"192.175.48.0", "192.175.48.255", "AS112"},
	{"198.18.0.0", "198.19.255.255", "benchmarking"},
	{"198.51.100.0", "198.51.100.255", "documentation"},
	{"203.0.113.0", "203.0.113.255", "documentation"},
	{"224.0.0.0", "239.255.255.255", "multicast"},
	{"240.0.0.0", "255.255.255.255", "reserved"},

	{"::", "::", "unspecified"},
	{"::1", "::1", "loopback"},
	{"::2", "::ffff:ffff", "compatible"},
	{"::1:0:0", "::fffe:ffff:ffff", "outside"},
	{"::ffff:0:0", "::ffff:ffff:ffff", "mapped"},
	{"::ffff:0:0:0", "::ffff:0:ffff:ffff", "translated"},
	{"::1:0:0:0", "::fffe:ffff:ffff:ffff", "outside"},
	{"::ffff:1:0:0", "64:ff9a:ffff:ffff:ffff:ffff:ffff:ffff", "outside"},
	{"64:ff9b::", "64:ff9b::ffff:ffff", "NAT64"},
	{"64:ff9b::1:0:0", "64:ff9b:0:ffff:ffff:ffff:ffff:ffff", "outside"},
	{"64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "local NAT64"},
	{"64:ff9b:2::", "ff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "outside"},
	{"100::", "100::ffff:ffff:ffff:ffff", "discard"},
	{"100:0:0:1::", "100:0:0:1:ffff:ffff:ffff:ffff", "dummy"},
	{"100:0:0:2::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "outside"},
	{"2001::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff", "Teredo"},
	{"2001:1::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "protocol"},
	{"2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "documentation"},
	{"2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "6to4"},
	{"2620:4f:8000::", "2620:4f:8000:ffff:ffff:ffff:ffff:ffff", "AS112"},
	{"3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "documentation"},
	{"4000::", "5eff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "outside"},
	{"5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "segment"},
	{"5f01::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "outside"},
	{"fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "unique local"},
	{"fe00::", "fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "outside"},
	{"fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "link-local"},
	{"fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "site-local"},
	{"ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "multicast"},

	{"2606:4700::5efe:0:0", "2606:4700::5efe:ffff:ffff", "ISATAP"},
	{"2606:4700::200:5efe:0:0", "2606:4700::200:5efe:ffff:ffff", "ISATAP"},
}

func TestCheckAddrAtTheEdges(t *testing.T) {
	for _, row := range notPublic {
		first, last := netip.MustParseAddr(row.first), netip.MustParseAddr(row.last)
		for _, addr := range []netip.Addr{first, between(first, last), last} {
			err := egress.CheckAddr(addr)
			e, ok := errors.AsType[*egress.Error](err)
			if !ok || e.Kind != egress.NotPublic || e.Host != addr.String() || !strings.Contains(e.Err.Error(), row.reason) {
				t.Errorf("CheckAddr(%v) = %v, want it not public, with %q in the reason", addr, err, row.reason)
			}
		}
		for _, addr := range []netip.Addr{first.Prev(), last.Next()} {
			if err := egress.CheckAddr(addr); err != nil && addr.IsValid() && !isListed(addr) {
				t.Errorf("CheckAddr(%v), next to %s-%s: %v, want it public", addr, row.first, row.last, err)
			}
		}
	}
}

func isListed(addr netip.Addr) bool {
	for _, row := range notPublic {
		first, last := netip.MustParseAddr(row.first), netip.MustParseAddr(row.last)
		if addr.BitLen() == first.BitLen() && !addr.Less(first) && !last.Less(addr) {
			return true
		}
	}
	return false
}

// between returns an address from first to last that shares its upper half with first.
func between(first, last netip.Addr) netip.Addr {
	b := first.AsSlice()
	copy(b[len(b)-len(b)/2:], last.AsSlice()[len(b)-len(b)/2:])
	b[len(b)-1] &^= 1
	addr, _ := netip.AddrFromSlice(b)
	if addr.Less(first) || last.Less(addr) {
		return first
	}
	return addr
}

func TestCheckAddrRefusesWhatIsNoPlainAddress(t *testing.T) {
	for addr, why := range map[netip.Addr]string{{}: "no address", netip.MustParseAddr("2606:4700::1111%eth0"): "zone", netip.MustParseAddr("fe80::1%1"): "zone"} {
		if err := egress.CheckAddr(addr); egress.KindOf(err) != egress.NotPublic || !strings.Contains(err.Error(), why) {
			t.Errorf("CheckAddr(%v) = %v, want it not public, with %q in the reason", addr, err, why)
		}
	}
}

// secondOpinion is an independent list. It agrees except that it lets ISATAP under a public prefix pass, which embeds an
// IPv4 address and which decision 12 therefore refuses.
var secondOpinion = ssrf.New(ssrf.WithAnyPort())

func agrees(t *testing.T, addr netip.Addr) {
	t.Helper()
	ours, theirs := egress.CheckAddr(addr), secondOpinion.SafeAddr(addr)
	isatap := ours != nil && strings.Contains(ours.Error(), "ISATAP")
	if (ours == nil) != (theirs == nil) && !isatap {
		t.Errorf("%v: we say %v, the second opinion %v", addr, ours, theirs)
	}
}

func TestSecondOpinionAgrees(t *testing.T) {
	for _, prefix := range append(append([]netip.Prefix{ssrf.IPv6GlobalUnicast, ssrf.IPv6NAT64Prefix}, ssrf.IPv4DeniedPrefixes...), ssrf.IPv6DeniedPrefixes...) {
		for addr, n := prefix.Masked().Addr(), 0; n < 3; addr, n = addr.Next(), n+1 {
			agrees(t, addr)
		}
		if before := prefix.Masked().Addr().Prev(); before.IsValid() {
			agrees(t, before)
		}
	}
	for _, row := range notPublic {
		for _, text := range []string{row.first, row.last} {
			for _, addr := range []netip.Addr{netip.MustParseAddr(text), netip.MustParseAddr(text).Prev(), netip.MustParseAddr(text).Next()} {
				if addr.IsValid() {
					agrees(t, addr)
				}
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		agrees(t, randomAddr(random))
	}
}

// randomAddr is an IPv4 address, an IPv6 address, or one of 2000::/3 or near a special range, where the verdicts part.
func randomAddr(r *rand.Rand) netip.Addr {
	var b [16]byte
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	switch r.IntN(4) {
	case 0:
		return netip.AddrFrom4([4]byte(b[:]))
	case 1:
		return netip.AddrFrom16(b)
	case 2:
		b[0] = 0x20 | b[0]&0x1f
		return netip.AddrFrom16(b)
	default:
		near := netip.MustParseAddr(notPublic[r.IntN(len(notPublic))].first).AsSlice()
		near[r.IntN(len(near))] ^= 1 << r.IntN(8)
		addr, _ := netip.AddrFromSlice(near)
		return addr
	}
}
