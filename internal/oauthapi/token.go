package oauthapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/oauth"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/web"
)

// expiresIn is what the wire says of tokens that never run out: ten years in seconds.
const expiresIn = 315_360_000

type tokenBody struct {
	Access    string `json:"access_token"`
	Type      string `json:"token_type"`
	ExpiresIn int64  `json:"expires_in"`
	Refresh   string `json:"refresh_token"`
	Scope     string `json:"scope"`
}

func (a *API) token(w http.ResponseWriter, r *http.Request) error {
	t, err := a.grant(w, r, time.Now())
	if err != nil {
		return answered(w, r, err)
	}
	w.Header().Set("Pragma", "no-cache")
	return web.WriteJSON(w, http.StatusOK, tokenBody{t.Access, "Bearer", expiresIn, t.Refresh, t.Scopes.String()})
}

func (a *API) grant(w http.ResponseWriter, r *http.Request, now time.Time) (t oauth.Tokens, err error) {
	p, err := form(w, r)
	if err != nil {
		return t, err
	}
	claim, err := proof(r, p)
	if err != nil {
		return t, err
	}
	client, err := a.OAuth.Authenticate(r.Context(), claim)
	if err != nil {
		return t, err
	}
	exchange := a.exchanges()[p.get("grant_type")]
	if exchange == nil {
		return t, fault.New(fault.Invalid, "unsupported_grant_type", "grant_type must be authorization_code, refresh_token or "+oauth.GrantDevice)
	}
	if err := checkResource(p, a.Origins.Of(r)); err != nil {
		return t, err
	}
	return exchange(r, client, p, now)
}

type exchange func(r *http.Request, client relay.Client, p params, now time.Time) (oauth.Tokens, error)

// exchanges are what a client may turn into tokens.
func (a *API) exchanges() map[string]exchange {
	return map[string]exchange{
		oauth.GrantCode: func(r *http.Request, client relay.Client, p params, now time.Time) (oauth.Tokens, error) {
			return a.OAuth.ExchangeCode(r.Context(), client, p.get("code"), p.get("redirect_uri"), p.get("code_verifier"), now)
		},
		oauth.GrantRefresh: func(r *http.Request, client relay.Client, p params, now time.Time) (oauth.Tokens, error) {
			return a.OAuth.Refresh(r.Context(), client, p.get("refresh_token"), p.get("scope"), now)
		},
		oauth.GrantDevice: func(r *http.Request, client relay.Client, p params, now time.Time) (oauth.Tokens, error) {
			return a.OAuth.Poll(r.Context(), client, p.get("device_code"), now)
		},
	}
}

func (a *API) revoke(w http.ResponseWriter, r *http.Request) error {
	p, err := form(w, r)
	if err != nil {
		return answered(w, r, err)
	}
	claim, err := proof(r, p)
	if err != nil {
		return answered(w, r, err)
	}
	client, err := a.OAuth.Authenticate(r.Context(), claim)
	if err != nil {
		return answered(w, r, err)
	}
	if err := a.OAuth.Revoke(r.Context(), client, p.get("token"), time.Now()); err != nil {
		return answered(w, r, err)
	}
	return web.WriteJSON(w, http.StatusOK, struct{}{})
}

type deviceBody struct {
	DeviceCode   string `json:"device_code"`
	UserCode     string `json:"user_code"`
	Verification string `json:"verification_uri"`
	Complete     string `json:"verification_uri_complete"`
	ExpiresIn    int64  `json:"expires_in"`
	Interval     int64  `json:"interval"`
	DeviceName   string `json:"device_name"`
	DeviceCount  int    `json:"device_count"`
	DeviceIndex  int    `json:"device_index"`
	DeviceOnline bool   `json:"device_online"`
}

func (a *API) deviceAuthorization(w http.ResponseWriter, r *http.Request) error {
	origin := a.Origins.Of(r)
	b, err := a.beginDevice(w, r, origin, time.Now())
	switch {
	case errors.Is(err, oauth.ErrNoDevice):
		err = fault.InvalidRequest("", "no device is paired with this relay, so nobody can approve; pair one first")
	case errors.Is(err, oauth.ErrNoSuchDevice):
		err = fault.InvalidRequest("device", "device must be the number of a paired device, counted from 1 in the order of pairing")
	case errors.Is(err, oauth.ErrWhose):
		err = fault.InvalidRequest("person", "this relay serves several people; send person with the handle of the one who shall approve")
	case codeOf(err) == "rate_limited":
		seconds := int64(min(fault.From(err).RetryAfter, time.Minute).Seconds())
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
		return web.WriteJSON(w, http.StatusTooManyRequests, errorBody{"slow_down", fault.From(err).Detail})
	case err != nil && unserved(err):
		return web.WriteJSON(w, http.StatusBadGateway, errorBody{"temporarily_unavailable", "the relay cannot take the request now; try again"})
	}
	if err != nil {
		return answered(w, r, err)
	}
	name := b.Target.Name
	if name == "" {
		name = fmt.Sprintf("Mac %d", b.Target.Index)
	}
	return web.WriteJSON(w, http.StatusOK, deviceBody{
		DeviceCode: b.DeviceCode, UserCode: b.UserCode, Verification: origin + "/activate",
		Complete: origin + "/activate?user_code=" + b.UserCode, ExpiresIn: int64(relay.ConsentLife.Seconds()),
		Interval: int64(relay.PollInterval.Seconds()), DeviceName: name, DeviceCount: b.Target.Count, DeviceIndex: b.Target.Index,
		DeviceOnline: b.Target.Online,
	})
}

func (a *API) beginDevice(w http.ResponseWriter, r *http.Request, origin string, now time.Time) (b oauth.Begun, err error) {
	p, err := form(w, r)
	if err != nil {
		return b, err
	}
	claim, err := proof(r, p)
	if err != nil {
		return b, err
	}
	address := a.Origins.Address(r)
	if err := a.mayBegin(r, now); err != nil {
		return b, err
	}
	if _, err := a.OAuth.Client(r.Context(), claim.ID, address, now); err != nil { // a described client becomes known here
		return b, err
	}
	client, err := a.OAuth.Authenticate(r.Context(), claim)
	if err != nil {
		return b, err
	}
	scopes, err := oauth.RequestedScopes(p.get("scope"))
	if err != nil {
		return b, err
	}
	if err := checkResource(p, origin); err != nil {
		return b, err
	}
	device, ok := deviceNumber(p)
	if !ok {
		return b, oauth.ErrNoSuchDevice
	}
	return a.OAuth.Begin(r.Context(), oauth.Ask{
		Client: client, Flow: relay.FlowDevice, Scopes: scopes, Issuer: origin, Resource: origin + resourcePath,
		Whose: a.whose(r, p), Device: device,
	}, now)
}
