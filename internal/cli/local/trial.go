package local

import (
	"context"
	"errors"
	"regexp"
	"time"

	"github.com/herald-relay/herald/internal/client"
)

// Trial is what became of a test notification.
type Trial struct {
	OK bool `json:"ok"` // a device showed it, or held it back as the person wished
	// State is displayed, suppressed, or queued when no device took it in time.
	State   string `json:"state"`
	Reason  string `json:"reason,omitzero"` // of a suppressed one
	Message string `json:"message"`
}

// How long a trial waits for a device, and between looks.
const (
	trialWithin = 10 * time.Second
	firstLook   = 100 * time.Millisecond
)

// trialKey is the name of keys that trials make; one that is left over from a trial that was killed goes with the next.
var trialKey = regexp.MustCompile(`^herald-test-[0-9a-f]{8}$`)

// leftOver is the age of a trial's key that no trial uses any more.
const leftOver = time.Hour

// Test sends a notification the whole way: with a key made for it, through the relay, to the devices. The key and the
// notification are removed afterwards, so it leaves nothing but what a device showed.
func (l *Local) Test(ctx context.Context) (t Trial, err error) {
	r, p, err := l.opt.Open()
	if err != nil {
		return t, err
	}
	d := r.Device(p.Token)
	if err := tidy(ctx, d); err != nil {
		return t, err
	}
	k, err := d.CreateKey(ctx, "herald-test-"+randomHex(4), "")
	if err != nil {
		return t, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callWithin)
		defer cancel()
		err = errors.Join(err, d.RevokeKey(ctx, k.ID, true))
	}()
	info, err := d.Info(ctx)
	if err != nil {
		return t, err
	}
	a := r.Agent(k.Key)
	sent, err := a.Notify(ctx, client.Notification{Title: "Herald works", Body: "This test came from a program on this machine, by way of the relay."})
	if err != nil {
		return t, err
	}
	within := trialWithin
	if !info.Online {
		within = 0
	}
	receipt, err := followUp(ctx, a, sent.Receipt, within)
	return judge(receipt, info.Online), err
}

// tidy removes the keys of trials that could not.
func tidy(ctx context.Context, d *client.Device) error {
	keys, err := d.Keys(ctx)
	for _, k := range keys {
		if err == nil && trialKey.MatchString(k.Name) && time.Since(k.CreatedAt) > leftOver {
			err = d.RevokeKey(ctx, k.ID, true)
		}
	}
	return err
}

// followUp reads the receipt until a device dealt with the notification or the time is over.
func followUp(ctx context.Context, a *client.Agent, r client.Receipt, within time.Duration) (client.Receipt, error) {
	deadline := time.Now().Add(within)
	for pause := firstLook; !r.Displayed && !r.Suppressed && time.Now().Before(deadline); pause *= 2 {
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(min(pause, time.Until(deadline))):
		}
		var err error
		if r, err = a.Receipt(ctx, r.NotificationID); err != nil {
			return r, err
		}
	}
	return r, nil
}

func judge(r client.Receipt, online bool) Trial {
	switch {
	case r.Displayed:
		return Trial{OK: true, State: "displayed", Message: "a device showed the notification"}
	case r.Suppressed:
		return Trial{OK: true, State: "suppressed", Reason: r.Reason, Message: "a device received the notification and held it back, as it is set to"}
	case online:
		return Trial{State: "queued", Message: "the relay took the notification, and a device is connected, but none showed it in time"}
	}
	return Trial{State: "queued", Message: "the relay took the notification, and no device is connected to show it: run herald listen"}
}
