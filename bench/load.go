package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// conn is an HTTP/1.1 client so thin that the load generator is not what is measured.
type conn struct {
	net.Conn
	r *bufio.Reader
}

func dial(addr string) (*conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{c, bufio.NewReaderSize(c, 4096)}, nil
}

func dialTLS(addr string) (*conn, error) {
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}) // a certificate of our own making, on loopback
	if err != nil {
		return nil, err
	}
	return &conn{c, bufio.NewReaderSize(c, 512)}, nil
}

func request(method, path, token string, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n", method, path, token)
	if body != nil {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// do sends one prepared request and returns status and body.
func (c *conn) do(req []byte) (status int, body []byte, err error) {
	if _, err := c.Write(req); err != nil {
		return 0, nil, err
	}
	return c.answer()
}

func (c *conn) answer() (status int, body []byte, err error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return 0, nil, err
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, nil, err
	}
	length := 0
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return 0, nil, err
		}
		if len(line) <= 2 {
			break
		}
		if rest, ok := bytes.CutPrefix(bytes.ToLower(line), []byte("content-length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(rest))); err != nil {
				return 0, nil, err
			}
		}
	}
	body = make([]byte, length)
	_, err = io.ReadFull(c.r, body)
	return status, body, err
}

// hammer sends requests over that many connections for a while and returns answers per second and their median time.
// next makes the n-th request of a connection.
func hammer(addr string, conns int, length time.Duration, want int, next func(worker, n int) []byte) (perSecond float64, p50 time.Duration, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var times []time.Duration
	begin := time.Now()
	for worker := range conns {
		wg.Go(func() {
			mine, e := hammerOne(addr, begin.Add(length), want, func(n int) []byte { return next(worker, n) })
			mu.Lock()
			defer mu.Unlock()
			times = append(times, mine...)
			if e != nil {
				err = e
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(begin)
	return float64(len(times)) / elapsed.Seconds(), quantile(times, 0.5), err
}

func hammerOne(addr string, until time.Time, want int, next func(n int) []byte) (times []time.Duration, err error) {
	c, err := dial(addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for n := 0; ; n++ {
		begin := time.Now()
		if begin.After(until) {
			return times, nil
		}
		status, body, err := c.do(next(n))
		if err != nil {
			return times, err
		}
		if status != want {
			return times, fmt.Errorf("answered %d %s, want %d", status, body, want)
		}
		times = append(times, time.Since(begin))
	}
}

// typicalBody is a notification of ordinary size, about 370 bytes.
func typicalBody(id string) []byte {
	named := ""
	if id != "" {
		named = `"notificationId":"` + id + `",`
	}
	return []byte(`{` + named + `"title":"Deploy finished","body":"The deployment of api 4.2.1 to production finished without errors after 3 minutes; ` +
		`12 of 12 checks are green and traffic is back to normal.","project":"api","status":"success","tags":["deploy","production"],` +
		`"priority":"high","link":"https://ci.example.com/runs/81723","expectReply":true,"timeoutSeconds":120}`)
}
