package payload

import (
	"errors"
	"slices"
	"strings"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/strictjson"
)

// place finds which field each member is. It reports false when any name is unknown, repeated or ambiguous; which, and
// what is said about it, is for refuseNames.
func (d *draft) place() bool {
	var seen [fieldCount]bool
	for i := range d.members {
		f, known := fieldOf(d.members[i].Name)
		if !known || seen[f] {
			return false
		}
		seen[f] = true
		v := &d.members[i].Value
		if f == fieldSpeak && !distinctSpeakKeys(v.Members) {
			return false
		}
		if v.Kind != strictjson.Null {
			d.sent[f] = int16(i + 1)
		}
	}
	return true
}

func distinctSpeakKeys(members []strictjson.Member) bool {
	for i := range members {
		name := members[i].Name
		if !slices.Contains(speakKeys, name) {
			return false
		}
		if slices.ContainsFunc(members[:i], func(m strictjson.Member) bool { return m.Name == name }) {
			return false
		}
	}
	return true
}

// dangerous are the names that a refusal singles out (contract section 2.1): each would let an agent run, open or
// restyle something on the device.
var dangerous = strings.Fields(`command commands cmd script scripts shortcut shortcuts exec run callback callbacks webhook url path
	open openApp buttons actions actionIds action reminder snooze audio image template templateName layout app appId metadata
	accentColor followUp follow_up followup`)

// Dangerous lists the names whose refusal says that they are refused for safety. The result is the caller's.
func Dangerous() []string { return slices.Clone(dangerous) }

// errNames is what refuseNames falls back on should place and it ever disagree: the request stays refused.
var errNames = errors.New("field names refused without a reason")

// refuseNames explains why place refused v: all unknown names first and together, those inside speak as speak.<name>,
// then repeats and case variants (decision 30).
func refuseNames(v strictjson.Value) error {
	names := Names()
	unknown := v.Unknown("", names)
	speaks := speakObjects(v)
	for _, s := range speaks {
		for _, name := range s.Unknown("speak.", speakKeys) {
			if !slices.Contains(unknown, name) {
				unknown = append(unknown, name)
			}
		}
	}
	if unknown != nil {
		return forbidden(unknown, names)
	}
	if err := v.RefuseRepeats(names); err != nil {
		return err
	}
	for _, s := range speaks {
		if err := s.RefuseRepeatsAt("speak.", speakKeys); err != nil {
			return err
		}
	}
	return errNames
}

func speakObjects(v strictjson.Value) (list []strictjson.Value) {
	for _, m := range v.Members {
		if m.Name == fieldSpeak.name() && m.Value.Kind == strictjson.Object {
			list = append(list, m.Value)
		}
	}
	return list
}

func forbidden(unknown, accepted []string) *fault.Error {
	refusal := strictjson.Forbidden(unknown)
	risky := slices.DeleteFunc(slices.Clone(unknown), func(name string) bool { return !slices.Contains(dangerous, name) })
	if len(risky) > 0 {
		refusal.Detail += ". Refused for safety, because a notification may not run, open or restyle anything on a device: " +
			strings.Join(risky, ", ")
	}
	refusal.Detail += ". Accepted: " + strings.Join(accepted, ", ") + "; and inside speak: " + strings.Join(speakKeys, ", ")
	return refusal
}
