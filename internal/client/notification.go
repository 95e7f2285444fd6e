package client

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Notification is what an agent sends and a device shows: the fields of POST /v1/notify (contract section 2.1). Only
// Title is required. The relay judges the values; nothing is checked here.
type Notification struct {
	Title           string     `json:"title"`
	Body            string     `json:"body,omitzero"`
	Subtitle        string     `json:"subtitle,omitzero"`
	Status          string     `json:"status,omitzero"`
	Project         string     `json:"project,omitzero"`
	Session         string     `json:"session,omitzero"`
	Task            string     `json:"task,omitzero"`
	Tool            string     `json:"tool,omitzero"`
	Group           string     `json:"group,omitzero"`
	Duration        string     `json:"duration,omitzero"`
	Link            string     `json:"link,omitzero"`
	NotificationID  string     `json:"notificationId,omitzero"`
	Tags            []string   `json:"tags,omitzero"`
	Priority        string     `json:"priority,omitzero"` // low, normal, high, urgent
	Persistent      *bool      `json:"persistent,omitzero"`
	TimeoutSeconds  float64    `json:"timeoutSeconds,omitzero"`
	Sound           string     `json:"sound,omitzero"`
	Presentation    string     `json:"presentation,omitzero"` // banner, voice, both
	Icon            string     `json:"icon,omitzero"`
	ImageURL        string     `json:"imageURL,omitzero"`
	Speak           *Speak     `json:"speak,omitzero"`
	Voice           string     `json:"voice,omitzero"`
	Speed           float64    `json:"speed,omitzero"`
	ExpectReply     bool       `json:"expectReply"`
	AllowVoiceReply *bool      `json:"allowVoiceReply,omitzero"`
	Extra           ExtraField `json:",embed"`
}

// ExtraField holds members that have no field above.
type ExtraField map[string]jsontext.Value

// Speak asks for speech. The zero value speaks the title, then the body; Off forbids speech whatever else asks for it.
type Speak struct {
	Off   bool
	Text  string
	Voice string
	Lang  string  // such as en-us
	Speed float64 // 0.5 to 2; 0 means normal
}

type speakObject struct {
	Text  string  `json:"text,omitzero"`
	Voice string  `json:"voice,omitzero"`
	Lang  string  `json:"lang,omitzero"`
	Speed float64 `json:"speed,omitzero"`
}

// MarshalJSON writes false, true or an object, the shapes that the wire knows.
func (s Speak) MarshalJSON() ([]byte, error) {
	switch s {
	case Speak{}:
		return []byte("true"), nil
	case Speak{Off: true}:
		return []byte("false"), nil
	}
	if s.Off {
		return nil, errors.New("speak is off and says what to speak")
	}
	return json.Marshal(speakObject{s.Text, s.Voice, s.Lang, s.Speed})
}

// UnmarshalJSON reads a boolean, a string or an object.
func (s *Speak) UnmarshalJSON(data []byte) error {
	switch kind := jsontext.Value(bytes.TrimSpace(data)).Kind(); kind {
	case 't':
		*s = Speak{}
		return nil
	case 'f', 'n':
		*s = Speak{Off: true}
		return nil
	case '"':
		*s = Speak{}
		return json.Unmarshal(data, &s.Text)
	}
	var o speakObject
	if err := json.Unmarshal(data, &o); err != nil {
		return err
	}
	*s = Speak{Text: o.Text, Voice: o.Voice, Lang: o.Lang, Speed: o.Speed}
	return nil
}

// Override replaces fields by JSON values, by their wire names; names without a field go to Extra. A value that does not
// fit its field is an error that names it.
func (n *Notification) Override(values ExtraField) error {
	whole, err := json.Marshal(n)
	if err != nil {
		return err
	}
	var fields ExtraField
	if err := json.Unmarshal(whole, &fields); err != nil {
		return err
	}
	maps.Copy(fields, values)
	if whole, err = json.Marshal(fields); err != nil {
		return err
	}
	var out Notification
	if err := json.Unmarshal(whole, &out); err != nil {
		if e, ok := errors.AsType[*json.SemanticError](err); ok {
			return fmt.Errorf("the field %s does not take a JSON %s", strings.TrimPrefix(string(e.JSONPointer), "/"), e.JSONKind)
		}
		return err
	}
	*n = out
	return nil
}
