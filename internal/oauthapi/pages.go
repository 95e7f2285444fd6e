package oauthapi

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/oauth"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/web"
	"github.com/herald-relay/herald/internal/webapp"
)

const waitPath = "/authorize/wait?rid="

// authorize begins an approval in a browser. Until client and redirect address are proven to belong together, whatever is
// wrong is shown and the browser is sent nowhere.
func (a *API) authorize(w http.ResponseWriter, r *http.Request) error {
	now, origin := time.Now(), a.Origins.Of(r)
	if r.Method != http.MethodGet || strings.Contains(r.Header.Get("Sec-Purpose"), "prefetch") {
		// Looking whether the page is there, or loading it in advance, must ask nobody for approval.
		w.Header().Set("Allow", http.MethodGet)
		return fault.New(fault.MethodNotAllowed, "method_not_allowed", "open this page in a browser")
	}
	p, err := readParams(r.URL.RawQuery)
	if err != nil {
		return problem(w, http.StatusBadRequest, "The link is broken", "The app’s request cannot be read, so nobody was asked.", connectAgain)
	}
	if err := a.mayBegin(r, now); err != nil {
		return tooMany(w, fault.From(err).Detail)
	}
	client, err := a.OAuth.Client(r.Context(), single(p, "client_id"), a.Origins.Address(r), now)
	if err != nil {
		return clientProblem(w, single(p, "client_id"), err)
	}
	redirect := single(p, "redirect_uri")
	if !client.AllowsRedirect(redirect) {
		return problem(w, http.StatusBadRequest, "The app’s return address is not registered",
			"The app wants your browser sent to an address that it never registered. Nobody was asked, and nothing was allowed.",
			"Remove the connection in the app and add it again. If you did not start this yourself, close the page.")
	}
	device, ok := deviceNumber(p)
	if !ok || len(p.values["device"]) > 1 {
		return noSuchDevice(w)
	}
	ask, err := a.ask(r, p, client, redirect, device, origin)
	if err != nil {
		sendBack(w, redirect, err, p, origin)
		return nil
	}
	b, err := a.OAuth.Begin(r.Context(), ask, now)
	if err != nil {
		return a.notBegun(w, err, p, client)
	}
	showRequest(w, http.StatusOK, b.Consent, b.Target, false, now)
	return nil
}

// single is the value of a parameter that was sent once, "" otherwise.
func single(p params, name string) string {
	if len(p.values[name]) != 1 {
		return ""
	}
	return p.get(name)
}

const maxState = 2048

