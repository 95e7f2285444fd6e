package egress_test

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// reply is what the name server says to one question. A question for IPv4 addresses is told those among addrs, one for
// IPv6 the others.
type reply struct {
	rcode  dnsmessage.RCode
	cnames []string // the chain from the name that was asked to the owner of addrs
	addrs  []string
}

// nameServer answers over loopback UDP from a script: the nth question of a type about a name gets its nth reply, and the
// last one again after that. It fails the test when asked about a name that is not absolute or not in the script.
type nameServer struct {
	t      *testing.T
	conn   net.PacketConn
	script map[string][]reply

	mu    sync.Mutex // guards asked
	asked map[dnsmessage.Question]int
}

func newNameServer(t *testing.T, script map[string][]reply) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{t: t, conn: conn, script: script, asked: map[dnsmessage.Question]int{}}
	var served sync.WaitGroup
	served.Go(s.serve)
	t.Cleanup(func() { _ = conn.Close(); served.Wait() })
	return s
}

// Resolver is Go's own resolver, pointed at the server.
func (s *nameServer) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
}

// Asked returns how many questions there were about the IPv4 addresses of a name.
func (s *nameServer) Asked(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[dnsmessage.Question{Name: dnsmessage.MustNewName(name + "."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}]
}

func (s *nameServer) serve() {
	buf := make([]byte, 1232)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(buf[:n]); err != nil || len(m.Questions) != 1 {
			s.t.Errorf("name server: not a question: %v", err)
			return
		}
		s.answer(&m)
		packed, err := m.Pack()
		if err != nil {
			s.t.Errorf("name server: %v", err)
			return
		}
		_, _ = s.conn.WriteTo(packed, from) // a client that left needs no answer
	}
}

// answer turns a question into its answer.
func (s *nameServer) answer(m *dnsmessage.Message) {
	q := m.Questions[0]
	r := s.next(q)
	m.Response, m.RecursionAvailable, m.RCode = true, true, r.rcode
	m.Additionals = nil
	owner := q.Name
	add := func(body dnsmessage.ResourceBody) {
		header := dnsmessage.ResourceHeader{Name: owner, Class: dnsmessage.ClassINET} // TTL 0
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: body})
	}
	for _, cname := range r.cnames {
		target := dnsmessage.MustNewName(cname + ".")
		add(&dnsmessage.CNAMEResource{CNAME: target})
		owner = target
	}
	for _, text := range r.addrs {
		switch addr := netip.MustParseAddr(text); {
		case addr.Is4() && q.Type == dnsmessage.TypeA:
			add(&dnsmessage.AResource{A: addr.As4()})
		case addr.Is6() && q.Type == dnsmessage.TypeAAAA:
			add(&dnsmessage.AAAAResource{AAAA: addr.As16()})
		}
	}
}

func (s *nameServer) next(q dnsmessage.Question) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, absolute := strings.CutSuffix(q.Name.String(), ".")
	replies := s.script[name]
	if !absolute || len(replies) == 0 {
		s.t.Errorf("name server: asked about %q", q.Name)
		return reply{rcode: dnsmessage.RCodeRefused}
	}
	n := s.asked[q]
	s.asked[q]++
	return replies[min(n, len(replies)-1)]
}
