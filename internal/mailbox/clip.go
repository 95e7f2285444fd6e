package mailbox

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/herald-relay/herald/internal/clips"
	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/relay"
	"github.com/herald-relay/herald/internal/store"
)

// MaxClipBytes bounds one voice clip.
const MaxClipBytes = 1 << 20

// Upload is a voice clip on its way in.
type Upload struct {
	Declared int64     // length the sender announced, -1 when it did not
	Label    string    // media type the sender claims
	Body     io.Reader // the bytes
}

// StoreClip keeps a clip as the voice of a notification's reply and returns its size. A newer clip takes the place of
// the older. Refusals in the order of the contract's section 6.5: unknown id, declared length, daily count,
// empty, real size, daily bytes, media type.
func (s *Service) StoreClip(ctx context.Context, m relay.MailboxID, id relay.NotificationID, up Upload, now time.Time) (int64, error) {
	if _, err := s.find(ctx, m, id); err != nil {
		return 0, unknownNotification(err)
	}
	if up.Declared > MaxClipBytes {
		return 0, clipTooLarge()
	}
	if err := s.clipsLeft(ctx, m, now); err != nil {
		return 0, err
	}
	data, err := io.ReadAll(io.LimitReader(up.Body, MaxClipBytes+1))
	switch {
	case err != nil:
		return 0, fault.InvalidRequest("", "the clip's bytes did not arrive whole; send them again").Because(err)
	case len(data) == 0:
		return 0, fault.InvalidRequest("", "the clip is empty; send the recorded bytes as the request body")
	case len(data) > MaxClipBytes:
		return 0, clipTooLarge()
	}
	return int64(len(data)), s.keepClip(ctx, m, id, data, up.Label, now)
}

// keepClip writes the file aside, commits the fact, then puts the file in place: a crash in between leaves a repeatable
// upload, never a lost one, because the device is answered last.
func (s *Service) keepClip(ctx context.Context, m relay.MailboxID, id relay.NotificationID, data []byte, label string, now time.Time) error {
	kind, known := clips.Identify(data, label)
	aside, err := s.Clips.Write(m, id, kind, data, now)
	if err != nil {
		return err
	}
	defer aside.Discard()
	err = s.Store.Update(ctx, func(tx store.Tx) error {
		n, err := tx.Notifications().Get(m, id)
		if err != nil {
			return unknownNotification(err)
		}
		if err := s.chargeClip(tx, m, int64(len(data)), now); err != nil {
			return err
		}
		if !known {
			return fault.New(fault.Unsupported, "unsupported_media_type",
				"a clip must be audio/mp4, audio/x-m4a or audio/aac, or be recorded as audio/webm or audio/ogg")
		}
		n.ClipBytes, n.ClipType = int64(len(data)), kind
		return tx.Notifications().Save(n)
	})
	if refused(err) {
		return err
	}
	return cmp.Or(err, aside.Keep()) // a commit whose answer was lost must not lack its file
}

// refused tells a refusal, after which nothing was stored, from a failure, after which something may have been.
func refused(err error) bool {
	kind := fault.From(err).Kind
	return err != nil && kind != fault.Internal && kind != fault.Unavailable
}

// clipsLeft judges the daily count before any byte is read.
func (s *Service) clipsLeft(ctx context.Context, m relay.MailboxID, now time.Time) error {
	return s.Store.View(ctx, func(tx store.Tx) error {
		used, err := tx.Usage().Get(m, relay.Day(now))
		if err == nil && used.AudioUploads >= s.Limits.ClipsPerDay {
			err = clipCap("this mailbox took its %d voice clips of today", s.Limits.ClipsPerDay, now)
		}
		return err
	})
}

// chargeClip judges count and bytes exactly, in the transaction that counts them.
func (s *Service) chargeClip(tx store.Tx, m relay.MailboxID, size int64, now time.Time) error {
	day := relay.Day(now)
	used, err := tx.Usage().Get(m, day)
	switch {
	case err != nil:
		return err
	case used.AudioUploads >= s.Limits.ClipsPerDay:
		return clipCap("this mailbox took its %d voice clips of today", s.Limits.ClipsPerDay, now)
	case used.AudioBytes+size > s.Limits.ClipBytesPerDay:
		return clipCap("this clip would pass today's limit of %d bytes of voice", s.Limits.ClipBytesPerDay, now)
	}
	return tx.Usage().Add(m, day, relay.Usage{AudioUploads: 1, AudioBytes: size})
}

func clipTooLarge() error {
	return fault.New(fault.TooLarge, "too_large", "a clip may have at most %d bytes; record a shorter one", MaxClipBytes)
}

func clipCap(detail string, limit int64, now time.Time) error {
	return fault.New(fault.Exhausted, "daily_cap", detail+"; it takes more after midnight UTC", limit).
		WithRetry(relay.CeilSeconds(relay.UntilNextDay(now)), true)
}
