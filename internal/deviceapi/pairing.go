package deviceapi

import (
	"net/http"
	"time"

	"github.com/herald-relay/herald/internal/credential"
	"github.com/herald-relay/herald/internal/pairing"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/strictjson"
	"github.com/herald-relay/herald/internal/web"
)

type codeBody struct {
	Code             string `json:"code"`
	ExpiresInSeconds int    `json:"expiresInSeconds"`
}

func newCodeBody(code string) codeBody {
	return codeBody{code, int(relay.PairCodeLife.Seconds())}
}

// pairBody reads the body of the two pairing routes under any content type (decision 31). One that is no JSON object
// counts as none; an ambiguous one is refused.
func pairBody(w http.ResponseWriter, r *http.Request) (v strictjson.Value, err error) {
	data, err := web.ReadBody(w, r, web.SmallBody)
	if err != nil {
		return v, err
	}
	if v, err = strictjson.ParseObject(data); err != nil {
		return strictjson.Value{}, nil
	}
	return v, v.RefuseRepeats([]string{"code", "deviceName"})
}

func (a *API) pairStart(w http.ResponseWriter, r *http.Request) error {
	if err := a.Pairing.CheckSecret(r.Header.Get("X-Pairing-Secret")); err != nil {
		return err
	}
	v, err := pairBody(w, r)
	if err != nil {
		return err
	}
	name, _ := v.Text("deviceName")
	code, err := a.Pairing.Start(r.Context(), name, a.Origins.Address(r), time.Now())
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusCreated, newCodeBody(code))
}

type pairedBody struct {
	DeviceID    string `json:"deviceId"`
	DeviceToken string `json:"deviceToken"`
}

func (a *API) pair(w http.ResponseWriter, r *http.Request) error {
	v, err := pairBody(w, r)
	if err != nil {
		return err
	}
	code, _ := v.Text("code")
	name, _ := v.Text("deviceName")
	paired, err := a.Pairing.Exchange(r.Context(), code, name, a.Origins.Address(r), time.Now())
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, pairedBody{string(paired.Mailbox), paired.Token})
}

type deviceBody struct {
	ID              string  `json:"id"`
	Name            *string `json:"name"`
	Online          bool    `json:"online"`
	LastSeenAt      *string `json:"lastSeenAt"`
	CreatedAt       string  `json:"createdAt"`
	ThisDevice      bool    `json:"thisDevice"`
	Removable       bool    `json:"removable"`
	RemovableReason string  `json:"removableReason,omitempty"`
}

type devicesBody struct {
	Removed []string     `json:"removed"`
	Devices []deviceBody `json:"devices"`
}

func devicesOf(removed []relay.MailboxID, list []pairing.Entry) devicesBody {
	out := devicesBody{Removed: make([]string, 0, len(removed)), Devices: make([]deviceBody, 0, len(list))}
	for _, id := range removed {
		out.Removed = append(out.Removed, string(id))
	}
	for _, e := range list {
		out.Devices = append(out.Devices, deviceBody{
			ID: string(e.ID), Name: textOrNull(e.Name), Online: e.Online,
			LastSeenAt: textOrNull(optionalTime(e.LastSeenAt)), CreatedAt: relay.Timestamp(e.CreatedAt),
			ThisDevice: e.This, Removable: e.Reason != "", RemovableReason: e.Reason,
		})
	}
	return out
}

func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (a *API) devices(w http.ResponseWriter, r *http.Request, p credential.Principal, now time.Time) error {
	list, err := a.Pairing.List(r.Context(), p.Mailbox, now)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, devicesOf(nil, list))
}

func (a *API) prune(w http.ResponseWriter, r *http.Request, p credential.Principal, now time.Time) error {
	removed, list, err := a.Pairing.Prune(r.Context(), p.Mailbox, now)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, devicesOf(removed, list))
}

type removedBody struct {
	Removed []string `json:"removed"`
}

func (a *API) removeDevice(w http.ResponseWriter, r *http.Request, p credential.Principal, now time.Time) error {
	id, ok := relay.ParseMailboxID(r.PathValue("id"))
	if !ok {
		return noSuchEndpoint()
	}
	if err := a.Pairing.Remove(r.Context(), p.Mailbox, id, now); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, removedBody{[]string{string(id)}})
}

type unpairedBody struct {
	Unpaired bool `json:"unpaired"`
}

func (a *API) unpair(w http.ResponseWriter, r *http.Request, p credential.Principal, _ time.Time) error {
	if err := a.Pairing.Unpair(r.Context(), p); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, unpairedBody{true})
}

func (a *API) startLink(w http.ResponseWriter, r *http.Request, p credential.Principal, now time.Time) error {
	v, err := pairBody(w, r)
	if err != nil {
		return err
	}
	name, _ := v.Text("deviceName")
	code, err := a.Pairing.StartLink(r.Context(), p, name, now)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusCreated, newCodeBody(code))
}

type linkBody struct {
	ID         string  `json:"id"`
	Name       *string `json:"name"`
	Owner      bool    `json:"owner"`
	Online     bool    `json:"online"`
	LastSeenAt *string `json:"lastSeenAt"`
	CreatedAt  string  `json:"createdAt"`
	ThisDevice bool    `json:"thisDevice"`
}

type linksBody struct {
	Links []linkBody `json:"links"`
}

func (a *API) links(w http.ResponseWriter, r *http.Request, p credential.Principal, now time.Time) error {
	list, err := a.Pairing.Linked(r.Context(), p.Mailbox)
	if err != nil {
		return err
	}
	out := linksBody{Links: make([]linkBody, 0, len(list))}
	for _, d := range list {
		out.Links = append(out.Links, linkBody{
			ID: string(d.ID), Name: textOrNull(d.Name), Owner: d.Owner, Online: d.Online(now),
			LastSeenAt: textOrNull(optionalTime(d.LastSeenAt)), CreatedAt: relay.Timestamp(d.CreatedAt), ThisDevice: d.ID == p.Device,
		})
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

type unlinkedBody struct {
	Unlinked bool   `json:"unlinked"`
	ID       string `json:"id"`
}

func (a *API) unlink(w http.ResponseWriter, r *http.Request, p credential.Principal, _ time.Time) error {
	id, ok := relay.ParseDeviceID(r.PathValue("id"))
	if !ok {
		return noSuchEndpoint()
	}
	if err := a.Pairing.Unlink(r.Context(), p, id); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, unlinkedBody{true, string(id)})
}
