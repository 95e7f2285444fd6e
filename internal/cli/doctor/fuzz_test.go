package doctor

import (
	"net/http"
	"strings"
	"testing"
	"unicode"
)

func FuzzWhatStrangersAnswer(f *testing.F) {
	f.Add(401, "Bearer resource_metadata=\"https://relay.example\"", "application/json", `{"error":"unauthorized"}`)
	f.Add(302, "https://else.example/\x1b[31m", "text/html; charset", "<html>")
	f.Add(200, "*, *", "", `{"error":{"code":-32601,"message":"\u001b[2J"},"result":{"tools":[{"name":1}]}}`)
	f.Fuzz(func(t *testing.T, status int, header, kind, body string) {
		a := answer{status: status, header: http.Header{"Content-Type": {kind}, "Location": {header}, "Www-Authenticate": {header},
			"Access-Control-Allow-Origin": {header}, "Server": {header}}, body: []byte(body)}
		var out rpcAnswer
		a.read(&out)
		r := &Report{}
		r.fail("check", a.String()+a.code()+out.says()+allows(a.header)+proxyOf(a.header), header)
		if challenges(header) && metadataIn.FindStringSubmatch(header) == nil {
			t.Errorf("%q challenges without metadata", header)
		}
		for _, text := range []string{r.Findings[0].Seen, r.Findings[0].Fix} {
			if strings.ContainsFunc(text, unicode.IsControl) {
				t.Errorf("a finding commands the terminal: %q", text)
			}
		}
	})
}
