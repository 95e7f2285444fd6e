package payload

import (
	"github.com/herald-relay/herald/internal/strictjson"
)

// field is a place in the whitelist, and the order in which payloads are written.
type field uint8

const (
	fieldTitle field = iota
	fieldBody
	fieldSubtitle
	fieldStatus
	fieldProject
	fieldSession
	fieldTask
	fieldTool
	fieldGroup
	fieldDuration
	fieldLink
	fieldNotificationID
	fieldTags
	fieldPriority
	fieldPersistent
	fieldTimeoutSeconds
	fieldSound
	fieldPresentation
	fieldIcon
	fieldImageURL
	fieldAllowVoiceReply
	fieldSpeak
	fieldVoice
	fieldSpeed
	fieldExpectReply
	fieldCount
)

func (f field) name() string { return rules[f].name }

// rule is one row of the whitelist. need completes "<name> must be …" in refusals and documents the field.
type rule struct {
	at    field
	name  string
	types []string
	need  string
	use   string
	read  func(d *draft, r *rule, v *strictjson.Value)
}

var rules = whitelist()

// whitelist builds the table. Lengths are the contract's (section 2.1).
func whitelist() [fieldCount]rule {
	table := [fieldCount]rule{
		fieldTitle:    text("title", line(200), "What it is about; required"),
		fieldBody:     text("body", lines(8000), "The details"),
		fieldSubtitle: text("subtitle", line(200), "A second line below the title"),
		fieldStatus:   text("status", status, "A badge, stored in lower case; it has no meaning to the relay"),
		fieldProject:  text("project", line(100), "Label: which project"),
		fieldSession:  text("session", line(100), "Label: which session of the agent"),
		fieldTask:     text("task", line(100), "Label: which task"),
		fieldTool:     text("tool", line(100), "Label: which tool"),
		fieldGroup:    text("group", line(100), "Notifications of one group are stacked by the device"),
		fieldDuration: {name: "duration", types: []string{"string", "number"}, need: "text of at most 40 characters or a number",
			use: "How long the work took; a number is stored as its text", read: readDuration},
		fieldLink:           text("link", link, `What the "Open link" button opens`),
		fieldNotificationID: text("notificationId", notificationID, "The agent's own id: a repeat within 24 hours is not sent again. The relay makes one when it is missing"),
		fieldTags: {name: "tags", types: []string{"array"}, need: "at most 10 strings of 1 to 32 characters, without commas and not starting with white space",
			use: "Short labels; trimmed at their end, repeats dropped", read: readTags},
		fieldPriority:        text("priority", choice("low", "normal", "high", "urgent"), "urgent may break quiet hours if the person allowed that"),
		fieldPersistent:      flag("persistent", "true keeps it on screen until it is dismissed"),
		fieldTimeoutSeconds:  {name: "timeoutSeconds", types: []string{"number"}, need: timeout.need, use: "When the banner leaves; ignored when persistent is true", read: readTimeout},
		fieldSound:           text("sound", sound, "The name of a sound of the device, default, or none; never a path"),
		fieldPresentation:    text("presentation", choice("banner", "voice", "both"), "voice and both turn speech on"),
		fieldIcon:            text("icon", icon, "A picture beside the text"),
		fieldImageURL:        text("imageURL", link, "A larger picture"),
		fieldAllowVoiceReply: flag("allowVoiceReply", "false hides the Record button; true when missing"),
		fieldSpeak: {name: "speak", types: []string{"boolean", "string", "object"},
			need: "true, false, text of at most 2000 characters, or an object with text, voice, speed and lang",
			use:  "true speaks title and body, text is spoken in their place, false turns speech off whatever else asks for it", read: readSpeak},
		fieldVoice:       {name: "voice", types: []string{"string"}, need: voice.need, use: "As speak.voice, unless that is sent; turns speech on", read: readVoice},
		fieldSpeed:       {name: "speed", types: []string{"number"}, need: speed.need, use: "As speak.speed, unless that is sent; turns speech on", read: readSpeed},
		fieldExpectReply: {name: "expectReply", types: []string{"boolean"}, need: needFlag, use: "true adds Reply and Record buttons; false when missing", read: readExpectReply},
	}
	for f := range fieldCount {
		table[f].at = f
	}
	return table
}

// fieldOf finds a field by its exact name. A switch takes a fifth of the time of a map here.
func fieldOf(name string) (f field, known bool) {
	switch name {
	case "title":
		return fieldTitle, true
	case "body":
		return fieldBody, true
	case "subtitle":
		return fieldSubtitle, true
	case "status":
		return fieldStatus, true
	case "project":
		return fieldProject, true
	case "session":
		return fieldSession, true
	case "task":
		return fieldTask, true
	case "tool":
		return fieldTool, true
	case "group":
		return fieldGroup, true
	case "duration":
		return fieldDuration, true
	case "link":
		return fieldLink, true
	case "notificationId":
		return fieldNotificationID, true
	case "tags":
		return fieldTags, true
	case "priority":
		return fieldPriority, true
	case "persistent":
		return fieldPersistent, true
	case "timeoutSeconds":
		return fieldTimeoutSeconds, true
	case "sound":
		return fieldSound, true
	case "presentation":
		return fieldPresentation, true
	case "icon":
		return fieldIcon, true
	case "imageURL":
		return fieldImageURL, true
	case "allowVoiceReply":
		return fieldAllowVoiceReply, true
	case "speak":
		return fieldSpeak, true
	case "voice":
		return fieldVoice, true
	case "speed":
		return fieldSpeed, true
	case "expectReply":
		return fieldExpectReply, true
	}
	return 0, false
}

// speakKeys are the members an object in speak may have.
var speakKeys = []string{"text", "voice", "speed", "lang"}

// Field documents one field of a notification.
type Field struct {
	Name  string
	Types []string // JSON types a value may have; null is always allowed and means absent
	Need  string   // completes "<name> must be …"
	Use   string   // what the field is for
}

// Fields lists the whitelist in the order in which payloads are written. The result is the caller's.
func Fields() []Field {
	list := make([]Field, fieldCount)
	for f, r := range rules {
		list[f] = Field{r.name, r.types, r.need, r.use}
	}
	return list
}

// SpeakFields lists what an object in speak may hold. The result is the caller's.
func SpeakFields() []Field {
	return []Field{
		{"text", []string{"string"}, spokenText.need, "What is spoken in place of title and body"},
		{"voice", []string{"string"}, voice.need, "The name of a voice, such as af_heart"},
		{"speed", []string{"number"}, speed.need, "How fast; 1 is normal"},
		{"lang", []string{"string"}, lang.need, "The language of the text"},
	}
}

// Names lists the names of Fields. The result is the caller's.
func Names() []string {
	list := make([]string, fieldCount)
	for f, r := range rules {
		list[f] = r.name
	}
	return list
}
