package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/herald-relay/herald/mcpevents"
)

// serveReceiver takes every delivery at once, over TLS.
func serveReceiver(ctx context.Context) error {
	l, err := selfSigned()
	if err != nil {
		return err
	}
	srv := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	})}
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	fmt.Println("ready", l.Addr())
	_ = srv.Serve(l)
	return nil
}

// serveEvents is an MCP server with one event type, whose callers are nobody.
func serveEvents(ctx context.Context, dir string) error {
	e, err := openEvents(dir, 0, nowhere{}, mcpevents.Engine{})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	anybody := func(*http.Request) (mcpevents.Caller, error) { return mcpevents.Caller{}, nil }
	srv := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: mcpevents.NewHandler(e.Server, anybody, &mcpevents.HandlerOptions{Detach: true})}
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	ran := make(chan error, 1)
	go func() { ran <- e.Run(ctx) }()
	fmt.Println("ready", l.Addr())
	_ = srv.Serve(l)
	return errors.Join(<-ran, e.store.Close())
}

const streamCall = `{"jsonrpc":"2.0","id":1,"method":"events/stream","params":{"name":"` + eventName + `","_meta":{` +
	`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/events":{}}}}}}`

// eventsStreams measures what idle events/stream calls cost the server.
func eventsStreams(r *report, s scale) error {
	return inTemp(func(dir string) error {
		server, err := start("serve-events", dir)
		if err != nil {
			return err
		}
		defer server.stop()
		warm, err := openEventStreams(server.addr, 10)
		if err != nil {
			return err
		}
		defer closeConns(warm)
		before, _, err := server.settle()
		if err != nil {
			return err
		}
		many, err := openEventStreams(server.addr, s.streams)
		if err != nil {
			return err
		}
		defer closeConns(many)
		after, goroutines, err := server.settle()
		if err != nil {
			return err
		}
		r.note("idle event streams", "%d, %d goroutines in the server", len(many), goroutines)
		r.most("idle event stream, resident", float64(after-before)/float64(len(many))/1024, 24, " KiB")
		return nil
	})
}

func openEventStreams(addr string, count int) ([]*conn, error) {
	list := make([]*conn, count)
	head := fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: events/stream\r\nContent-Length: %d\r\n\r\n", len(streamCall))
	call := append(head, streamCall...)
	return list, inParallel(count, func(i int) error {
		c, err := dial(addr)
		if err != nil {
			return err
		}
		list[i] = c
		if _, err := c.Write(call); err != nil {
			return err
		}
		for { // up to the first frame, which says that the stream is open
			line, err := c.r.ReadSlice('\n')
			if err != nil {
				return err
			}
			if bytes.HasPrefix(line, []byte("data: ")) {
				if !bytes.Contains(line, []byte(mcpevents.NotifyActive)) {
					return fmt.Errorf("stream refused: %s", line)
				}
				return nil
			}
			if bytes.HasPrefix(line, []byte("HTTP/1.1 ")) && !bytes.Contains(line, []byte(" 200 ")) {
				return fmt.Errorf("stream refused: %s", line)
			}
		}
	})
}

func closeConns(list []*conn) {
	for _, c := range list {
		if c != nil {
			_ = c.Close()
		}
	}
}
