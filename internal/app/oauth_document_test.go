package app_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/herald-relay/herald/internal/testkit"
)

// shelf serves descriptions of clients instead of the Internet.
type shelf struct {
	mu     sync.Mutex // guards the rest
	pages  map[string]*http.Response
	bodies map[string]string
	asked  []string
	accept string
}

func (s *shelf) put(address, body string, header ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pages == nil {
		s.pages, s.bodies = map[string]*http.Response{}, map[string]string{}
	}
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	s.pages[address], s.bodies[address] = &http.Response{StatusCode: 200, Header: h}, body
}

// RoundTrip implements http.RoundTripper.
func (s *shelf) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	address := req.URL.String()
	s.asked, s.accept = append(s.asked, address), req.Header.Get("Accept")
	page := s.pages[address]
	if page == nil {
		return nil, fmt.Errorf("dial %s: connection refused", address)
	}
	answer := *page
	answer.Request, answer.Body = req, io.NopCloser(strings.NewReader(s.bodies[address]))
	return &answer, nil
}

func (s *shelf) reads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

func (s *shelf) client() *http.Client {
	return &http.Client{Transport: s, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

const documentID = "https://editor.example/oauth/client.json"

func documentOf(id string) string {
	return `{"client_id":"` + id + `","client_name":"Editor","redirect_uris":["http://127.0.0.1:33418/","` + redirectURI + `"],"token_endpoint_auth_method":"none","logo_uri":"x"}`
}

func described(r *testkit.Relay, id string) *connector {
	return &connector{Relay: r, id: id, redirect: redirectURI, http: stay(r.HTTP)}
}

func TestAClientMayDescribeItselfInADocument(t *testing.T) {
	testkit.Stores(t, func(t *testing.T, o testkit.Options) {
		s := &shelf{}
		s.put(documentID, documentOf(documentID))
		o.Documents = s.client()
		r := testkit.New(t, o)
		d := r.Pair("Mac")
		c := described(r, documentID)
		p := c.browse(t, "GET", "/authorize", c.asks())
		rid := p.rid(t)
		if !strings.Contains(string(p.Raw), "editor.example") || !strings.Contains(string(p.Raw), "Editor") {
			t.Errorf("the page does not say where the description comes from: %s", p.Raw)
		}
		held := c.exchange(t, approved(t, d, rid))
		if !works(r, held.access) || c.refresh(t, held.refresh).Status != 200 {
			t.Error("its tokens do not work")
		}
		c.authorize(t, "redirect_uri", "http://127.0.0.1:50001/", "state", "loopback")
		if n := s.reads(); n != 1 || s.accept != "application/json" {
			t.Errorf("read %d times with Accept %q", n, s.accept)
		}
		if a := consents(d)[0]; a["clientId"] != documentID {
			t.Errorf("%v", a)
		}
		if a := c.beginDevice(t); a.Status != 200 {
			t.Errorf("the device flow: %d %s", a.Status, a.Raw)
		}
		if a := c.post(t, "/revoke", values(nil, "client_id", documentID, "token", held.refresh)); a.Status != 200 || works(r, held.access) {
			t.Errorf("revoke: %d %s", a.Status, a.Raw)
		}
	})
}

func TestDescriptionsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := &shelf{}
	r := testkit.New(t, testkit.Options{Documents: s.client()})
	d := r.Pair("Mac")
	at := func(name string) string { return "https://editor.example/" + name }
	edit := func(id, old, replacement string) string { return strings.Replace(documentOf(id), old, replacement, 1) }
	s.put(at("html"), documentOf(at("html")), "Content-Type", "text/html")
	s.put(at("other"), documentOf(at("html")))
	s.put(at("nothing"), "")
	s.put(at("array"), "[]")
	s.put(at("noid"), `{"redirect_uris":["`+redirectURI+`"]}`)
	s.put(at("twice"), edit(at("twice"), "{", `{"client_id":"`+at("twice")+`",`))
	s.put(at("secret"), edit(at("secret"), `"none"`, `"none","client_secret":"x"`))
	s.put(at("post"), edit(at("post"), `"none"`, `"client_secret_post"`))
	s.put(at("redirects"), edit(at("redirects"), redirectURI, "javascript:alert(1)"))
	s.put(at("none"), edit(at("none"), `"redirect_uris":["http://127.0.0.1:33418/","`+redirectURI+`"],`, ""))
	s.put(at("long"), documentOf(at("long"))+strings.Repeat(" ", 64<<10))
	s.put(at("moved"), documentOf(at("moved")))
	s.pages[at("moved")].StatusCode = 302
	s.put(at("gone"), documentOf(at("gone")))
	s.pages[at("gone")].StatusCode = 404
	for name := range s.pages {
		c := described(r, name)
		if p := c.browse(t, "GET", "/authorize", c.asks()); p.Status != 400 || p.location != nil {
			t.Errorf("%s: %d to %v", name, p.Status, p.location)
		}
		if a := c.beginDevice(t); a.Status != 401 || a.Code() != "invalid_client" {
			t.Errorf("%s, device flow: %d %s", name, a.Status, a.Raw)
		}
	}
	if n := len(consents(d)); n != 0 {
		t.Errorf("%d requests were begun", n)
	}
}

func TestAddressesThatAreNoClientAreNotCalled(t *testing.T) {
	t.Parallel()
	s := &shelf{}
	r := testkit.New(t, testkit.Options{Documents: s.client()})
	r.Pair("Mac")
	for _, id := range []string{
		"http://editor.example/c.json", "https://editor.example", "https://editor.example/", "https:///c.json", "https://u@editor.example/c.json",
		"https://editor.example/c.json?x=1", "https://editor.example/c.json?", "https://editor.example/c.json#x", "https://editor.example/a/../c.json",
		"https://editor.example/./c.json", "https://editor.example/%2e%2e/c.json", "https://editor.example/c json", "HTTPS://editor.example/c.json",
		"https://editor.example/" + strings.Repeat("c", 500), "https://editor.example/ü", "//editor.example/c.json",
	} {
		c := described(r, id)
		if p := c.browse(t, "GET", "/authorize", c.asks()); p.Status != 400 || p.location != nil {
			t.Errorf("%s: %d", id, p.Status)
		}
	}
	if n := s.reads(); n != 0 {
		t.Errorf("called %v", s.asked)
	}
	// A token request never calls out.
	c := described(r, documentID)
	if a := c.refresh(t, "hrr_x"); a.Status != 401 || s.reads() != 0 {
		t.Errorf("%d %s, %d reads", a.Status, a.Raw, s.reads())
	}
}

func TestTheAddressGuardKeepsDescriptionsOutside(t *testing.T) {
	t.Parallel()
	r := testkit.New(t, testkit.Options{}) // the real client
	r.Pair("Mac")
	for _, id := range []string{"https://127.0.0.1/c.json", "https://localhost/c.json", "https://169.254.169.254/c.json", "https://[::1]/c.json", "https://10.0.0.1:8443/c.json"} {
		c := described(r, id)
		if p := c.browse(t, "GET", "/authorize", c.asks()); p.Status != 400 || p.location != nil {
			t.Errorf("%s: %d", id, p.Status)
		}
	}
}

func TestADescriptionIsReadAgainWhenItIsStale(t *testing.T) {
	testkit.OnSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		r := testkit.New(t, testkit.Options{Pipes: true, Documents: s.client()})
		r.Pair("Mac")
		c := described(r, documentID)
		for header, keeps := range map[string]time.Duration{
			"max-age=600": 10 * time.Minute, "max-age=1": 5 * time.Minute, "no-store": 5 * time.Minute, "public, max-age=999999999": 24 * time.Hour,
			"": time.Hour, "max-age=junk": 5 * time.Minute, "max-age=99999999999999999999": 5 * time.Minute,
		} {
			s.put(documentID, documentOf(documentID), "Cache-Control", header)
			c.authorize(t)
			before := s.reads()
			time.Sleep(keeps - time.Second)
			c.authorize(t)
			if s.reads() != before {
				t.Errorf("%q: read again before %v", header, keeps)
			}
			time.Sleep(2 * time.Second)
			c.authorize(t)
			if s.reads() != before+1 {
				t.Errorf("%q: not read again after %v", header, keeps)
			}
			time.Sleep(25 * time.Hour)
		}
		s.put(documentID, strings.Replace(documentOf(documentID), redirectURI, "https://elsewhere.example/cb", 1))
		time.Sleep(25 * time.Hour)
		if p := c.browse(t, "GET", "/authorize", c.asks()); p.Status != 400 {
			t.Errorf("an address that the description no longer holds: %d", p.Status)
		}
	})
}

func TestReadingDescriptionsIsBoundedByAddress(t *testing.T) {
	t.Parallel()
	s := &shelf{}
	r := testkit.New(t, testkit.Options{Documents: s.client()})
	r.Pair("Mac")
	for i := range 61 {
		c := described(r, fmt.Sprintf("https://editor.example/%d", i))
		p := c.browse(t, "GET", "/authorize", c.asks())
		if want := map[bool]int{true: 400, false: 429}[i < 60]; p.Status != want {
			t.Fatalf("description %d: %d, want %d", i+1, p.Status, want)
		}
	}
	if n := s.reads(); n != 60 {
		t.Errorf("called %d times", n)
	}
}
