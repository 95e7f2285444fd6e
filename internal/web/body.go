package web

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/herald-relay/herald/internal/fault"
)

// BodyWithin is how long a request's body may take to arrive, whether a handler reads it or not: net/http reads past
// what is left of a body before it answers, and would wait for a stranger who sends none for as long as he likes.
const BodyWithin = 15 * time.Second

// boundBody starts that time. A transport without deadlines is a test's.
func boundBody(w http.ResponseWriter, r *http.Request, now time.Time) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(now.Add(BodyWithin))
	}
}

// SmallBody bounds the bodies of routes that have no limit of their own.
const SmallBody = 64 << 10

// ReadBody reads a whole request body of at most limit bytes. A longer one, declared or real, is too_large; one that breaks
// off or takes longer than BodyWithin is invalid_request. Once it is there the connection's read deadline is lifted, so
// a handler may wait afterwards.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	data, err := readUpTo(r, limit)
	if err != nil {
		w.Header().Set("Connection", "close") // the rest is not worth reading past
		return nil, err
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return data, nil
}

func readUpTo(r *http.Request, limit int64) (data []byte, err error) {
	switch {
	case r.ContentLength > limit:
		return nil, tooLarge(limit)
	case r.ContentLength > 0:
		data = make([]byte, r.ContentLength)
		_, err = io.ReadFull(r.Body, data)
	default:
		data, err = io.ReadAll(io.LimitReader(r.Body, limit+1))
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fault.InvalidRequest("", "the request body did not arrive within %d seconds; send it whole at once", int(BodyWithin.Seconds()))
	case err != nil:
		return nil, fault.InvalidRequest("", "the request body did not arrive whole; send it again").Because(err)
	case int64(len(data)) > limit:
		return nil, tooLarge(limit)
	}
	return data, nil
}

func tooLarge(limit int64) error {
	return fault.New(fault.TooLarge, "too_large", "the request body may have at most %d bytes", limit)
}

// RequireJSON refuses a body that is declared to be something else than JSON. A request that declares nothing passes.
func RequireJSON(r *http.Request) error {
	header := r.Header.Get("Content-Type")
	if header == "" || header == "application/json" {
		return nil
	}
	base, params, err := mime.ParseMediaType(header)
	charset := params["charset"]
	isJSON := base == "application/json" || strings.HasPrefix(base, "application/") && strings.HasSuffix(base, "+json")
	if err != nil || !isJSON || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return fault.New(fault.Unsupported, "unsupported_media_type", "send the body as JSON with content-type application/json")
	}
	return nil
}

// Shared header values: net/http never changes them.
var (
	jsonType = []string{"application/json; charset=utf-8"}
	noStore  = []string{"no-store"}
	noSniff  = []string{"nosniff"}
)

// WriteJSON answers with one JSON value.
func WriteJSON(w http.ResponseWriter, status int, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	h := w.Header()
	h["Content-Type"] = jsonType
	h["X-Content-Type-Options"] = noSniff
	if _, set := h["Cache-Control"]; !set {
		h["Cache-Control"] = noStore
	}
	h["Content-Length"] = []string{strconv.Itoa(len(data))}
	w.WriteHeader(status)
	_, _ = w.Write(data) // a failure means that the reader is gone, and nobody is left to tell
	return nil
}
