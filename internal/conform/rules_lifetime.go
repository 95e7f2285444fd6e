package conform

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// lastErrors are the words of deliveryStatus, and in dialect SEP those of a failed verification.
var lastErrors = []string{"connection_refused", "timeout", "tls_error", "http_4xx", "http_5xx", "challenge_failed"}

func (r *run) nullIsAsked() error {
	s, err := r.main()
	if err != nil {
		return err
	}
	for _, ttl := range []any{absent{}, 3_600_000} {
		a, err := r.again(s, func(p params) params { return p.with("ttlMs", ttl) })
		if err != nil {
			return err
		}
		if string(a.result["refreshBefore"]) == "null" {
			return a.but("refreshBefore: a time")
		}
	}
	return nil
}

// takesTTL checks that values of ttlMs are not refused. It ends with a call without one, which leaves the default.
func (r *run) takesTTL(values ...any) error {
	s, err := r.main()
	if err != nil {
		return err
	}
	for _, ttl := range append(values, absent{}) {
		a, err := r.again(s, func(p params) params { return p.with("ttlMs", ttl) })
		if err != nil {
			return err
		}
		if a.wantResult() != nil {
			return a.but("a result with refreshBefore")
		}
	}
	return nil
}

// grantsNoMore asks for two lifetimes. A grant that is longer than asked is the server's minimum if asking for less gets the same.
func (r *run) grantsNoMore() error {
	s, err := r.main()
	if err != nil {
		return err
	}
	const slack = 30 * time.Second
	var granted [2]time.Duration
	for i, ttl := range []time.Duration{2 * time.Hour, 10 * time.Minute} {
		asked := time.Now()
		a, err := r.again(s, func(p params) params { return p.with("ttlMs", ttl.Milliseconds()) })
		if err != nil {
			return err
		}
		at, ok := grant(a)
		if !ok {
			return cannot("a grant cannot be read; rules 302 and 322 look at it")
		}
		granted[i] = at.Sub(asked)
		if i == 1 && granted[0] > 2*time.Hour+slack && (granted[0]-granted[1]).Abs() > slack {
			return a.but("the same grant as for two hours, which got %v, or no more than asked", granted[0].Round(time.Second))
		}
	}
	return nil
}

func (r *run) takesAnyCursor() error {
	s, err := r.main()
	if err != nil {
		return err
	}
	for _, cursor := range []string{"herald check", "999999999999999", ""} {
		a, err := r.again(s, func(p params) params { return p.with("cursor", cursor) })
		if err != nil {
			return err
		}
		if err := a.wantResult(); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) takesNoCursor() error {
	s, err := r.main()
	if err != nil {
		return err
	}
	a, err := r.again(s, func(p params) params { return p.with("cursor", absent{}) })
	if err != nil {
		return err
	}
	return a.wantResult()
}

func (r *run) cursorIsConsistent() error {
	s, err := r.main()
	if err != nil {
		return err
	}
	for range 2 {
		a, err := r.again(s, nil)
		if err != nil {
			return err
		}
		if a.result != nil && isNull(a.result["cursor"]) != isNull(s.reply.result["cursor"]) {
			return a.but("a cursor like that of the first call, %s", quote(string(s.reply.result["cursor"])))
		}
	}
	return nil
}

func (r *run) refreshIsQuiet() error {
	s, err := r.main()
	if err != nil {
		return err
	}
	before, _ := s.of("verification")
	a, err := r.again(s, nil)
	if err != nil {
		return err
	}
	after, _ := s.of("verification")
	if len(after) > len(before) {
		return fail(a.sent, "no further challenge", "%s", after[len(after)-1])
	}
	return nil
}

func (r *run) refusesNobody() error {
	if r.o.Authorize == nil {
		return cannot("the check runs without a credential itself")
	}
	p, err := r.sound()
	if err != nil {
		return err
	}
	a, err := r.do(request{method: "events/subscribe", params: p, id: "1", anon: true})
	if err != nil {
		return err
	}
	if a.status == 401 || a.status == 403 {
		return nil
	}
	if a.wantError(r.dialect.codes().forbidden) != nil {
		return fail(a.sent+" without a credential", "HTTP 401 or 403, or Forbidden", "%s", a)
	}
	return nil
}

// statusIsClosed looks at a refresh after deliveries have failed, when there was a trigger.
func (r *run) statusIsClosed() error {
	s, err := r.main()
	if err != nil {
		return err
	}
	_, _ = r.retry() // so that there is something to report; rule 512 judges it
	a, err := r.again(s, nil)
	if err != nil {
		return err
	}
	var status object
	raw, has := a.result["deliveryStatus"]
	if !has {
		return cannot("the server reports no deliveryStatus")
	}
	_ = json.Unmarshal(raw, &status) // what is no object says nothing
	last := status["lastError"]
	if !isBool(status["active"]) || !isNull(last) && !slices.Contains(lastErrors, text(last)) {
		return a.but("deliveryStatus with active, and lastError null or one of %s", strings.Join(lastErrors, ", "))
	}
	return nil
}
