package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"
)

// stream is a device so thin that ten thousand fit beside the relay: a raw connection after the upgrade.
type stream struct{ *conn }

func openStream(c *conn, token string) (*stream, error) {
	fmt.Fprintf(c, "GET /v1/device/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\n"+
		"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", token)
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if !bytes.Contains([]byte(line), []byte(" 101 ")) {
		return nil, fmt.Errorf("stream refused: %s", line)
	}
	for line != "\r\n" {
		if line, err = c.r.ReadString('\n'); err != nil {
			return nil, err
		}
	}
	s := &stream{c}
	_, err = s.next() // welcome
	return s, err
}

// next returns the next message; the server never masks and never splits.
func (s *stream) next() ([]byte, error) {
	var head [2]byte
	if _, err := io.ReadFull(s.r, head[:]); err != nil {
		return nil, err
	}
	length := uint64(head[1] & 0x7f)
	switch length {
	case 126:
		var b [2]byte
		if _, err := io.ReadFull(s.r, b[:]); err != nil {
			return nil, err
		}
		length = uint64(binary.BigEndian.Uint16(b[:]))
	case 127:
		var b [8]byte
		if _, err := io.ReadFull(s.r, b[:]); err != nil {
			return nil, err
		}
		length = binary.BigEndian.Uint64(b[:])
	}
	data := make([]byte, length)
	_, err := io.ReadFull(s.r, data)
	return data, err
}

// send writes one masked text message.
func (s *stream) send(text []byte) error {
	frame := []byte{0x81}
	if len(text) < 126 {
		frame = append(frame, 0x80|byte(len(text)))
	} else {
		frame = append(frame, 0x80|126, byte(len(text)>>8), byte(len(text)))
	}
	frame = append(frame, 0, 0, 0, 0) // a mask of zeros changes nothing
	_, err := s.Write(append(frame, text...))
	return err
}

// relayID finds "id":"r_…" in a notify frame.
func relayID(frame []byte) []byte {
	_, rest, _ := bytes.Cut(frame, []byte(`"id":"`))
	return rest[:min(26, len(rest))]
}

// benchLoop times notify, stream, reply, long-poll, 200 times a second, against the disk's own commit time.
func benchLoop(r *report, s scale) error {
	return inTemp(func(dir string) error {
		const pairs = 32
		boxes, err := seed(dir, pairs, 0)
		if err != nil {
			return err
		}
		before, err := commitTime(dir)
		if err != nil {
			return err
		}
		relay, err := start("serve-relay", dir)
		if err != nil {
			return err
		}
		defer relay.stop()
		times, err := loops(relay.addr, boxes, s.loops)
		if err != nil {
			return err
		}
		after, err := commitTime(dir)
		if err != nil {
			return err
		}
		commit := (before + after) / 2
		p50, p99 := quantile(times, 0.5), quantile(times, 0.99)
		r.note("one durable commit, alone", "%s", commit)
		r.note("loops", "%d, p50 %s, p99 %s", len(times), p50, p99)
		r.most("loop p50 to the time of two durable commits", float64(p50)/float64(2*commit), 2.5, "x")
		r.most("loop p99 to p50", float64(p99)/float64(p50), 5, "x")
		return nil
	})
}

// loops starts 200 loops a second, spread over the mailboxes, and returns their times.
func loops(addr string, boxes []box, length time.Duration) (all []time.Duration, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	pause := time.Second * time.Duration(len(boxes)) / 200
	for i := range boxes {
		wg.Go(func() {
			mine, e := loopOne(addr, &boxes[i], length, pause, pause*time.Duration(i)/time.Duration(len(boxes)))
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
			if e != nil {
				err = e
			}
		})
	}
	wg.Wait()
	return all, err
}

