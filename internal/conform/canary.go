package conform

import (
	"net"
	"sync"
	"sync/atomic"
)

// Canary counts connections to a loopback address that a server on the same machine must not call.
type Canary struct {
	listener net.Listener
	hits     atomic.Int64
	done     sync.WaitGroup
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

// Close ends it.
func (c *Canary) Close() {
	_ = c.listener.Close()
	c.done.Wait()
}
