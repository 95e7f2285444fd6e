package deviceapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/oauth"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/web"
)

// consentBody is a request for approval as devices are told of it, listed and streamed.
type consentBody struct {
	ID           relay.ConsentID     `json:"id"`
	ClientID     relay.ClientID      `json:"clientId"`
	ClientName   string              `json:"clientName"`
	RedirectHost string              `json:"redirectHost"`
	Scope        string              `json:"scope"`
	Code         string              `json:"code"`
	Status       relay.ConsentStatus `json:"status"`
	CreatedAt    string              `json:"createdAt"`
	ExpiresAt    string              `json:"expiresAt"`
	Flow         string              `json:"flow"`
	UserCode     string              `json:"userCode,omitempty"`
}

func consentOf(c relay.Consent) consentBody {
	return consentBody{
		ID: c.ID, ClientID: c.Client, ClientName: c.ClientName, RedirectHost: relay.RedirectHost(c.Redirect), Scope: c.Scopes.String(),
		Code: c.Code, Status: c.Status, CreatedAt: relay.Timestamp(c.CreatedAt), ExpiresAt: relay.Timestamp(c.ExpiresAt),
		Flow: c.Flow, UserCode: c.UserCode,
	}
}

type consentsBody struct {
	Consents []consentBody `json:"consents"`
}

