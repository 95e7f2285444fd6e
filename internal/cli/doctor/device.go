package doctor

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/herald-relay/herald/internal/cli/profile"
	"github.com/herald-relay/herald/internal/client"
)

// Profile judges how reading this machine's profile went.
func (r *Report) Profile(p profile.Profile, err error) {
	switch {
	case errors.Is(err, profile.ErrNone):
		r.note("profile", "this machine is not paired")
	case err != nil:
		r.fail("profile", err.Error(), "mend it, or pair again with herald pair LINK --replace")
	default:
		r.pass("profile", "paired with "+p.Relay+" as "+p.Name)
	}
}

// Senses tells what this machine can do as a device; speaker is "" when nothing can speak.
func (r *Report) Senses(speaker, speakers string, desktop bool) {
	if speaker != "" {
		r.pass("speech", speaker)
	} else {
		r.note("speech", "nothing here can speak; "+speakers+" would do")
	}
	if desktop {
		r.pass("desktop", "there is one to show notifications on")
	} else {
		r.note("desktop", "there is none; notifications are shown in the terminal only")
	}
}

// webSocket learns whether WebSockets get through, without taking the place of a stream that is open.
func (x *outside) webSocket(ctx context.Context) {
	switch {
	case x.DeviceToken == "":
		x.note("stream", "whether WebSockets get through is only seen with a device's token: run herald doctor on a paired machine")
		return
	case x.failed("http") || x.failed("authorization"):
		x.note("stream", "not looked at, since what it needs failed before")
		return
	}
	d := x.relay.Device(x.DeviceToken)
	if _, err := d.Info(ctx); err != nil {
		x.fail("device token", err.Error(), fixFor(err, "pair again with herald pair LINK --replace", "unauthorized", "wrong_credential"))
		return
	}
	x.pass("device token", "the relay knows this device")
	links, err := d.Links(ctx)
	if err == nil {
		for _, l := range links {
			if l.ThisDevice && l.Online {
				x.pass("stream", "this device is connected")
				return
			}
		}
	} else if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != http.StatusNotFound {
		x.warn("stream", err.Error(), "try again")
		return
	}
	if err := d.ProbeStream(ctx); err != nil {
		x.fail("stream", err.Error(), fixFor(err, x.fix(advice{
			general:    "let the proxy in front of the relay pass WebSockets: Upgrade and Connection headers, and long idle times",
			nginx:      "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade; proxy_read_timeout 900s;",
			cloudflare: "Network, WebSockets: on",
		}), "", "upgrade_required"))
		return
	}
	x.pass("stream", "WebSockets get through")
}

// fixFor is the fix when err has one of the codes; any other refusal is the relay's own trouble.
func fixFor(err error, fix string, codes ...string) string {
	if slices.Contains(codes, client.Code(err)) {
		return fix
	}
	return "the relay's log tells the cause; herald doctor on its machine looks closer"
}
