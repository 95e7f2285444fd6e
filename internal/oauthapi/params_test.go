package oauthapi

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func FuzzReadParams(f *testing.F) {
	for _, s := range []string{"a=1&b=2", "a=1&a=2", "resource=x&resource=y", "%zz", "a;b", "a=&a=1", "=", "&&&", "=0&=00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		p, err := readParams(raw)
		if err != nil {
			return
		}
		for name, list := range p.values {
			if len(list) == 0 || list[0] == "" {
				t.Errorf("%q keeps an empty %q", raw, name)
			}
			if len(list) > 1 && name != repeatable && !p.repeats() {
				t.Errorf("%q repeats %q unnoticed", raw, name)
			}
		}
		_ = checkResource(p, "https://r.example")
		deviceNumber(p)
	})
}

func FuzzProof(f *testing.F) {
	f.Add("Basic aWQ6c2VjcmV0", "client_id=id")
	f.Add("Bearer x", "client_secret=")
	f.Add("Basic JTp6", "client_id=x&client_secret=y")
	f.Fuzz(func(t *testing.T, header, body string) {
		p, err := readParams(body)
		if err != nil {
			return
		}
		r := &http.Request{Header: http.Header{"Authorization": {header}}}
		claim, err := proof(r, p)
		if err == nil && header != "" && !claim.Sent {
			t.Errorf("%q with %q proves nothing and is taken", header, body)
		}
	})
}

func TestResourcesAreComparedWithOurs(t *testing.T) {
	t.Parallel()
	const origin = "https://r.example"
	for resource, ok := range map[string]bool{
		"": true, "https://r.example/mcp": true, "https://r.example/mcp/": true, "HTTPS://R.example/mcp": true, "https://r.example/MCP": false, "https://r.example": false,
		"https://r.example/mcp/x": false, "https://r.example//mcp": false, "http://r.example/mcp": false, "https://r.example.evil/mcp": false, "https://r.example:443/mcp": false,
		"/mcp": false, "https://evil.example/?x=https://r.example/mcp": false,
	} {
		p, err := readParams(url.Values{"resource": {resource}}.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if got := checkResource(p, origin) == nil; got != ok {
			t.Errorf("resource %q is taken: %v", resource, got)
		}
	}
	if !strings.HasPrefix(documentation, "https://") {
		t.Error("the documentation is not an address")
	}
}
