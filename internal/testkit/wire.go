package testkit

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// Answer is what the relay said.
type Answer struct {
	Status int
	Header http.Header
	Raw    []byte
	Body   map[string]any // nil when Raw is no JSON object
}

// Code is the error code of a refusal, "" otherwise.
func (a Answer) Code() string { return a.Text("error") }

// Text returns a string member of the body.
func (a Answer) Text(name string) string {
	s, _ := a.Body[name].(string)
	return s
}

// Do sends one request. body may be nil, []byte, string or anything that encodes as JSON. header holds name and value pairs.
func (r *Relay) Do(method, path, token string, body any, header ...string) Answer {
	r.T.Helper()
	a, err := r.Try(r.T.Context(), method, path, token, body, header...)
	if err != nil {
		r.T.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// Try is Do for requests that may fail on the way, and for other goroutines than the test's.
func (r *Relay) Try(ctx context.Context, method, path, token string, body any, header ...string) (Answer, error) {
	req, err := r.request(ctx, method, path, token, body)
	if err != nil {
		return Answer{}, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	res, err := r.HTTP.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer res.Body.Close()
	a := Answer{Status: res.StatusCode, Header: res.Header}
	if a.Raw, err = io.ReadAll(res.Body); err != nil {
		return a, err
	}
	_ = json.Unmarshal(a.Raw, &a.Body) // pages and clips are no JSON
	return a, nil
}

func (r *Relay) request(ctx context.Context, method, path, token string, body any) (*http.Request, error) {
	var reader io.Reader
	isJSON := false
	switch b := body.(type) {
	case nil:
	case []byte:
		reader = bytes.NewReader(b)
	case string:
		reader, isJSON = strings.NewReader(b), true
	case io.Reader:
		reader = b
	default:
		data, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		reader, isJSON = bytes.NewReader(data), true
	}
	req, err := http.NewRequestWithContext(ctx, method, r.URL+path, reader)
	if err != nil {
		return nil, err
	}
	if isJSON {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req, nil
}

// Device is a paired device.
type Device struct {
	*Relay
	Mailbox string // the wire's deviceId
	Token   string
}

// Pair pairs a device of the first person; name may be "".
func (r *Relay) Pair(name string) *Device {
	r.T.Helper()
	started := r.Do("POST", "/v1/pair/start", "", map[string]any{"deviceName": name})
	if started.Status != http.StatusCreated {
		r.T.Fatalf("pair start: %d %s", started.Status, started.Raw)
	}
	return r.Redeem(started.Text("code"), name)
}

// Redeem turns a pairing code into a device.
func (r *Relay) Redeem(code, name string) *Device {
	r.T.Helper()
	paired := r.Do("POST", "/v1/pair", "", map[string]any{"code": code, "deviceName": name})
	if paired.Status != http.StatusOK {
		r.T.Fatalf("pair: %d %s", paired.Status, paired.Raw)
	}
	return &Device{Relay: r, Mailbox: paired.Text("deviceId"), Token: paired.Text("deviceToken")}
}

// Link links one more device to the mailbox.
func (d *Device) Link(name string) *Device {
	d.T.Helper()
	started := d.Call("POST", "/v1/device/links", map[string]any{"deviceName": name})
	if started.Status != http.StatusCreated {
		d.T.Fatalf("link: %d %s", started.Status, started.Raw)
	}
	return d.Redeem(started.Text("code"), name)
}

// Call sends a request with the device's token.
func (d *Device) Call(method, path string, body any, header ...string) Answer {
	d.T.Helper()
	return d.Do(method, path, d.Token, body, header...)
}

// Agent holds an agent key.
type Agent struct {
	*Relay
	ID, Token string
}

// Agent makes a key of the device's mailbox.
func (d *Device) Agent(name string) *Agent {
	d.T.Helper()
	made := d.Call("POST", "/v1/device/keys", map[string]any{"name": name})
	if made.Status != http.StatusCreated {
		d.T.Fatalf("make key: %d %s", made.Status, made.Raw)
	}
	return &Agent{Relay: d.Relay, ID: made.Text("id"), Token: made.Text("key")}
}

// Call sends a request with the agent's key.
func (a *Agent) Call(method, path string, body any, header ...string) Answer {
	a.T.Helper()
	return a.Do(method, path, a.Token, body, header...)
}

// Send sends a notification and expects it to be queued. It returns the notificationId.
func (a *Agent) Send(fields map[string]any) string {
	a.T.Helper()
	sent := a.Call("POST", "/v1/notify", fields)
	if sent.Status != http.StatusAccepted {
		a.T.Fatalf("notify: %d %s", sent.Status, sent.Raw)
	}
	return sent.Text("notificationId")
}

// Stream is a device's open stream.
type Stream struct {
	*Device
	Conn *websocket.Conn
}

// Frame is one JSON message of the stream.
type Frame map[string]any

// Text returns a string member.
func (f Frame) Text(name string) string {
	s, _ := f[name].(string)
	return s
}

// Stream opens the device's stream and takes the welcome. It closes when the test ends.
func (d *Device) Stream() *Stream {
	d.T.Helper()
	s, err := d.Dial()
	if err != nil {
		d.T.Fatalf("open stream: %v", err)
	}
	if f := s.Next(); f.Text("type") != "welcome" {
		d.T.Fatalf("first frame = %v, want welcome", f)
	}
	return s
}

// Dial opens the device's stream and takes nothing from it.
func (d *Device) Dial() (*Stream, error) {
	conn, _, err := websocket.Dial(d.T.Context(), d.URL+"/v1/device/stream", &websocket.DialOptions{
		HTTPClient: d.HTTP, HTTPHeader: http.Header{"Authorization": {"Bearer " + d.Token}},
	})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(1 << 20)
	d.T.Cleanup(func() { _ = conn.CloseNow() })
	return &Stream{Device: d, Conn: conn}, nil
}

// frameWithin is how long Next waits.
const frameWithin = 10 * time.Second

// Next returns the next JSON frame.
func (s *Stream) Next() Frame {
	s.T.Helper()
	f, err := s.TryNext(frameWithin)
	if err != nil {
		s.T.Fatalf("next frame: %v", err)
	}
	return f
}

// TryNext returns the next JSON frame, or why there was none within the time. After a timeout the stream is unusable.
func (s *Stream) TryNext(within time.Duration) (Frame, error) {
	ctx, cancel := context.WithTimeout(s.T.Context(), within)
	defer cancel()
	_, data, err := s.Conn.Read(ctx)
	if err != nil {
		return nil, err
	}
	var f Frame
	return f, json.Unmarshal(data, &f)
}

// Text writes one text message as it is.
func (s *Stream) Text(text string) {
	s.T.Helper()
	if err := s.Conn.Write(s.T.Context(), websocket.MessageText, []byte(text)); err != nil {
		s.T.Fatalf("write to the stream: %v", err)
	}
}

// Send writes one JSON frame.
func (s *Stream) Send(f Frame) {
	s.T.Helper()
	data, err := json.Marshal(f)
	if err != nil {
		s.T.Fatal(err)
	}
	s.Text(string(data))
}

// Closed waits for the stream's end and returns its close code; -1 when it ended without one.
func (s *Stream) Closed() websocket.StatusCode {
	s.T.Helper()
	for {
		ctx, cancel := context.WithTimeout(s.T.Context(), frameWithin)
		_, _, err := s.Conn.Read(ctx)
		cancel()
		if err != nil {
			return websocket.CloseStatus(err)
		}
	}
}
