package conform

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Canary counts connections to a loopback address that a server on the same machine must not call.
type Canary struct {
	listener net.Listener
	hits     atomic.Int64
	done     sync.WaitGroup
	own      int64
}

// ListenCanary opens one.
func ListenCanary() (*Canary, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &Canary{listener: l}
	c.done.Go(c.count)
	return c, nil
}

func (c *Canary) count() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return // it was closed
		}
		c.hits.Add(1)
		_ = conn.Close() // whoever called gets nothing
	}
}

// strangers is how many others connected so far. It connects itself to know: whoever did before is counted by then.
func (c *Canary) strangers() (int64, error) {
	conn, err := net.Dial("tcp", c.listener.Addr().String())
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, conn) // until it was counted
	_ = conn.Close()
	c.own++
	return c.hits.Load() - c.own, nil
}

// Close ends it.
func (c *Canary) Close() {
	_ = c.listener.Close()
	c.done.Wait()
}
