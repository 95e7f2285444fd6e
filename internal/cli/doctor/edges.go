package doctor

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// errorPages asks for what is not there: clients read why they were refused.
func (x *outside) errorPages(ctx context.Context) {
	a := x.ask(ctx, question{method: "GET", path: "/v1/doctor/nothing"})
	if a.code() != "" {
		x.pass("error pages", "refusals arrive as the relay wrote them")
		return
	}
	x.fail("error pages", "a refusal of the relay arrives as "+a.String(), x.fix(advice{
		general: "let the proxy pass the relay's own refusals, which clients read, and add no pages in their place",
		nginx:   "proxy_intercept_errors off; and no error_page", caddy: "no handle_errors for this host", cloudflare: "no custom error pages for this host",
	}))
}

// pagesReplaced says that bodies of refusals prove nothing.
func (x *outside) pagesReplaced() bool { return x.failed("error pages") }

// metadata is what the discovery documents say that clients compare.
type metadata struct {
	Resource   string   `json:"resource"`
	Servers    []string `json:"authorization_servers"`
	Issuer     string   `json:"issuer"`
	Authorize  string   `json:"authorization_endpoint"`
	Token      string   `json:"token_endpoint"`
	Register   string   `json:"registration_endpoint"`
	Challenges []string `json:"code_challenge_methods_supported"`
}

var documents = []string{
	"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp",
	"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration",
}

// discovery reads every document that some client looks for first.
func (x *outside) discovery(ctx context.Context) {
	var missing []string
	for _, path := range documents {
		a := x.ask(ctx, question{method: "GET", path: path})
		var m metadata
		switch {
		case a.status != http.StatusOK || !a.read(&m) || m.Resource == "" && m.Issuer == "":
			missing = append(missing, path+" answers "+a.String())
		case m.Issuer != "" && (!slices.Contains(m.Challenges, "S256") || m.Token == "" || m.Authorize == "" || m.Register == ""):
			missing = append(missing, path+" lacks endpoints or S256")
		case m.Issuer != "":
			x.called(path+" issuer", m.Issuer, x.address)
			x.called(path+" token_endpoint", m.Token, x.address+"/token")
		default:
			x.called(path+" resource", m.Resource, x.address+"/mcp")
			x.called(path+" authorization_servers", strings.Join(m.Servers, " "), x.address)
		}
	}
	for _, path := range elsewhere {
		if a := x.ask(ctx, question{method: "GET", path: path}); a.status != http.StatusNotFound && (a.status != http.StatusOK || !a.object()) {
			missing = append(missing, path+" answers "+a.String()+" rather than 404")
		}
	}
	if len(missing) == 0 {
		x.pass("discovery", "all four documents are where clients look")
		return
	}
	x.fail("discovery", strings.Join(missing, "; "), x.fix(advice{
		general: "pass /.well-known/oauth-protected-resource, /.well-known/oauth-protected-resource/mcp, /.well-known/oauth-authorization-server and /.well-known/openid-configuration to the relay, without a login in front",
		nginx:   "a location for /.well-known/ or for dot files takes them away; only /.well-known/acme-challenge/ is not the relay's",
	}))
}

// elsewhere are places where some clients look too. They may be empty, but not shut, and not a page.
var elsewhere = []string{"/.well-known/oauth-authorization-server/mcp", "/.well-known/openid-configuration/mcp"}

func (x *outside) called(where, got, want string) { x.names = append(x.names, named{where, got, want}) }

// origin judges by which name the relay knows itself. Clients compare it to the address they were given and refuse others.
func (x *outside) origin(context.Context) {
	if len(x.names) == 0 {
		x.note("origin", "nothing was found that names the relay")
		return
	}
	for _, n := range x.names {
		if n.got == n.want {
			continue
		}
		seen := fmt.Sprintf("%s is %s, and clients of %s expect %s", n.where, n.got, x.address, n.want)
		fix := x.fix(advice{
			general: "start the relay with --origin " + x.address + ", or have the proxy keep the Host header and list it in HERALD_TRUSTED_PROXIES",
			nginx:   "proxy_set_header Host $host; proxy_set_header X-Forwarded-Proto $scheme;",
		})
		if x.Public {
			x.fail("origin", seen, fix)
		} else {
			x.warn("origin", seen, fix)
		}
		return
	}
	x.pass("origin", "every document calls the relay "+x.address)
}

// registration sends what every relay must refuse, so that nothing is registered.
func (x *outside) registration(ctx context.Context) {
	a := x.ask(ctx, question{method: "POST", path: "/register", header: map[string]string{"Content-Type": "application/json"},
		body: `{"client_name":"herald doctor","redirect_uris":[]}`})
	switch code := a.code(); {
	case code == "invalid_redirect_uri" || code == "invalid_client_metadata",
		a.status == http.StatusBadRequest && x.pagesReplaced():
		x.pass("registration", "clients may register")
	case code == "rate_limited":
		x.note("registration", "too many clients registered within the hour")
	default:
		x.fail("registration", "POST /register answers "+a.String(), x.fix(advice{general: "pass POST /register with its body to the relay", cloudflare: "let no challenge or bot rule stand in front of it"}))
	}
}

