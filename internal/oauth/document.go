package oauth

import (
	"context"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
	"github.com/herald-relay/herald/internal/strictjson"
)

// Documents reads client id metadata documents: descriptions that clients keep at the https address that is their id.
type Documents struct {
	// HTTP calls out. Its transport must refuse addresses inside a network, and it must not follow redirects.
	HTTP *http.Client
	// slots bounds how many are read at a time.
	slots chan struct{}
}

// NewDocuments makes a reader that uses an outbound client such as egress.Guard.Client.
func NewDocuments(client *http.Client) *Documents {
	return &Documents{HTTP: client, slots: make(chan struct{}, documentsAtOnce)}
}

// Bounds of reading, and how long a description counts as fresh at least and at most.
const (
	maxDocument     = 64 << 10
	documentWithin  = 5 * time.Second
	documentsAtOnce = 8
	freshAtLeast    = 5 * time.Minute
	freshAtMost     = 24 * time.Hour
)

// describedAt reads a client's document and keeps what it says.
func (s *Service) describedAt(ctx context.Context, id relay.ClientID, address string, now time.Time) (relay.Client, error) {
	if err := s.mayRead(ctx, address, now); err != nil {
		return relay.Client{}, err
	}
	c, err := s.Documents.read(ctx, id, now)
	if err != nil {
		return c, err
	}
	err = s.Store.Update(ctx, func(tx store.Tx) error {
		if err := tx.Clients().Put(c); err != nil {
			return err
		}
		_, err := tx.Clients().Trim(true, keptClients, trimBatch)
		return err
	})
	return c, err
}

// mayRead charges the address of who had a document read: the relay calls where strangers say.
func (s *Service) mayRead(ctx context.Context, address string, now time.Time) error {
	address = s.Signer.AddressHash(address)
	return s.Store.Update(ctx, func(tx store.Tx) error {
		count, err := within(tx, markDocument, address, hour, now)
		if err != nil {
			return err
		}
		if count >= documentsPerHour {
			return tooMany("too many descriptions of clients were read for this address in the last hour; try again later", hour)
		}
		return tx.Marks().Add(markDocument, address, now)
	})
}

// read calls the address. Whatever goes wrong out there is invalid_client, and what the other end said stays in the log.
func (d *Documents) read(ctx context.Context, id relay.ClientID, now time.Time) (c relay.Client, err error) {
	ctx, cancel := context.WithTimeout(ctx, documentWithin)
	defer cancel()
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return c, unreadable("the relay reads too many descriptions at the moment; try again", ctx.Err())
	}
	data, header, err := d.get(ctx, id)
	if err != nil {
		return c, err
	}
	if c, err = documented(data, id); err != nil {
		return c, err
	}
	c.CreatedAt, c.FreshUntil = relay.Millis(now), relay.Millis(now.Add(freshFor(header)))
	return c, nil
}

func (d *Documents) get(ctx context.Context, id relay.ClientID) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, string(id), nil)
	if err != nil {
		return nil, nil, unreadable("the client's id is no address", err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "herald-relay")
	res, err := d.HTTP.Do(req)
	if err != nil {
		return nil, nil, unreadable("the client's description cannot be reached", err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxDocument+1))
	base, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	isJSON := base == "application/json" || strings.HasPrefix(base, "application/") && strings.HasSuffix(base, "+json")
	switch {
	case err != nil:
		return nil, nil, unreadable("the client's description did not arrive whole", err)
	case res.StatusCode != http.StatusOK || !isJSON:
		return nil, nil, unreadable("the client's id does not answer with a JSON description", nil)
	case len(data) > maxDocument:
		return nil, nil, unreadable("the client's description is too long", nil)
	}
	return data, res.Header, nil
}

func unreadable(detail string, cause error) error {
	return fault.New(fault.Unauthenticated, "invalid_client", detail).Because(cause)
}

// documented judges a description that claims to be that of id. It must name id itself, and can hold no secret.
func documented(data []byte, id relay.ClientID) (relay.Client, error) {
	c, err := describe(data)
	if err != nil {
		return c, unreadable("the client's description breaks a rule: "+fault.From(err).Detail, nil)
	}
	v, err := strictjson.ParseObject(data)
	if err != nil {
		return c, err
	}
	named, _ := v.Text("client_id")
	switch {
	case named != string(id):
		return c, unreadable("the client's description does not name its own address as client_id", nil)
	case !c.Public():
		return c, unreadable("a client that describes itself in a document has no secret; its token_endpoint_auth_method must be none", nil)
	case has(v, "client_secret") || has(v, "client_secret_expires_at"):
		return c, unreadable("the client's description must not hold a secret", nil)
	}
	c.ID = id
	return c, nil
}

// freshFor reads max-age, within bounds; no-store and no-cache count as the least.
func freshFor(h http.Header) time.Duration {
	for part := range strings.SplitSeq(strings.Join(h.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(strings.ToLower(part)), "=")
		switch name {
		case "no-store", "no-cache":
			return freshAtLeast
		case "max-age":
			seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31)
			if err != nil {
				return freshAtLeast
			}
			return min(max(time.Duration(seconds)*time.Second, freshAtLeast), freshAtMost)
		}
	}
	return time.Hour
}
