package cli

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/herald-relay/herald/internal/client"
)

// fieldFlags are the fields of a notification. The relay judges their values.
type fieldFlags struct {
	Title string `arg:"" optional:"" help:"The title, at most 200 characters."`
	Text  string `arg:"" optional:"" name:"body" help:"The body, at most 8000 characters; - reads it from standard input."`

	Subtitle       string            `group:"field" placeholder:"TEXT" help:"A line below the title."`
	Priority       string            `group:"field" placeholder:"HOW" help:"low, normal, high or urgent."`
	Status         string            `group:"field" placeholder:"WORD" help:"A badge, such as done or failed."`
	Project        string            `group:"field" placeholder:"TEXT" help:"The project it is about."`
	Session        string            `group:"field" placeholder:"TEXT" help:"The agent's session."`
	Task           string            `group:"field" placeholder:"TEXT" help:"The task within it."`
	Tool           string            `group:"field" placeholder:"TEXT" help:"The tool that was used."`
	Group          string            `group:"field" placeholder:"TEXT" help:"Notifications of one group stack."`
	Tags           []string          `name:"tag" group:"field" placeholder:"WORD" help:"A tag; give the flag again for more, up to ten."`
	Duration       string            `group:"field" placeholder:"TEXT" help:"How long something took, such as 3 min."`
	Link           string            `group:"field" placeholder:"URL" help:"An https address to open."`
	ID             string            `name:"id" group:"field" placeholder:"ID" help:"The notificationId. Sending the same one again within a day sends nothing new."`
	Persistent     bool              `group:"field" help:"Stay until dismissed."`
	TimeoutSeconds float64           `group:"field" placeholder:"N" help:"Leave the screen after 1 to 3600 seconds."`
	Sound          string            `group:"field" placeholder:"NAME" help:"A sound of the device, default or none."`
	Presentation   string            `group:"field" placeholder:"HOW" help:"banner, voice or both."`
	Icon           string            `group:"field" placeholder:"URL|FILE" help:"An https address, or a small picture file to embed."`
	Image          string            `name:"image-url" group:"field" placeholder:"URL" help:"An https address of a picture."`
	Speak          bool              `group:"field" help:"Speak the title, then the body."`
	Say            string            `group:"field" placeholder:"TEXT" help:"Speak this text."`
	Silent         bool              `group:"field" help:"Do not speak, whatever else asks for it."`
	Voice          string            `group:"field" placeholder:"NAME" help:"A voice of the device, such as af_heart."`
	Speed          float64           `group:"field" placeholder:"N" help:"Speed of speech, 0.5 to 2."`
	Lang           string            `group:"field" placeholder:"CODE" help:"Language of speech, such as en-us."`
	NoVoiceReply   bool              `group:"field" help:"Offer no recording of a voice reply."`
	Field          map[string]string `group:"field" mapsep:"none" placeholder:"NAME=JSON" help:"Any field as JSON, such as --field tags='[\"ci\"]'; wins over the other flags."`
}

// notification gathers the fields.
func (f *fieldFlags) notification(w *World) (client.Notification, error) {
	n := client.Notification{
		Title: f.Title, Body: f.Text, Subtitle: f.Subtitle, Priority: f.Priority, Status: f.Status, Project: f.Project,
		Session: f.Session, Task: f.Task, Tool: f.Tool, Group: f.Group, Tags: f.Tags, Duration: f.Duration, Link: f.Link,
		NotificationID: f.ID, TimeoutSeconds: f.TimeoutSeconds, Sound: f.Sound, Presentation: f.Presentation,
		Icon: f.Icon, ImageURL: f.Image, Voice: f.Voice, Speed: f.Speed,
	}
	if f.Persistent {
		n.Persistent = new(true)
	}
	if f.NoVoiceReply {
		n.AllowVoiceReply = new(false)
	}
	var err error
	if f.Text == "-" {
		if n.Body, err = readSmall(w, "-"); err != nil {
			return n, err
		}
	}
	if n.Speak, err = f.speak(); err != nil {
		return n, err
	}
	if n.Icon, err = icon(f.Icon); err != nil {
		return n, err
	}
	if err := f.override(&n); err != nil {
		return n, err
	}
	if n.Title == "" {
		return n, &outcome{status: statusUsage, text: "there is no title", hint: "give it as the first argument"}
	}
	return n, nil
}

func (f *fieldFlags) speak() (*client.Speak, error) {
	asked := f.Speak || f.Say != "" || f.Lang != ""
	switch {
	case f.Silent && asked:
		return nil, &outcome{status: statusUsage, text: "--silent cannot be with --speak, --say or --lang"}
	case f.Silent:
		return &client.Speak{Off: true}, nil
	case asked:
		return &client.Speak{Text: f.Say, Lang: f.Lang}, nil
	}
	return nil, nil
}

// override lets --field replace what other flags set.
func (f *fieldFlags) override(n *client.Notification) error {
	if len(f.Field) == 0 {
		return nil
	}
	extra := client.ExtraField{}
	for name, text := range f.Field {
		v := jsontext.Value(text)
		if !v.IsValid() {
			return &outcome{status: statusUsage, text: fmt.Sprintf("--field %s is not JSON", name),
				hint: fmt.Sprintf("a text stands in quotes: --field %s='\"text\"'", name)}
		}
		extra[name] = v
	}
	if err := n.Override(extra); err != nil {
		return &outcome{status: statusUsage, text: err.Error()}
	}
	return nil
}

// maxIcon is how large an embedded picture may be.
const maxIcon = 256 << 10

// icon passes an address through and embeds a file.
func icon(value string) (string, error) {
	if value == "" || strings.HasPrefix(value, "https:") || strings.HasPrefix(value, "data:") {
		return value, nil
	}
	f, err := os.Open(value)
	if err != nil {
		return "", fmt.Errorf("read the icon: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxIcon+1))
	if err != nil {
		return "", fmt.Errorf("read the icon: %w", err)
	}
	if len(data) > maxIcon {
		return "", failed("make it smaller, or give an https address", "the icon has more than %d bytes", maxIcon)
	}
	kind := http.DetectContentType(data)
	switch kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data), nil
	}
	return "", failed("use PNG, JPEG, GIF or WebP", "the icon %s is no picture", value)
}
