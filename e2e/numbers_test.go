package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// numbers are what a process holds.
type numbers struct{ goroutines, files int }

// serveWatched is serve with a private listener, for numbers.
func serveWatched(t *testing.T, dir string, env ...string) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free now and in all likelihood in a moment too
	if err != nil {
		t.Fatal(err)
	}
	private := l.Addr().String()
	l.Close()
	s := serve(t, dir, append(env, "HERALD_PRIVATE_LISTEN="+private)...)
	s.private = "http://" + private
	return s
}

var goroutines = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)

// numbers counts the goroutines and open files of the process.
func (s *server) numbers() (n numbers) {
	s.t.Helper()
	m := goroutines.FindSubmatch(s.ask("/metrics"))
	if m == nil {
		s.t.Fatal("the metrics tell no goroutines")
	}
	n.goroutines, _ = strconv.Atoi(string(m[1]))
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	n.files = len(files)
	return n
}

// ask reads a page of the private listener.
func (s *server) ask(path string) []byte {
	s.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	res, err := client.Get(s.private + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return page
}

// settles holds that within the time the process holds no more than before. A few goroutines come and go by themselves:
// those of the garbage collector and of the connection that asks.
func (s *server) settles(before numbers, within time.Duration) {
	s.t.Helper()
	const few = 5
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		n := s.numbers()
		if n.goroutines <= before.goroutines+few && n.files <= before.files+few {
			return
		}
		if time.Since(begin) > within {
			s.t.Errorf("after %s the process holds %+v, before %+v:\n%s", within, n, before, s.ask("/debug/pprof/goroutine?debug=1"))
			return
		}
	}
}
