package oauth

import (
	"context"
	"slices"
	"time"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/strictjson"
)

// The grant types that every client may use, in the order in which they are shown.
const (
	GrantCode    = "authorization_code"
	GrantRefresh = "refresh_token"
	GrantDevice  = "urn:ietf:params:oauth:grant-type:device_code"
)

// GrantTypes lists them.
func GrantTypes() []string { return []string{GrantCode, GrantRefresh, GrantDevice} }

// AuthMethods lists how clients may prove themselves.
func AuthMethods() []string { return []string{relay.AuthNone, relay.AuthPost, relay.AuthBasic} }

// clientKeys are the members of a client's description that mean something here; others pass (RFC 7591, section 2).
var clientKeys = []string{"client_name", "redirect_uris", "grant_types", "token_endpoint_auth_method", "response_types", "scope", "client_id"}

func badMetadata(detail string, args ...any) error {
	return fault.New(fault.Invalid, "invalid_client_metadata", detail, args...)
}

func badRedirect(detail string) error {
	return fault.New(fault.Invalid, "invalid_redirect_uri", detail)
}

// describe reads a client's description by the rules of the contract's section 8.
func describe(data []byte) (c relay.Client, err error) {
	v, err := strictjson.ParseObject(data)
	if err != nil {
		return c, badMetadata("%s", fault.From(err).Detail)
	}
	if err := v.RefuseRepeats(clientKeys); err != nil {
		return c, badMetadata("%s", fault.From(err).Detail)
	}
	name, found := v.Text("client_name")
	if found == strictjson.WrongType {
		return c, badMetadata("client_name must be a string")
	}
	c.Name = relay.CleanClientName(name)
	if c.AuthMethod, err = authMethod(v); err != nil {
		return c, err
	}
	grants, err := grantTypes(v)
	if err != nil {
		return c, err
	}
	if err := responseTypes(v, grants); err != nil {
		return c, err
	}
	c.Redirects, err = redirects(v, grants)
	return c, err
}

func authMethod(v strictjson.Value) (string, error) {
	method, found := v.Text("token_endpoint_auth_method")
	if found == strictjson.Absent {
		return relay.AuthNone, nil
	}
	if !slices.Contains(AuthMethods(), method) {
		return "", badMetadata("token_endpoint_auth_method must be none, client_secret_post or client_secret_basic")
	}
	return method, nil
}

// has reports whether v has a member that is not null.
func has(v strictjson.Value, name string) bool {
	m, found := v.Member(name)
	return found && m.Kind != strictjson.Null
}

// maxListed bounds the lists of a description that no other rule bounds.
const maxListed = 20

// textList reads a member that is an array of strings; an absent one is nil.
func textList(v strictjson.Value, name string) (list []string, ok bool) {
	m, found := v.Member(name)
	if !found || m.Kind == strictjson.Null {
		return nil, true
	}
	if m.Kind != strictjson.Array || len(m.Items) > maxListed {
		return nil, false
	}
	list = make([]string, 0, len(m.Items))
	for _, item := range m.Items {
		if item.Kind != strictjson.String {
			return nil, false
		}
		list = append(list, item.Str)
	}
	return list, true
}

func grantTypes(v strictjson.Value) ([]string, error) {
	list, ok := textList(v, "grant_types")
	if !ok || slices.ContainsFunc(list, func(g string) bool { return !slices.Contains(GrantTypes(), g) }) {
		return nil, badMetadata("grant_types must be an array of authorization_code, refresh_token and " + GrantDevice)
	}
	if len(list) == 0 {
		list = []string{GrantCode}
	}
	return list, nil
}

func responseTypes(v strictjson.Value, grants []string) error {
	list, ok := textList(v, "response_types")
	onlyCode := !slices.ContainsFunc(list, func(r string) bool { return r != "code" })
	if !ok || !onlyCode || list != nil && len(list) == 0 && !deviceOnly(grants) {
		return badMetadata("response_types must be [\"code\"]")
	}
	return nil
}

