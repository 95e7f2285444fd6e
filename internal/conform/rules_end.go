package conform

import (
	"encoding/json"
)

var endRules = []Rule{
	{Number: 901, Group: Control, Level: Must, Source: "SEP-3415, events/stream (a.6, e.8)", Needs: onlyText,
		Text: "A subscription that the server ends is told on its stream: terminated, with an error of code and message.", check: (*run).streamIsTerminated},
	{Number: 902, Group: Control, Level: Must, Dialects: bySEP, Source: "SEP-3415, control bodies (b.10)", Needs: onlyText,
		Text: "A subscription that the server ends is told at its address: a body of type terminated.", check: (*run).addressIsTold},
	{Number: 906, Group: Control, Level: Must, Source: "SEP-3415, events/stream (a.6, b.4)", Needs: onlyText,
		Text: "After terminated a stream ends with the result of its call; in dialect sep with resultType complete.", check: (*run).streamHasResult},
}

// ended has the server end everything of the target, for good, while the main stream and subscription are there.
func (r *run) ended() error {
	_, err := once(r, "ended", func() (struct{}, error) {
		if r.o.End == nil {
			return struct{}{}, cannot("nothing makes the server end a subscription")
		}
		e, err := r.target()
		if err != nil {
			return struct{}{}, err
		}
		if e.offers("push") {
			_, _ = r.watch() // rule 801 looks at it
		}
		if e.offers("webhook") && r.o.Receiver != nil {
			_, _ = r.main() // rule 301 looks at it
		}
		if err := r.o.End(r.ctx, e.Name); err != nil {
			return struct{}{}, cannot("ending subscriptions failed: %v", err)
		}
		return struct{}{}, nil
	})
	return err
}

// terminated is the end of the main stream as the server told it.
func (r *run) terminated() (*stream, frame, error) {
	if err := r.ended(); err != nil {
		return nil, frame{}, err
	}
	s, err := r.watch()
	if err != nil {
		return nil, frame{}, lean(err)
	}
	f, ok := s.await(r.ctx, 1, r.o.Wait, isMethod(notifyTerminated))
	if !ok {
		return s, f, &refused{"the stream was not terminated", s.but(notifyTerminated)}
	}
	return s, f, nil
}

func (r *run) streamIsTerminated() error {
	s, f, err := r.terminated()
	if err != nil {
		return owned(err)
	}
	if !isError(f.params["error"]) {
		return s.but("terminated with an error of code and message")
	}
	return nil
}

// isError reports whether a member is an error object.
func isError(raw json.RawMessage) bool {
	var e rpcError
	return json.Unmarshal(raw, &e) == nil && e.Code != statusNoMeaning && e.Message != ""
}

func (r *run) streamHasResult() error {
	s, _, err := r.terminated()
	if err != nil {
		return err
	}
	last, ok := s.await(r.ctx, 1, r.o.Timeout, func(f *frame) bool { return f.message["result"] != nil })
	var result object
	_ = json.Unmarshal(last.message["result"], &result) // what is no object has no members
	if !ok || string(last.message["id"]) != s.id || r.dialect == SEP && text(result["resultType"]) != "complete" {
		return s.but("the result of the call, with its id")
	}
	return nil
}

func (r *run) addressIsTold() error {
	if err := r.ended(); err != nil {
		return err
	}
	s, err := r.main()
	if err != nil {
		return err
	}
	if list := s.await(r.ctx, "terminated", 1, r.o.Wait); len(list) == 0 {
		return fail("the end of the subscription", "a body of type terminated", "none within %v", r.o.Wait)
	}
	return nil
}
