package payload

import (
	"github.com/herald-relay/herald/internal/strictjson"
)

// speech gathers what is said about speech in speak, voice, speed and presentation (contract section 2.1, speech
// rules): any of them turns it on, an explicit false turns it off whatever the others say, and values inside speak win
// over those beside it.
type speech struct {
	on, off           bool
	text, voice, lang string
	speed             float64 // 0 for none
}

// readSpeak comes before readVoice and readSpeed, so that what it finds is there for them to leave alone.
func readSpeak(d *draft, r *rule, v *strictjson.Value) {
	switch v.Kind {
	case strictjson.Bool:
		d.speech.on, d.speech.off = d.speech.on || v.Bool, !v.Bool
	case strictjson.String:
		d.speech.text = d.text(r.name, form{r.need, spokenText.check}, v)
		d.speech.on = d.speech.on || d.speech.text != ""
	case strictjson.Object:
		d.speech.on = true
		for i := range v.Members {
			if m := &v.Members[i]; m.Value.Kind != strictjson.Null {
				d.readInsideSpeak(m.Name, &m.Value)
			}
		}
	default:
		d.refuse(r.name, r.need, "it is "+v.Kind.Article())
	}
}

func (d *draft) readInsideSpeak(name string, v *strictjson.Value) {
	switch name {
	case "text":
		d.speech.text = d.text("speak.text", spokenText, v)
	case "voice":
		d.speech.voice = d.text("speak.voice", voice, v)
	case "lang":
		d.speech.lang = d.text("speak.lang", lang, v)
	case "speed":
		d.speech.speed = d.number("speak.speed", speed, v)
	}
}

func readVoice(d *draft, r *rule, v *strictjson.Value) {
	s := d.text(r.name, voice, v)
	d.speech.on = d.speech.on || s != ""
	if d.speech.voice == "" {
		d.speech.voice = s
	}
}

func readSpeed(d *draft, r *rule, v *strictjson.Value) {
	n := d.number(r.name, speed, v)
	d.speech.on = d.speech.on || n != 0
	if d.speech.speed == 0 {
		d.speech.speed = n
	}
}

// writeSpeech writes speak as false, as true when nothing is said beyond that, or as an object.
func (d *draft) writeSpeech() {
	s := &d.speech
	switch {
	case s.off:
		d.writeFlag("speak", false)
	case !s.on:
	case s.text == "" && s.voice == "" && s.lang == "" && s.speed == 0:
		d.writeFlag("speak", true)
	default:
		d.writeSpeechObject()
	}
}

func (d *draft) writeSpeechObject() {
	out := append(d.begin("speak"), '{')
	if d.speech.text != "" {
		out = appendQuoted(append(out, `"text":`...), d.speech.text)
	}
	if d.speech.voice != "" {
		out = appendQuoted(append(comma(out), `"voice":`...), d.speech.voice)
	}
	if d.speech.speed != 0 {
		out = appendNumber(append(comma(out), `"speed":`...), d.speech.speed)
	}
	if d.speech.lang != "" {
		out = appendQuoted(append(comma(out), `"lang":`...), d.speech.lang)
	}
	d.out = append(out, '}')
}
