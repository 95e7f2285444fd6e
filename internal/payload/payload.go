// Package payload decides what an agent may send: it reads a notification's fields, holds them to the contract's
// whitelist of 25 (section 2.1) and writes the payload that devices get.
//
// The whitelist is security: text and presentation only, nothing that runs. A field outside it refuses the whole
// request. Strings come out trimmed, free of control characters and of the bidirectional controls that can make text
// read as something else, and within their lengths, counted in characters (Unicode code points).
//
// A payload is canonical: its fields in the order of Fields, then speak, then expectReply, compact, and reading it
// again accepts it and changes nothing.
//
// Every refusal is a fault: forbidden_fields for names, invalid_request for values, too_large for size. Refusals name
// all bad fields of a request at once and never repeat a value.
package payload

import (
	"strings"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/strictjson"
)

// MaxIconBytes is the largest icon a data: URL may carry, decoded (contract section 2.1: 256 KB).
const MaxIconBytes = 256 << 10

// iconAllowance is how much of a body an icon's data: URL may take without counting as length: its largest legal
// base64, a sixteenth more for writers that escape slashes, and the prefix with its quotes.
const iconAllowance = maxIconBase64 + maxIconBase64/16 + 64

const maxIconBase64 = (MaxIconBytes + 2) / 3 * 4

// Payload is the validated content of a notification.
type Payload struct {
	AgentID     string // the notificationId, "" when the agent sent none
	JSON        []byte // the validated fields as a compact object; expectReply is always among them
	ExpectReply bool
	Title       string // 1..200 characters, one line
}

// Ceiling is the largest raw body, in bytes, that Parse can accept when all but the icon must fit maxBody. Nothing
// longer needs to be read.
func Ceiling(maxBody int) int64 { return int64(maxBody) + iconAllowance }

// Parse reads a request body in the contract's order (section 2.2): real length, JSON, length without the icon, names
// of the fields, fields. maxBody is in bytes.
func Parse(body []byte, maxBody int) (Payload, error) {
	if int64(len(body)) > Ceiling(maxBody) {
		return Payload{}, tooLarge(len(body)-iconAllowance, maxBody)
	}
	var p Payload
	err := strictjson.WithObject(body, func(v strictjson.Value) (err error) {
		if err = fits(v, len(body), maxBody); err == nil {
			p, err = FromValue(v)
		}
		return err
	})
	return p, err
}

// Fits refuses v as too_large when its text, an icon's data: URL not counted, takes more than maxBody bytes. It is for
// callers of FromValue, whose fields came inside a larger document.
func Fits(v strictjson.Value, maxBody int) error { return fits(v, int(v.Size), maxBody) }

func fits(v strictjson.Value, size, maxBody int) error {
	if size <= maxBody {
		return nil
	}
	icon, _ := v.Typed(fieldIcon.name(), strictjson.String)
	if strings.HasPrefix(strings.TrimSpace(icon.Str), dataScheme) {
		size -= min(int(icon.Size), iconAllowance)
	}
	if size > maxBody {
		return tooLarge(size, maxBody)
	}
	return nil
}

func tooLarge(size, maxBody int) error {
	return fault.New(fault.TooLarge, "too_large",
		"the notification takes %d bytes, the data of an icon not counted, and may take %d; shorten body or speak.text", size, maxBody)
}

// FromValue reads the fields of v, an object, whatever document it came from.
func FromValue(v strictjson.Value) (Payload, error) {
	if v.Kind != strictjson.Object {
		return Payload{}, fault.InvalidRequest("", "a notification must be an object; this is %s", v.Kind.Article())
	}
	d := draft{members: v.Members, out: make([]byte, 0, len(`{"expectReply":false}`)+int(v.Size))}
	if !d.place() {
		return Payload{}, refuseNames(v)
	}
	return d.finish()
}

// draft is a payload in the making. Fields are read in the order of the rules, so that out comes out canonical.
type draft struct {
	members []strictjson.Member
	sent    [fieldCount]int16 // place in members, counted from 1; 0 when absent or null
	out     []byte
	speech
	title, agentID string
	expectReply    bool

	bad    []string // names of the refused fields
	reason string   // what is wrong with the first
}

// finish reads every field and closes the object, or refuses all bad fields together.
func (d *draft) finish() (Payload, error) {
	for f := range fieldCount {
		if at := d.sent[f]; at > 0 {
			rules[f].read(d, &rules[f], &d.members[at-1].Value)
		}
	}
	if d.title == "" && d.sentNothingBad(fieldTitle) {
		d.refuseFirst(&rules[fieldTitle], "it is missing")
	}
	if d.bad != nil {
		return Payload{}, d.refusal()
	}
	d.writeSpeech()
	d.writeFlag(fieldExpectReply.name(), d.expectReply)
	d.out = append(d.out, '}')
	return Payload{
		AgentID: strings.Clone(d.agentID), Title: strings.Clone(d.title),
		JSON: d.out, ExpectReply: d.expectReply,
	}, nil
}

func (d *draft) sentNothingBad(f field) bool { return len(d.bad) == 0 || d.bad[0] != f.name() }

// refuse records that the value of a field broke its rule. problem completes "…; it is a number".
func (d *draft) refuse(name, need, problem string) {
	if d.bad == nil {
		d.reason = name + " must be " + need + "; " + problem
	}
	d.bad = append(d.bad, name)
}

// refuseFirst is refuse for a field that comes before those already refused.
func (d *draft) refuseFirst(r *rule, problem string) {
	others := d.bad
	d.bad = nil
	d.refuse(r.name, r.need, problem)
	d.bad = append(d.bad, others...)
}

func (d *draft) refusal() error {
	detail := d.reason
	if more := d.bad[1:]; len(more) > 0 {
		detail += ". Wrong too: " + strings.Join(more, ", ")
	}
	return fault.InvalidRequest("", "%s", detail).WithFields(d.bad...)
}