// The bounds of what the largest callers send: a notification with a picture, and a voice clip.
const largestBody = 1 << 20

// bodySize announces a body of the largest size that is ever sent, with a credential that the relay refuses before it reads.
func (x *outside) bodySize(ctx context.Context) {
	a := x.ask(ctx, question{method: "PUT", path: "/v1/device/reply/r_000000000000000000000000/audio", token: "hrd_doctor", expect: true,
		header: map[string]string{"Content-Type": "audio/mp4"}, body: strings.Repeat("x", largestBody)})
	switch {
	case a.status == http.StatusRequestEntityTooLarge:
		x.fail("body size", "a body of 1 MiB, as voice clips have, is refused with "+a.String(), x.fix(advice{general: "let bodies of up to 2 MiB pass", nginx: "client_max_body_size 2m;", caddy: "no request_body max_size below 2MB"}))
	case a.status == http.StatusUnauthorized:
		x.pass("body size", "1 MiB, as voice clips have, may be sent")
	default: // such as 502, when a proxy was still sending as the relay had refused
		x.note("body size", "it cannot be seen: a body of 1 MiB is answered "+a.String())
	}
}

// largeHeader is what a client with tracing and a long token may send.
const largeHeader = 6 << 10

func (x *outside) headers(ctx context.Context) {
	a := x.ask(ctx, question{method: "GET", path: "/health", header: map[string]string{"Tracestate": "doctor=" + strings.Repeat("x", largeHeader)}})
	if a.status == http.StatusOK {
		x.pass("header size", "6 KiB of headers pass")
		return
	}
	x.warn("header size", "6 KiB of headers are answered "+a.String(), x.fix(advice{general: "let 8 KiB of headers pass", nginx: "large_client_header_buffers 4 16k;"}))
}

// compression asks for none and expects none: a client that did not ask cannot read it.
func (x *outside) compression(ctx context.Context) {
	a := x.ask(ctx, question{method: "GET", path: documents[2], header: map[string]string{"Accept-Encoding": "identity"}})
	if coded := a.header.Get("Content-Encoding"); coded != "" && coded != "identity" {
		x.fail("compression", "an answer is compressed ("+coded+") for a client that asked for none", "have the proxy compress only what Accept-Encoding allows")
		return
	}
	x.pass("compression", "nothing is compressed unasked")
}

// page is an origin that no relay knows.
const page = "https://doctor.invalid"

// cors plays a browser's page that calls the endpoint.
func (x *outside) cors(ctx context.Context) {
	if x.closed("cors") {
		return
	}
	a := x.ask(ctx, question{method: "OPTIONS", path: "/mcp", header: map[string]string{"Origin": page,
		"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type,mcp-protocol-version,mcp-method,mcp-name"}})
	fix := x.fix(advice{
		general: "leave CORS to the relay: pass OPTIONS to it, and add no Access-Control headers of the proxy's own",
		nginx:   "remove add_header Access-Control-… and any return 204 for OPTIONS", caddy: "remove header Access-Control-…", cloudflare: "no transform rule for Access-Control headers",
	})
	if wrong := allows(a.header); a.err != nil || a.status > 299 || wrong != "" {
		x.fail("cors", "a preflight of POST /mcp answers "+a.String()+wrong, fix)
		return
	}
	allowed := strings.ToLower(strings.Join(a.header.Values("Access-Control-Allow-Headers"), ","))
	for _, name := range []string{"authorization", "content-type", "mcp-protocol-version"} {
		if !strings.Contains(allowed, name) && allowed != "*" {
			x.fail("cors", "a preflight does not allow the header "+name, fix)
			return
		}
	}
	if allowed != "*" && !strings.Contains(allowed, "mcp-method") {
		x.warn("cors", "a preflight allows pages to be clients with sessions only: not the header mcp-method", "use a relay of a newer version")
		return
	}
	a = x.ask(ctx, initialize.asked(map[string]string{"Origin": page}, ""))
	if wrong := allows(a.header); wrong != "" {
		x.fail("cors", "POST /mcp answers "+a.String()+wrong, fix)
		return
	}
	x.pass("cors", "pages of any origin may call the endpoint")
}

// allows says what is wrong with an answer to a page, "" for nothing.
func allows(h http.Header) string {
	origins := h.Values("Access-Control-Allow-Origin")
	switch {
	case len(origins) == 0:
		return ", without Access-Control-Allow-Origin"
	case len(origins) > 1 || strings.Contains(origins[0], ","):
		return fmt.Sprintf(", with Access-Control-Allow-Origin %d times, which browsers refuse", max(len(origins), 2))
	case origins[0] != "*" && origins[0] != page:
		return ", with Access-Control-Allow-Origin " + origins[0]
	case h.Get("Access-Control-Allow-Credentials") == "true":
		return ", with Access-Control-Allow-Credentials, which no page needs"
	}
	return ""
}
