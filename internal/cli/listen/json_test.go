package listen

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// jsonLines decodes what a listener with JSON wrote.
func (s *scene) jsonLines() (list []map[string]any) {
	s.t.Helper()
	for line := range strings.Lines(s.out.String()) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			s.t.Errorf("%v: %q", err, line)
		}
		list = append(list, v)
	}
	return list
}

func TestJSONPrintsFramesAndReportsOnlyWhatItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listening(t, func(o *Options) { o.JSON = true })
		id := s.agent.Send(ask("Ship it?"))
		s.settle()
		s.facts(id, map[string]any{"queued": false, "displayed": false, "replied": false})
		var relayID string
		var kinds strings.Builder
		for _, v := range s.jsonLines() {
			kind, _ := v["type"].(string)
			remark, _ := v["herald"].(string)
			kinds.WriteString(kind + remark + " ")
			if kind == "notify" {
				relayID, _ = v["id"].(string)
			}
		}
		if kinds.String() != "connecting welcome live notify " {
			t.Errorf("lines = %s", kinds.String())
		}
		io.WriteString(s.in, `{"id":"`+relayID+`","kind":"displayed"}`+"\n")
		s.settle()
		s.facts(id, map[string]any{"displayed": true})
		io.WriteString(s.in, `{"id":"`+relayID+`","kind":"replied","text":"yes"}`+"\n")
		s.settle()
		s.facts(id, map[string]any{"reply": "yes"})
		s.shows(`{"herald":"replied","id":"` + relayID + `"}`)
	})
}

func TestJSONRefusesReportsThatMakeNoSense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listening(t, func(o *Options) { o.JSON = true })
		for _, line := range []string{"yes", `{"id":"r_1","kind":"seen"}`, `{"id":"r_1","kind":"replied","text":"x","extra":1}`,
			`{"id":"r_000000000000000000000000","kind":"replied","text":"x"}`} {
			before := len(s.jsonLines())
			io.WriteString(s.in, line+"\n")
			s.settle()
			lines := s.jsonLines()
			if len(lines) != before+1 || lines[before]["herald"] != "error" {
				t.Errorf("%s: %v", line, lines[before:])
			}
		}
	})
}

func TestJSONCountEndsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listening(t, func(o *Options) { o.JSON, o.Count = true, 1 })
		s.agent.Send(map[string]any{"title": "T"})
		time.Sleep(time.Minute)
		synctest.Wait()
		select {
		case err := <-s.ended:
			if err != nil {
				t.Errorf("Run = %v", err)
			}
			s.ended <- nil
		default:
			t.Error("still listening")
		}
	})
}
