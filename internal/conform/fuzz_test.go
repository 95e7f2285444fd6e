package conform

import (
	"bytes"
	"encoding/xml"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzStream reads any bytes as a stream: frames are bounded, and their data was there.
func FuzzStream(f *testing.F) {
	f.Add([]byte("data: {\"method\":\"notifications/events/active\",\"params\":{}}\n\n: ping\n\ndata: a\ndata: b\r\n\r\n"))
	f.Add([]byte("data:\n\nevent: x\nid: 1\n\ndata: {"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := &stream{changed: make(chan struct{})}
		s.read(io.NopCloser(bytes.NewReader(raw)))
		list, over, _ := s.all()
		if !over {
			t.Error("it is not over")
		}
		if len(list) > bytes.Count(raw, []byte("\n"))+1 {
			t.Errorf("%d frames of %d lines", len(list), bytes.Count(raw, []byte("\n")))
		}
		for _, frame := range list {
			for line := range strings.SplitSeq(frame.raw, "\n") {
				if !bytes.Contains(raw, []byte(line)) {
					t.Errorf("%q was not there", line)
				}
			}
			_ = frame.meta()
		}
		if tail := s.tail(); !utf8.ValidString(tail) || len(tail) > maxQuoted+40 {
			t.Errorf("%q cannot be shown", tail)
		}
	})
}

// FuzzAnswer reads any bytes as an answer: whatever they are, it can be judged, shown and written, and no secret is shown.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"events":[{"name":"a","delivery":["poll"]}]}}`), false)
	f.Add([]byte(`{"error":{"code":-32602,"message":"x","data":{"reason":"y"}}}`), false)
	f.Add([]byte("data: {\"result\":null}\n\n"), true)
	f.Add([]byte("\x00\xff{whsec_AAAA"), false)
	f.Fuzz(func(t *testing.T, raw []byte, sse bool) {
		r := &run{o: &Options{}, secrets: []string{"whsec_AAAA"}}
		header := http.Header{}
		if sse {
			header.Set("Content-Type", "text/event-stream")
		}
		a := r.read(raw, &http.Response{StatusCode: 200, Header: header}, raw)
		for _, err := range []error{a.wantResult(), a.wantError(-32602), a.wantData("reason"), a.complete(), a.wantEmpty()} {
			if err != nil && !utf8.ValidString(err.Error()) {
				t.Errorf("%q cannot be shown", err)
			}
		}
		if strings.Contains(a.sent, "whsec_AAAA") {
			t.Errorf("%q shows a secret", a.sent)
		}
		places(a.result)
		readType(raw)
		report := &Report{Passages: []Passage{{Results: []Result{{Rule: Rule{Level: Must}, Outcome: Fail, Sent: a.sent, Got: a.String()}}}}}
		var out bytes.Buffer
		if err := report.WriteJUnit(&out); err != nil {
			t.Fatal(err)
		}
		var read suitesXML
		if err := xml.Unmarshal(out.Bytes(), &read); err != nil {
			t.Errorf("%v in %s", err, &out)
		}
	})
}

// FuzzParseChoice reads any words as a choice of rules: one that is taken chooses something.
func FuzzParseChoice(f *testing.F) {
	f.Add("1,5-9,webhook")
	f.Add("poll, push")
	f.Add("9-1,,x")
	f.Fuzz(func(t *testing.T, text string) {
		chosen, err := ParseChoice(text)
		if err != nil {
			return
		}
		for _, r := range Rules() {
			if chosen(&r) {
				return
			}
		}
		t.Errorf("%q chooses nothing", text)
	})
}