// deviceOnly reports whether a client with those grant types never sends a browser anywhere.
func deviceOnly(grants []string) bool {
	return slices.Contains(grants, GrantDevice) && !slices.Contains(grants, GrantCode)
}

func redirects(v strictjson.Value, grants []string) ([]string, error) {
	list, ok := textList(v, "redirect_uris")
	if has(v, "redirect_uris") && (!ok || len(list) == 0 || len(list) > relay.MaxRedirects) || list == nil && !deviceOnly(grants) {
		return nil, badRedirect("redirect_uris must be an array of 1 to 10 addresses; only clients of the device flow alone may leave it out")
	}
	for _, uri := range list {
		if !relay.ValidRedirect(uri) {
			return nil, badRedirect("each of redirect_uris must be https, or http on localhost, 127.0.0.1 or [::1], or have a scheme of the app's " +
				"own, without fragment and credentials, at most 500 characters of ASCII")
		}
	}
	return list, nil
}

// Register makes a client of its description. secret is shown this once; "" for public clients. Refusals are
// invalid_client_metadata, invalid_redirect_uri and, for the whole relay, rate_limited.
func (s *Service) Register(ctx context.Context, description []byte, now time.Time) (c relay.Client, secret string, err error) {
	if c, err = describe(description); err != nil {
		return c, "", err
	}
	c.ID, c.CreatedAt = relay.NewClientID(), relay.Millis(now)
	if !c.Public() {
		secret, c.SecretHash = credential.MintClientSecret()
	}
	err = s.Store.Update(ctx, func(tx store.Tx) error {
		count, err := within(tx, markRegister, "", hour, now)
		if err != nil {
			return err
		}
		if count >= s.Limits.RegistrationsPerHour {
			return tooMany("this relay registered its number of clients for this hour; try again later", hour)
		}
		if err := tx.Marks().Add(markRegister, "", now); err != nil {
			return err
		}
		if err := tx.Clients().Put(c); err != nil {
			return err
		}
		_, err = tx.Clients().Trim(false, keptClients, trimBatch)
		return err
	})
	return c, secret, err
}

// Client finds a client by its id; that of one which described itself in a document is read when it is not known
// fresh. address is for whom the document would be read. An unknown one is invalid_client.
func (s *Service) Client(ctx context.Context, id, address string, now time.Time) (relay.Client, error) {
	known, ok := relay.ParseClientID(id)
	if !ok || known.IsDocument() && s.Documents == nil {
		return relay.Client{}, unknownClient()
	}
	c, err := s.stored(ctx, known)
	if !known.IsDocument() || err == nil && now.Before(c.FreshUntil) {
		return c, err
	}
	if err != nil && !fault.Is(err, fault.Unauthenticated) {
		return c, err
	}
	return s.describedAt(ctx, known, address, now)
}

// stored finds a client that is known already. NotFound is invalid_client.
func (s *Service) stored(ctx context.Context, id relay.ClientID) (c relay.Client, err error) {
	err = s.Store.View(ctx, func(tx store.Tx) error {
		c, err = tx.Clients().Get(id)
		return err
	})
	if fault.Is(err, fault.NotFound) {
		err = unknownClient()
	}
	return c, err
}

func unknownClient() error {
	return invalidClient("this relay does not know the client; register it again")
}

// ClientProof is what a request says to prove its client.
type ClientProof struct {
	ID     string
	Secret string
	Sent   bool // a secret was sent, be it an empty one
}

// Authenticate proves the client of a token request. Anything wrong is invalid_client.
func (s *Service) Authenticate(ctx context.Context, proof ClientProof) (relay.Client, error) {
	id, ok := relay.ParseClientID(proof.ID)
	if !ok {
		return relay.Client{}, unknownClient()
	}
	c, err := s.stored(ctx, id)
	switch {
	case err != nil:
		return c, err
	case c.Public() && proof.Secret != "":
		return c, invalidClient("the client registered without a secret and must not send one")
	case c.Public():
		return c, nil
	case !proof.Sent || !credential.Equal(c.SecretHash, credential.HashSecret(proof.Secret)):
		return c, invalidClient("the client's secret is missing or wrong")
	}
	return c, nil
}