// validState bounds what is kept for the client and given back to it.
func validState(s string) bool {
	return len(s) <= maxState && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// ask judges what a client asks for, in the order of the contract's section 8.
func (a *API) ask(r *http.Request, p params, client relay.Client, redirect string, device int, origin string) (ask oauth.Ask, err error) {
	challenge := p.get("code_challenge")
	switch {
	case p.repeats():
		return ask, fault.InvalidRequest("", "a parameter was sent more than once")
	case p.get("response_type") != "code":
		return ask, fault.New(fault.Invalid, "unsupported_response_type", "response_type must be code")
	case p.get("response_mode") != "" && p.get("response_mode") != "query":
		return ask, fault.InvalidRequest("", "response_mode must be query")
	case !validState(p.get("state")):
		return ask, fault.InvalidRequest("", "state may have at most 2048 characters of text")
	case p.get("code_challenge_method") != "S256" || !oauth.ValidChallenge(challenge):
		return ask, fault.InvalidRequest("", "PKCE is required: send code_challenge_method=S256 and a code_challenge of 43 characters")
	}
	if err := checkResource(p, origin); err != nil {
		return ask, err
	}
	scopes, err := oauth.RequestedScopes(p.get("scope"))
	return oauth.Ask{
		Client: client, Flow: relay.FlowCode, Scopes: scopes, Issuer: origin, Resource: origin + resourcePath, Redirect: redirect,
		State: p.get("state"), Challenge: challenge, Whose: a.whose(r, p), Device: device,
	}, err
}

// sendBack tells the client by the browser what is wrong with its request.
func sendBack(w http.ResponseWriter, redirect string, err error, p params, origin string) {
	state := single(p, "state")
	if !validState(state) {
		state = ""
	}
	f := fault.From(err)
	sendTo(w, http.StatusFound, oauth.RedirectTo(redirect, "error", f.Code, "error_description", f.Detail, "state", state, "iss", origin))
}

// sendTo redirects, without a body that a page could be made of.
func sendTo(w http.ResponseWriter, status int, location string) {
	h := w.Header()
	h.Set("Location", location)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Length", "0")
	w.WriteHeader(status)
}

const connectAgain = "Go back to the app and connect again."

func problem(w http.ResponseWriter, status int, title, text, then string) error {
	webapp.ShowOutcome(w, status, webapp.OutcomePage{Kind: "problem", Title: title, Text: text, Then: then})
	return nil
}

// tooMany shows what was counted and how long to wait, as the refusal says both.
func tooMany(w http.ResponseWriter, detail string) error {
	text, then, _ := strings.Cut(detail, "; ")
	return problem(w, http.StatusTooManyRequests, "Too many requests", sentence(text), sentence(then))
}

// sentence makes a refusal's detail fit to be read on a page.
func sentence(detail string) string {
	if detail == "" {
		return ""
	}
	return strings.ToUpper(detail[:1]) + detail[1:] + "."
}

func noSuchDevice(w http.ResponseWriter) error {
	return problem(w, http.StatusBadRequest, "There is no such device", "The app asks for a device that is not paired with this relay. Nobody was asked.",
		"Correct the device’s number in the app’s settings, or leave it out, and connect again.")
}

func unreachable(w http.ResponseWriter) error {
	return problem(w, http.StatusBadGateway, "The relay cannot do this now", "Its store does not answer. Nothing was changed.", "Wait a moment and load this page again.")
}

func clientProblem(w http.ResponseWriter, id string, err error) error {
	const title = "This relay does not know the app"
	const then = "Remove the connection in the app and add it again: the app then registers anew."
	switch f := fault.From(err); {
	case f.Code == "rate_limited":
		return tooMany(w, f.Detail)
	case unserved(err):
		return unreachable(w)
	case relay.ClientID(id).IsDocument():
		return problem(w, http.StatusBadRequest, title, "The app describes itself at an address of its own, and that cannot be used: "+f.Detail+".",
			"Tell whoever makes the app.")
	default:
		return problem(w, http.StatusBadRequest, title, "It registered elsewhere, or so long ago that it was forgotten. Nobody was asked.", then)
	}
}

// notBegun shows why nobody is asked.
func (a *API) notBegun(w http.ResponseWriter, err error, p params, client relay.Client) error {
	switch {
	case errors.Is(err, oauth.ErrNoDevice):
		return problem(w, http.StatusOK, "No device is paired yet", "Approvals are given on a paired device, and this relay has none.",
			"Get a pairing link from whoever runs the relay and pair a device with it. Then connect the app again.")
	case errors.Is(err, oauth.ErrNoSuchDevice):
		return noSuchDevice(w)
	case errors.Is(err, oauth.ErrWhose):
		page := webapp.PersonPage{ClientName: client.Name, Fields: fields(p)}
		if p.get("person") != "" {
			page.Problem = "That is only blanks. Type the handle."
		}
		webapp.ShowPerson(w, http.StatusOK, page)
		return nil
	case codeOf(err) == "rate_limited":
		return tooMany(w, fault.From(err).Detail)
	default:
		return unreachable(w)
	}
}

// fields are a request's parameters, for a form that sends it again.
func fields(p params) (list []webapp.Field) {
	for name, values := range p.values {
		for _, v := range values {
			if name != "person" {
				list = append(list, webapp.Field{Name: name, Value: v})
			}
		}
	}
	slices.SortFunc(list, func(a, b webapp.Field) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// showRequest shows a request that waits.
func showRequest(w http.ResponseWriter, status int, c relay.Consent, t oauth.Target, wrong bool, now time.Time) {
	page := webapp.ApprovalPage{
		ClientName: c.ClientName, Origin: relay.RedirectHost(c.Redirect), ClientHost: hostOf(c.Client), Scopes: c.Scopes, RID: string(c.ID),
		UserCode: c.UserCode, DeviceName: t.Name, Online: t.Online, Left: relay.MaxConsentAttempts - c.Attempts, Wrong: wrong,
		Seconds: secondsLeft(c, now), CodeURL: "/authorize/code", DenyURL: "/authorize/deny",
		StatusURL: "/authorize/status?rid=" + string(c.ID), WaitURL: waitPath + string(c.ID),
	}
	if c.Flow == relay.FlowDevice {
		page.CodeURL, page.DenyURL = "/activate/approve", "/activate/deny"
	}
	webapp.ShowApproval(w, status, page, c.Redirect)
}

func secondsLeft(c relay.Consent, now time.Time) int {
	return max(int(c.ExpiresAt.Sub(now).Seconds()), 0)
}

// showAgain shows a request that was begun before.
func (a *API) showAgain(w http.ResponseWriter, r *http.Request, status int, c relay.Consent, wrong bool, now time.Time) error {
	target, err := a.OAuth.Target(r.Context(), c.ID, now)
	if err != nil {
		return unreachable(w)
	}
	showRequest(w, status, c, target, wrong, now)
	return nil
}

// hostOf is the host of a client's description, "" for clients that registered.
func hostOf(id relay.ClientID) string {
	if !id.IsDocument() {
		return ""
	}
	u, err := url.Parse(string(id))
	if err != nil {
		return ""
	}
	return u.Host
}

// request finds the request that a page names. A rid that this relay never made is shown as a broken page.
func (a *API) request(r *http.Request, rid string) (relay.Consent, error) {
	id, ok := relay.ParseConsentID(rid)
	if !ok {
		return relay.Consent{}, fault.NotFoundf("the request's id is malformed")
	}
	return a.OAuth.Page(r.Context(), id)
}

func requestProblem(w http.ResponseWriter, err error) error {
	switch f := fault.From(err); {
	case f.Kind == fault.NotFound:
		return problem(w, http.StatusBadRequest, "There is no such request", "It is not one of this relay’s, or it is older than a day.", connectAgain)
	case f.Kind == fault.Gone:
		webapp.ShowOutcome(w, http.StatusGone, outcomes[relay.Lapsed])
		return nil
	case f.Code == "rate_limited":
		return tooMany(w, f.Detail)
	case f.Code == "too_many_keys":
		return problem(w, http.StatusTooManyRequests, "No room for one more", sentence(f.Detail),
			"End a connection that you do not need, by herald connectors revoke or in your Herald app. This request still waits: go back and approve it then.")
	default:
		return unreachable(w)
	}
}

// outcomes are how a request may have ended.
var outcomes = map[relay.ConsentStatus]webapp.OutcomePage{
	relay.Approved: {Kind: "approved", Title: "Approved", Text: "The app may send you notifications now, and read your answers to them.",
		Then: "You can close this page and go on in the app. To end the connection later, run herald connectors revoke, or use your Herald app."},
	relay.Denied: {Kind: "denied", Title: "Denied", Text: "The app got no access.",
		Then: "You can close this page. If you did want to connect the app, begin again there."},
	relay.Superseded: {Kind: "superseded", Title: "Asked again elsewhere", Text: "The app asked once more, or the request was decided for another device. " +
		"This page’s request counts no longer.", Then: "Go on where you asked last. This page can be closed."},
	relay.Lapsed: {Kind: "expired", Title: "Too late", Text: "Nobody decided within ten minutes, so the request ran out. The app got no access.", Then: connectAgain},
}

// resolve shows where a request stands, or sends the browser on to the client.
func (a *API) resolve(w http.ResponseWriter, r *http.Request, c relay.Consent, wrong bool, now time.Time) error {
	if to := a.OAuth.Redirect(c, now); to != "" {
		sendTo(w, http.StatusSeeOther, to)
		return nil
	}
	state := c.StatusAt(now)
	if state != relay.Pending {
		webapp.ShowOutcome(w, http.StatusOK, outcomes[state])
		return nil
	}
	status := http.StatusOK
	if wrong {
		status = http.StatusBadRequest
	}
	return a.showAgain(w, r, status, c, wrong, now)
}

// wait shows a request's page again, without beginning anything.
func (a *API) wait(w http.ResponseWriter, r *http.Request) error {
	p, err := readParams(r.URL.RawQuery)
	if err != nil {
		return requestProblem(w, fault.NotFoundf("no rid"))
	}
	c, err := a.request(r, single(p, "rid"))
	if err != nil {
		return requestProblem(w, err)
	}
	return a.resolve(w, r, c, false, time.Now())
}

type statusBody struct {
	Status   relay.ConsentStatus `json:"status"`
	Redirect string              `json:"redirect,omitempty"`
	// For the page that waits: whether a device of the mailbox is connected, and how long there is to decide.
	Online  *bool `json:"online,omitempty"`
	Seconds *int  `json:"seconds,omitempty"`
}

// unknownStatus is told of a request that this relay never made, or made more than a day ago.
const unknownStatus relay.ConsentStatus = "unknown"

func (a *API) status(w http.ResponseWriter, r *http.Request) error {
	now := time.Now()
	p, err := readParams(r.URL.RawQuery)
	if err != nil {
		return err
	}
	c, err := a.request(r, single(p, "rid"))
	if fault.Is(err, fault.NotFound) {
		return web.WriteJSON(w, http.StatusOK, statusBody{Status: unknownStatus})
	}
	if err != nil {
		return err
	}
	body := statusBody{Status: c.StatusAt(now), Redirect: a.OAuth.Redirect(c, now)}
	if c.Open(now) {
		target, err := a.OAuth.Target(r.Context(), c.ID, now)
		if err != nil {
			return err
		}
		body.Online, body.Seconds = &target.Online, new(secondsLeft(c, now))
	}
	return web.WriteJSON(w, http.StatusOK, body)
}

// enter takes the approval code that a person typed.
func (a *API) enter(w http.ResponseWriter, r *http.Request) error {
	now := time.Now()
	p, id, err := requestForm(w, r)
	if err != nil {
		return badForm(w, err)
	}
	before, err := a.OAuth.Page(r.Context(), id)
	if err != nil {
		return requestProblem(w, err)
	}
	c, err := a.OAuth.Enter(r.Context(), id, p.get("code"), a.Origins.Address(r), now)
	if err != nil {
		return requestProblem(w, err)
	}
	if before.Status == relay.Denied { // the right code after a denial gives nothing, and neither does a wrong one
		webapp.ShowOutcome(w, http.StatusOK, outcomes[relay.Denied])
		return nil
	}
	return a.resolve(w, r, c, c.Status == relay.Pending, now)
}

// refuse takes a denial.
func (a *API) refuse(w http.ResponseWriter, r *http.Request) error {
	now := time.Now()
	_, id, err := requestForm(w, r)
	if err != nil {
		return badForm(w, err)
	}
	c, err := a.OAuth.Refuse(r.Context(), id, now)
	if err != nil {
		return requestProblem(w, err)
	}
	if c.Status == relay.Approved { // too late to deny here: it is revoked, not denied
		webapp.ShowOutcome(w, http.StatusOK, outcomes[relay.Approved])
		return nil
	}
	return a.resolve(w, r, c, false, now)
}

// requestForm reads a form that answers a request.
func requestForm(w http.ResponseWriter, r *http.Request) (params, relay.ConsentID, error) {
	p, err := form(w, r)
	if err != nil {
		return p, "", err
	}
	id, ok := relay.ParseConsentID(p.get("rid"))
	if !ok {
		return p, "", fault.NotFoundf("the request's id is malformed")
	}
	return p, id, nil
}

func badForm(w http.ResponseWriter, err error) error {
	if k := fault.From(err).Kind; k == fault.NotFound || k == fault.Invalid {
		return requestProblem(w, fault.NotFoundf("no such request"))
	}
	return err
}

// activate shows the form for a device flow's code.
func (a *API) activate(w http.ResponseWriter, r *http.Request) error {
	p, err := readParams(r.URL.RawQuery)
	code := ""
	if err == nil {
		code, _ = relay.NormalUserCode(single(p, "user_code"))
	}
	webapp.ShowActivate(w, http.StatusOK, webapp.ActivatePage{UserCode: code})
	return nil
}

// activated finds the request that shows a code, and shows its page.
func (a *API) activated(w http.ResponseWriter, r *http.Request) error {
	now := time.Now()
	p, err := form(w, r)
	if err != nil && fault.From(err).Kind != fault.Invalid {
		return err
	}
	typed := ""
	if err == nil {
		typed = p.get("user_code")
	}
	c, err := a.OAuth.ByUserCode(r.Context(), typed, a.Origins.Address(r), now)
	switch f := fault.From(err); {
	case err == nil:
		return a.showAgain(w, r, http.StatusOK, c, false, now)
	case f.Code == "rate_limited":
		return tooMany(w, f.Detail)
	case f.Kind == fault.NotFound:
		shown, _ := relay.NormalUserCode(typed)
		webapp.ShowActivate(w, http.StatusBadRequest, webapp.ActivatePage{UserCode: shown, Problem: sentence(f.Detail)})
	default:
		return unreachable(w)
	}
	return nil
}