func (a *API) consents(w http.ResponseWriter, r *http.Request, p credential.Principal, now time.Time) error {
	list, err := a.OAuth.List(r.Context(), p.Mailbox, now)
	if err != nil {
		return err
	}
	out := consentsBody{Consents: make([]consentBody, 0, len(list))}
	for _, c := range list {
		out.Consents = append(out.Consents, consentOf(c))
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

type decidedBody struct {
	Status   relay.ConsentStatus `json:"status"`
	Redirect string              `json:"redirect,omitempty"`
}

// decidedBefore is the one error body that carries more than the others (contract section 1).
type decidedBefore struct {
	Error   string              `json:"error"`
	Message string              `json:"message"`
	Status  relay.ConsentStatus `json:"status"`
}

func (a *API) decide(w http.ResponseWriter, r *http.Request, p credential.Principal, now time.Time) error {
	v, err := object(w, r, "id", "decision")
	if err != nil {
		return err
	}
	text, _ := v.Text("id")
	id, ok := relay.ParseConsentID(text)
	if !ok {
		return fault.InvalidRequest("id", "id must be the id of a request for approval, 72 hex digits")
	}
	decision, _ := v.Text("decision")
	if decision != "approve" && decision != "deny" {
		return fault.InvalidRequest("decision", "decision must be approve or deny")
	}
	c, err := a.OAuth.Decide(r.Context(), p.Mailbox, id, decision == "approve", p.Device, now)
	if f := fault.From(err); err != nil && f.Code == "already_decided" {
		return web.WriteJSON(w, http.StatusConflict, decidedBefore{f.Code, f.Detail, c.Status})
	}
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, decidedBody{c.Status, a.OAuth.Redirect(c, now)})
}

type connectorBody struct {
	ID         relay.KeyID    `json:"id"`
	Name       string         `json:"name"`
	Display    string         `json:"displayName"`
	ClientID   relay.ClientID `json:"clientId"`
	Scope      string         `json:"scope"`
	Tokens     int            `json:"tokens"`
	CreatedAt  string         `json:"createdAt"`
	LastUsedAt string         `json:"lastUsedAt,omitempty"`
}

type connectorsBody struct {
	Connectors []connectorBody `json:"connectors"`
}

func (a *API) connectors(w http.ResponseWriter, r *http.Request, p credential.Principal, _ time.Time) error {
	list, err := a.OAuth.Connectors(r.Context(), p.Mailbox)
	if err != nil {
		return err
	}
	out := connectorsBody{Connectors: make([]connectorBody, 0, len(list))}
	for _, c := range list {
		out.Connectors = append(out.Connectors, connectorBody{
			ID: c.Key.ID, Name: c.Key.Name, Display: c.Key.DisplayName, ClientID: c.Grant.Client, Scope: c.Grant.Scopes.String(),
			Tokens: c.Grant.Tokens, CreatedAt: relay.Timestamp(c.Key.CreatedAt), LastUsedAt: optionalTime(c.Key.LastUsedAt),
		})
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

func (a *API) endConnector(w http.ResponseWriter, r *http.Request, p credential.Principal, now time.Time) error {
	id, ok := relay.ParseKeyID(r.PathValue("id"))
	if !ok {
		return noSuchEndpoint()
	}
	if err := a.OAuth.EndConnector(r.Context(), p.Mailbox, id, p.Device, now); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, revokedBody{Revoked: true, ID: string(id)})
}

type auditBody struct {
	At         string          `json:"at"`
	Mailbox    relay.MailboxID `json:"deviceId"`
	Action     string          `json:"action"`
	ClientID   relay.ClientID  `json:"clientId"`
	ClientName string          `json:"clientName"`
	Consent    relay.ConsentID `json:"consentId,omitempty"`
	Key        relay.KeyID     `json:"keyId,omitempty"`
	By         string          `json:"by"`
}

type auditListBody struct {
	Entries []auditBody `json:"entries"`
}

// defaultAudit is how many decisions are listed when nobody says how many.
const defaultAudit = 50

func (a *API) audit(w http.ResponseWriter, r *http.Request, p credential.Principal, _ time.Time) error {
	limit, before, err := auditPage(r)
	if err != nil {
		return err
	}
	list, err := a.OAuth.History(r.Context(), p.Mailbox, before, limit)
	if err != nil {
		return err
	}
	out := auditListBody{Entries: make([]auditBody, 0, len(list))}
	for _, e := range list {
		out.Entries = append(out.Entries, auditBody{
			At: relay.Timestamp(e.At), Mailbox: e.Mailbox, Action: e.Action, ClientID: e.Client, ClientName: e.ClientName,
			Consent: e.Consent, Key: e.Key, By: e.By,
		})
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

func auditPage(r *http.Request) (limit int, before time.Time, err error) {
	limit = defaultAudit
	query := r.URL.Query()
	if text := query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 {
			return 0, before, fault.InvalidRequest("limit", "limit must be a number from 1")
		}
	}
	if text := query.Get("before"); text != "" {
		if before, err = time.Parse(time.RFC3339, text); err != nil {
			return 0, before, fault.InvalidRequest("before", "before must be a time as it is listed, such as 2026-10-02T13:00:00.000Z")
		}
	}
	return limit, before, nil
}

type consentFrame struct {
	Type string `json:"type"`
	consentBody
	Redelivered bool `json:"redelivered,omitzero"`
}

type resolvedFrame struct {
	Type   string              `json:"type"`
	ID     relay.ConsentID     `json:"id"`
	Status relay.ConsentStatus `json:"status"`
}

// tellConsents shows the device what waits for a decision, and what of it waits no longer. When the store cannot be
// asked, the stream looks again later.
func (s *stream) tellConsents() error {
	ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
	defer cancel()
	news, err := s.api.OAuth.News(ctx, s.mailbox, s.device, s.told, time.Now())
	if err != nil {
		s.api.Log.Debug("stream looks for requests again later", "mailbox", s.mailbox, "err", err)
		s.lookLater(nil)
		return nil
	}
	for _, n := range news {
		if err := s.tellConsent(n); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) tellConsent(n oauth.News) error {
	if n.Resolved {
		delete(s.told, n.ID)
		return s.write(encode(resolvedFrame{"consent_resolved", n.ID, n.Status}))
	}
	if err := s.write(encode(consentFrame{"consent", consentOf(n.Consent), n.Again})); err != nil {
		return err
	}
	if s.told == nil {
		s.told = oauth.Told{}
	}
	s.told[n.ID] = n.Code
	if n.Again {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
	defer cancel()
	if err := s.api.OAuth.Announced(ctx, n.ID, n.Code, s.device); err != nil { // it costs one more banner at worst
		s.api.Log.Debug("announcement not stored", "mailbox", s.mailbox, "err", err)
	}
	return nil
}
