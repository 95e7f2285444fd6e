package npm

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/herald-relay/herald/internal/egress"
)

// agentHost is where the agent's receiver is, for servers under test.
const agentHost = "agent.example.com"

// agentAddr is a public address that agentHost resolves to; nothing is ever sent there.
var agentAddr = netip.MustParseAddr("93.184.216.34")

// outside is an Internet of one host: the guard that production uses, with all its rules, resolves agentHost to a public
// address and dials a port on loopback in its place.
type outside struct {
	port int // of the receiver; set before the first call
	cert certificate
}

// LookupNetIP resolves agentHost.
func (o *outside) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if host != agentHost+"." {
		return nil, &net.DNSError{Name: host, IsNotFound: true}
	}
	return []netip.Addr{agentAddr}, nil
}

// dial is given addresses that passed all checks.
func (o *outside) dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	if addr != netip.AddrPortFrom(agentAddr, 443) {
		return nil, fmt.Errorf("nothing is at %s", addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", o.port))
}

func (o *outside) guard() *egress.Guard {
	return egress.New(&egress.Options{Resolver: o, Dial: o.dial, RootCAs: o.cert.pool})
}

// certificate is one for agentHost that only this test trusts.
type certificate struct {
	Cert string `json:"cert"`
	Key  string `json:"key"`
	pool *x509.CertPool
}

func newCertificate(t *testing.T) certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{agentHost},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	c := certificate{pool: x509.NewCertPool(),
		Cert: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		Key:  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))}
	c.pool.AddCert(parsed)
	return c
}