func loopOne(addr string, b *box, length, pause, offset time.Duration) (times []time.Duration, err error) {
	agent, err := dial(addr)
	if err != nil {
		return nil, err
	}
	defer agent.Close()
	c, err := dial(addr)
	if err != nil {
		return nil, err
	}
	device, err := openStream(c, b.device)
	if err != nil {
		return nil, err
	}
	defer device.Close()
	time.Sleep(offset)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	until := time.Now().Add(length)
	for n := 0; time.Now().Before(until); n++ {
		begin := time.Now()
		if err := oneLoop(agent, device, b, fmt.Sprintf("loop-%d", n)); err != nil {
			return times, err
		}
		if n > 3 {
			times = append(times, time.Since(begin))
		}
		<-tick.C
	}
	return times, nil
}

func oneLoop(agent *conn, device *stream, b *box, id string) error {
	if status, body, err := agent.do(request("POST", "/v1/notify", b.key, typicalBody(id))); err != nil || status != 202 {
		return fmt.Errorf("notify: %d %s %v", status, body, err)
	}
	if _, err := agent.Write(request("GET", "/v1/replies/"+id+"?wait=20", b.key, nil)); err != nil {
		return err
	}
	var frame []byte
	for !bytes.Contains(frame, []byte(`"notify"`)) { // past the hints of earlier replies
		var err error
		if frame, err = device.next(); err != nil {
			return err
		}
	}
	if err := device.send(fmt.Appendf(nil, `{"type":"receipt","id":"%s","kind":"replied","text":"yes"}`, relayID(frame))); err != nil {
		return err
	}
	status, body, err := agent.answer()
	if err != nil || status != 200 || !bytes.Contains(body, []byte(`"reply":"yes"`)) {
		return fmt.Errorf("reply: %d %s %v", status, body, err)
	}
	return nil
}

// benchIdle measures what idle streams cost, and what they cost a notification that is none of theirs.
func benchIdle(r *report, s scale) error {
	if err := idle(r, s, "serve-relay", "plain", 12, dial, true); err != nil {
		return err
	}
	return idle(r, s, "serve-relay-tls", "TLS", 24, dialTLS, false)
}

func idle(r *report, s scale, mode, label string, limit float64, dial func(string) (*conn, error), latency bool) error {
	return inTemp(func(dir string) error {
		boxes, err := seed(dir, s.streams+10, 0)
		if err != nil {
			return err
		}
		relay, err := start(mode, dir)
		if err != nil {
			return err
		}
		defer relay.stop()
		few, err := openStreams(relay.addr, boxes[:10], dial)
		if err != nil {
			return err
		}
		defer closeAll(few)
		var alone []time.Duration
		if latency {
			if alone, err = deliveries(relay.addr, few, boxes); err != nil {
				return err
			}
		}
		before, _, err := relay.settle()
		if err != nil {
			return err
		}
		many, err := openStreams(relay.addr, boxes[10:], dial)
		if err != nil {
			return err
		}
		defer closeAll(many)
		after, goroutines, err := relay.settle()
		if err != nil {
			return err
		}
		r.note(label+" idle streams", "%d, %d goroutines in the relay", len(many), goroutines)
		r.most(label+" idle stream, resident", float64(after-before)/float64(len(many))/1024, limit, " KiB")
		if !latency {
			return nil
		}
		crowded, err := deliveries(relay.addr, few, boxes)
		if err != nil {
			return err
		}
		r.note("notify to frame, alone and crowded", "%s, %s", quantile(alone, 0.5), quantile(crowded, 0.5))
		r.most("notify to frame among idle streams to 10 streams", float64(quantile(crowded, 0.5))/float64(quantile(alone, 0.5)), 1.2, "x")
		return nil
	})
}

func openStreams(addr string, boxes []box, dial func(string) (*conn, error)) ([]*stream, error) {
	list := make([]*stream, len(boxes))
	return list, inParallel(len(boxes), func(i int) error {
		c, err := dial(addr)
		if err != nil {
			return err
		}
		c.r = bufio.NewReaderSize(c.Conn, 512)
		list[i], err = openStream(c, boxes[i].device)
		return err
	})
}

