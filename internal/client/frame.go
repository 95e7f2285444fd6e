package client

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Frame is one message of the relay on a stream: a Welcome, Notified, RepliedElsewhere, Asked,
// Resolved, Pong or Other.
type Frame interface{ frame() }

// Welcome opens every stream.
type Welcome struct {
	TTLSeconds int64 `json:"ttlSeconds"` // how long a notification waits for a device
}

// Notified brings a notification.
type Notified struct {
	ID             string       `json:"id"`             // the relay's, r_…, which reports take
	NotificationID string       `json:"notificationId"` // the agent's
	CreatedAt      time.Time    `json:"createdAt"`
	Key            Sender       `json:"key"`
	Payload        Notification `json:"payload"`
}

// Sender is the key that sent a notification.
type Sender struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Client string `json:"client"`
}

// RepliedElsewhere tells that another device of the mailbox answered.
type RepliedElsewhere struct {
	ID string `json:"id"`
	// By is the name of that device, "" when the relay does not tell.
	By string `json:"by,omitzero"`
}

// Pong answers the text ping.
type Pong struct{}

// Other is a frame of a type that this program does not know. It changes nothing.
type Other struct{ Type string }

func (Welcome) frame()          {}
func (Notified) frame()         {}
func (RepliedElsewhere) frame() {}
func (Pong) frame()             {}
func (Other) frame()            {}

// BadNotification is a notification that cannot be read, of which at least the id is known.
type BadNotification struct {
	ID  string
	Err error
}

// Error says what is wrong.
func (e *BadNotification) Error() string {
	return "unreadable notification " + e.ID + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *BadNotification) Unwrap() error { return e.Err }

// ReadFrame decodes one text message of the relay. An unreadable notification is a *BadNotification.
func ReadFrame(text []byte) (Frame, error) {
	if string(text) == "pong" {
		return Pong{}, nil
	}
	var head struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, err
	}
	switch head.Type {
	case "welcome":
		return decode[Welcome](text)
	case "replied":
		return decode[RepliedElsewhere](text)
	case "consent":
		return decode[Asked](text)
	case "consent_resolved":
		return decode[Resolved](text)
	case "notify":
		f, err := decode[Notified](text)
		if err == nil && f.(Notified).ID == "" {
			err = errors.New("it has no id")
		}
		if err != nil && head.ID != "" {
			err = &BadNotification{head.ID, err}
		}
		return f, err
	case "":
		return nil, errors.New("a frame without a type")
	}
	return Other{head.Type}, nil
}

func decode[F Frame](text []byte) (Frame, error) {
	var f F
	err := json.Unmarshal(text, &f)
	return f, err
}

// What a device says on its stream.
type (
	stateMessage struct {
		Type  string `json:"type"` // hello, status
		State `json:",embed"`
	}
	ackMessage struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	}
	reportMessage struct {
		Type   string `json:"type"`
		Report `json:",embed"`
	}
)

// encode writes a message of ours. All of them are plain structs of valid text, so it cannot fail.
func encode(message any) jsontext.Value {
	data, err := json.Marshal(message, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic("encode a stream message: " + err.Error())
	}
	return data
}