func closeAll(list []*stream) {
	for _, s := range list {
		if s != nil {
			_ = s.Close()
		}
	}
}

// deliveries times notify to frame on the given streams, one after the other.
func deliveries(addr string, streams []*stream, boxes []box) (times []time.Duration, err error) {
	agent, err := dial(addr)
	if err != nil {
		return nil, err
	}
	defer agent.Close()
	for n := range 600 {
		i := n % len(streams)
		begin := time.Now()
		if _, err := agent.Write(request("POST", "/v1/notify", boxes[i].key, typicalBody(""))); err != nil {
			return nil, err
		}
		frame, err := streams[i].next()
		if err != nil {
			return nil, err
		}
		times = append(times, time.Since(begin))
		if _, _, err := agent.answer(); err != nil {
			return nil, err
		}
		if err := streams[i].send(fmt.Appendf(nil, `{"type":"ack","id":"%s"}`, relayID(frame))); err != nil {
			return nil, err
		}
	}
	return times, nil
}

// benchPolls measures what parked long-polls cost, and that aborted ones leave nothing behind.
func benchPolls(r *report, s scale) error {
	return parkedWaits(r, s.polls, 20, "parked long-poll, resident", func(b box) []byte {
		return request("GET", "/v1/replies/known?wait=60", b.key, nil)
	})
}

// parkedWaits has that many agents wait by a request, weighs them, and sees that they leave nothing when they hang up.
func parkedWaits(r *report, count int, most float64, what string, wait func(box) []byte) error {
	return inTemp(func(dir string) error {
		boxes, err := seed(dir, count, 0)
		if err != nil {
			return err
		}
		relay, err := start("serve-relay", dir)
		if err != nil {
			return err
		}
		defer relay.stop()
		if err := (&target{relay, boxes}).sendKnown(len(boxes)); err != nil {
			return err
		}
		before, goroutines, err := relay.settle()
		if err != nil {
			return err
		}
		files, err := relay.files()
		if err != nil {
			return err
		}
		parked, err := park(relay.addr, boxes, wait)
		if err != nil {
			return err
		}
		time.Sleep(3 * time.Second)
		after, _, err := relay.settle()
		if err != nil {
			return err
		}
		r.most(what, float64(after-before)/float64(len(boxes))/1024, most, " KiB")
		for _, c := range parked {
			_ = c.Close()
		}
		return gone(r, relay, goroutines, files)
	})
}

// sendKnown gives so many mailboxes a notification whose id is known, over connections that it closes again.
func (t *target) sendKnown(count int) error {
	return inParallel(count, func(i int) error {
		c, err := dial(t.relay.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		status, body, err := c.do(request("POST", "/v1/notify", t.boxes[i].key, typicalBody("known")))
		if err == nil && status != 202 {
			err = fmt.Errorf("notify: %d %s", status, body)
		}
		return err
	})
}

func park(addr string, boxes []box, wait func(box) []byte) ([]*conn, error) {
	list := make([]*conn, len(boxes))
	return list, inParallel(len(boxes), func(i int) error {
		c, err := dial(addr)
		if err != nil {
			return err
		}
		list[i] = c
		_, err = c.Write(wait(boxes[i]))
		return err
	})
}

func gone(r *report, relay *process, goroutines, files int) error {
	begin := time.Now()
	for {
		_, now, err := relay.settle()
		if err != nil {
			return err
		}
		open, err := relay.files()
		if err != nil {
			return err
		}
		left := max(0, now-goroutines) + max(0, open-files)
		if left == 0 || time.Since(begin) > 8*time.Second {
			r.note("left behind by aborted long-polls", "%d goroutines and files", left)
			r.most("time until aborted long-polls left nothing", time.Since(begin).Seconds(), 5, " s")
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}
